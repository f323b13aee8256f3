"""A run's first questions are asked once a day of each server process, and never answered for another one."""

import time
from pathlib import Path

import pytest

from auditors.types import Completion, CompletionError, CompletionRequest, Message
from benchmarks.run.completers.probe_cache import DAY_SECONDS, ProbeCache
from benchmarks.run.exact.server import PROBES
from benchmarks.run.runner import run_plan
from benchmarks.run.thinking import QUESTION
from tests.support.benchmarks.scripted import FailingCompleter, MemoryLog, ScriptedCompleter, pick, plan


class Asked:
    """Answers anything with the number of the question."""

    def __init__(self) -> None:
        self.n = 0

    async def complete(self, request: CompletionRequest) -> Completion:
        self.n += 1
        return Completion(text=str(self.n), usage={"total_tokens": 3})

    async def aclose(self) -> None:
        """Holds nothing open."""


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def answered(
    server: Asked | FailingCompleter,
    folder: Path,
    *,
    process: str | None = "1.7e+09",
    origin: str = "http://a",
    question: str = QUESTION,
    model: str = "m",
) -> Completion:
    """One question of a run of its own."""

    async def began() -> str | None:
        return process

    cache = ProbeCache(server, origin, began, folder)
    return await cache.complete(
        CompletionRequest(model=model, messages=(Message("user", question),), max_tokens=5, temperature=None)
    )


@pytest.mark.parametrize("question", [QUESTION, *PROBES])
async def test_asked_once(question: str, tmp_path: Path) -> None:
    """The second run gets the first one's answer, and says that it cost no request."""
    server = Asked()
    first = await answered(server, tmp_path, question=question)
    again = await answered(server, tmp_path, question=question)
    assert (server.n, first.text, again.text) == (1, "1", "1")
    assert again.usage == {"total_tokens": 3, "requests": 0, "from_cache": 1}


async def test_another_process_is_asked(tmp_path: Path) -> None:
    """Started anew, at another address, of another model, or about an item of a suite: the server itself answers."""
    server = Asked()
    await answered(server, tmp_path)
    for n, different in enumerate(
        ({"process": "1.8e+09"}, {"origin": "http://b"}, {"model": "other"}, {"question": "An item."}), 2
    ):
        found = await answered(server, tmp_path, **different)
        assert found.text == str(n)


async def test_an_unknown_process_is_asked_each_time(tmp_path: Path) -> None:
    """A server that does not say when it began leaves nothing behind."""
    server = Asked()
    await answered(server, tmp_path, process=None)
    await answered(server, tmp_path, process=None)
    assert (server.n, files(tmp_path)) == (2, [])


async def test_a_question_asked_several_times_is_asked_as_often(tmp_path: Path) -> None:
    """A server that ignores top_k shows it by drawing otherwise: one draw never stands for twelve, today or again."""
    server = Asked()

    async def began() -> str:
        return "1.7e+09"

    asked = CompletionRequest(model="m", messages=(Message("user", PROBES[1]),), max_tokens=5, temperature=1.0)
    said = []
    for _ in range(2):
        cache = ProbeCache(server, "http://a", began, tmp_path)
        said.append([(await cache.complete(asked)).text for _ in range(3)])
    assert (said, server.n) == ([["1", "2", "3"]] * 2, 3)


async def test_forgotten_the_next_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same process is asked again a day later."""
    server = Asked()
    await answered(server, tmp_path)
    later = time.time() + DAY_SECONDS
    monkeypatch.setattr("benchmarks.run.completers.probe_cache.time.time", lambda: later)
    assert (await answered(server, tmp_path)).text == "2"


async def test_refusals_are_not_kept(tmp_path: Path) -> None:
    """What a server refused once, it is asked again."""
    server = FailingCompleter(CompletionError("rejected", "no", status_code=400))
    for _ in range(2):
        with pytest.raises(CompletionError):
            await answered(server, tmp_path)
    assert server.n_asked == 2


async def test_a_run_counts_what_it_sent(tmp_path: Path) -> None:
    """The second run of a day has one request less, and asks every item all the same."""

    async def began() -> str:
        return "1.7e+09"

    counted = []
    for _ in range(2):
        asked = plan()
        server = ScriptedCompleter(asked, pick("stereotype"))
        result = await run_plan(asked, completer=ProbeCache(server, "a", began, tmp_path), log=MemoryLog())
        counted.append((result.provenance.requests, server.n_probes, len(server.asked)))
    n = len(asked.items)
    assert counted == [(n + 1, 1, n), (n, 0, n)]
