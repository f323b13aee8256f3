"""What is used again, and what never is."""

import math
import os
from pathlib import Path

import msgspec
import pytest

from auditors.types import Completion, CompletionRequest, Message
from benchmarks.run.completers.reply_cache import ReplyCache, is_from_cache

ASKED = CompletionRequest(model="m", messages=(Message("user", "Who?"),), max_tokens=5, temperature=0.0)
PROBE = msgspec.structs.replace(ASKED, messages=(Message("user", "Is 17 a prime?"),), temperature=None)


class Server:
    """Answers with the number of the request."""

    def __init__(self, fingerprint: str | None = "weights-1") -> None:
        self.fingerprint = fingerprint
        self.n = 0

    async def complete(self, request: CompletionRequest) -> Completion:
        self.n += 1
        usage = {"prompt_tokens": 3}
        return Completion(text=str(self.n), finish_reason="stop", fingerprint=self.fingerprint, usage=usage)

    async def aclose(self) -> None:
        """Holds nothing open."""


async def said(
    server: Server, folder: Path, *requests: CompletionRequest, origin: str = "http://a", before: float = math.inf
) -> list[Completion]:
    """The replies of one run: a probe, then the requests."""
    cache = ReplyCache(server, origin, folder, before=before)
    await cache.complete(PROBE)
    return [await cache.complete(request) for request in requests]


def kept_in(folder: Path) -> Path:
    """The one file of a cache."""
    [file] = [path for path in folder.rglob("*") if path.is_file()]
    return file


async def test_the_same_request_is_used_again_once_a_run(tmp_path: Path) -> None:
    """A later run gets the reply as it was, marked; asked a second time in that run, the server is asked."""
    server = Server()
    [first] = await said(server, tmp_path, ASKED)
    again, asked = await said(server, tmp_path, ASKED, ASKED)

    assert not is_from_cache(first.usage)
    assert (again.text, again.finish_reason) == (first.text, first.finish_reason)
    assert again.usage == {"prompt_tokens": 3, "requests": 0, "from_cache": 1}
    assert is_from_cache(again.usage)
    assert not is_from_cache(asked.usage)
    assert server.n == 4


async def test_a_resumed_run_does_not_use_its_own_replies(tmp_path: Path) -> None:
    """What was kept after the run began is its own: a second sample, or a repeat, is asked of the server."""
    server = Server()
    await said(server, tmp_path, ASKED)
    os.utime(kept_in(tmp_path), (1000.0, 1000.0))

    assert is_from_cache((await said(server, tmp_path, ASKED, before=1001.0))[0].usage)
    assert not is_from_cache((await said(server, tmp_path, ASKED, before=1000.0))[0].usage)


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0.7},
        {"temperature": None},
        {"model": "other"},
        {"max_tokens": 6},
        {"seed": 1},
        {"messages": (Message("user", "Who else?"),)},
        {"extra": {"top_k": 50}},
    ],
)
async def test_another_request_is_asked(tmp_path: Path, changes: dict[str, object]) -> None:
    """Whatever is in the body; and nothing that is drawn at random is ever used again."""
    server = Server()
    other = msgspec.structs.replace(ASKED, **changes)
    await said(server, tmp_path, ASKED)
    first = await said(server, tmp_path, other)
    again = await said(server, tmp_path, other)

    assert not is_from_cache(first[0].usage)
    assert is_from_cache(again[0].usage) == (other.temperature == 0)


async def test_another_server_or_model_is_asked(tmp_path: Path) -> None:
    """Another address, another fingerprint, none at all; a change in the middle of a run counts from there on."""
    await said(Server(), tmp_path, ASKED)

    assert not is_from_cache((await said(Server(), tmp_path, ASKED, origin="http://b"))[0].usage)
    assert not is_from_cache((await said(Server(None), tmp_path, ASKED))[0].usage)
    server = Server()
    cache = ReplyCache(server, "http://a", tmp_path, before=math.inf)
    await cache.complete(PROBE)
    server.fingerprint = "weights-2"
    await cache.complete(PROBE)
    assert not is_from_cache((await cache.complete(ASKED)).usage)
    assert is_from_cache((await said(server, tmp_path, ASKED))[0].usage)


async def test_a_broken_or_unwritable_cache_costs_a_request(tmp_path: Path) -> None:
    """Half a file is no reply, a folder that cannot be made ends no run."""
    await said(Server(), tmp_path / "one", ASKED)
    file = kept_in(tmp_path / "one")
    file.write_bytes(file.read_bytes()[:20])
    (tmp_path / "two").write_text("a file")

    assert (await said(Server(), tmp_path / "one", ASKED))[0].text == "2"
    assert (await said(Server(), tmp_path / "two", ASKED))[0].text == "2"
