"""`biasgate canary wait` against a gateway, or a proxy before it, that fails in every way."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gateway.__main__ import main
from gateway.features.canary import cli as command
from gateway.features.canary import store as canaries
from gateway.features.canary.comparison import Verdict
from gateway.features.canary.request import CanaryRequest, Side
from gateway.features.canary.store import Canary
from tests.support.auditors.scripted import Reply, scripted_server
from tests.support.commands import refused

REQUEST = CanaryRequest(stable=Side(model="a"), canary=Side(model="b"))
RUNNING = Canary(
    id="c",
    request=REQUEST,
    status="running",
    verdict="undecided",
    reasons=["20 of at most 2000 pairs"],
    plan=None,
    findings=None,
    created_at=0.0,
    started_at=None,
    finished_at=None,
    heartbeat_at=None,
)
DONE = msgspec.structs.replace(RUNNING, status="done", verdict="hold", reasons=["max_pairs is reached"])


def reply(canary: Canary) -> Reply:
    return Reply(msgspec.json.encode(canaries.shown(canary)), headers={"content-type": "application/json"})


async def wait(url: str, *options: str) -> int:
    return await asyncio.to_thread(partial(main, ["canary", "wait", "c", "--gateway", url, *options]))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "POLL_SECONDS", 0.01)


async def test_what_may_pass_by_itself_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    """From the first answer on, with one line for each row of equal failures; the verdict is the exit code."""
    bad = Reply(b"<html>Bad Gateway</html>", 502)
    answers: Iterator[Reply] = iter(
        [bad, bad, bad, Reply(b"", 503), reply(RUNNING), Reply(b"", 504), bad, bad, reply(RUNNING), bad, reply(DONE)]
    )
    async with scripted_server(lambda _: next(answers)) as server:
        code = await wait(server.base_url, "--timeout", "20")
    lines = capsys.readouterr().err.splitlines()
    assert code == 3
    assert [line.rpartition(": ")[2] for line in lines] == [
        "status 502; trying again",
        "status 503; trying again",
        "20 of at most 2000 pairs",
        "status 504; trying again",
        "status 502; trying again",
        "status 502; trying again",
    ]


@pytest.mark.parametrize(("verdict", "code"), [("promote", 0), ("rollback", 1), ("hold", 3), ("undecided", 4)])
async def test_the_verdict_is_the_exit_code(verdict: Verdict, code: int) -> None:
    """A canary that goes on until the timeout has no verdict."""
    ended = RUNNING if verdict == "undecided" else msgspec.structs.replace(DONE, verdict=verdict)
    async with scripted_server(lambda _: reply(ended)) as server:
        assert await wait(server.base_url, "--timeout", "0.2") == code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("status", "x", "--gateway", "127.0.0.1:1"), "must start with http"),
        (("status", "x", "--gateway", "http://127.0.0.1:9"), "is the gateway there?"),
        (("status", "x", "--key-env", "NO_SUCH_VARIABLE"), "(--api-key-env) is not set"),
        (("wait", "x", "--timeout", "-1"), "must be 0 or more"),
    ],
)
def test_a_mistake_costs_one_line(arguments: tuple[str, ...], words: str) -> None:
    """Exit code 2."""
    assert words in refused("canary", *arguments)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Reply(b'{"detail": "no canary has the id"}', 404), "no canary has the id"),
        (Reply(b"", 401), "status 401"),
        (Reply(b"", 302, {"location": "http://127.0.0.1:9/"}), "redirects to http://127.0.0.1:9/"),
        (Reply(b"<html>"), "is it a biasgate gateway?"),
        (Reply(b"[" * 100_000), "is it a biasgate gateway?"),
        (Reply(b'{"id": "c"}'), "another version of biasgate"),
        (Reply(b" " * 20_000_000), "longer than 16777216 bytes"),
    ],
)
async def test_what_does_not_pass_ends_the_wait(answer: Reply, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each costs one request, one line and exit code 2; no redirect is followed."""
    async with scripted_server(lambda _: answer) as server:
        code = await wait(server.base_url, "--timeout", "20")
    line = capsys.readouterr().err
    assert (code, words in line, len(line.splitlines())) == (2, True, 1), line
    assert len(server.asked) == 1


async def test_a_key_is_not_sent_to_whom_a_redirect_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither by `canary` nor by `ingest`."""
    monkeypatch.setenv("KEY", "the-key")
    path = tmp_path / "log.jsonl"
    path.write_text('{"id": "1", "request": {}, "response": {}}\n')
    async with scripted_server(lambda _: Reply(b"{}")) as other:
        away = Reply(b"", 302, {"location": other.base_url})
        async with scripted_server(lambda _: away) as server:
            assert await wait(server.base_url, "--key-env", "KEY") == 2
            sending = partial(main, ["ingest", str(path), "--gateway", server.base_url, "--key-env", "KEY"])
            assert await asyncio.to_thread(sending) == 2
    assert len(server.asked) == 2
    assert not other.asked
    assert capsys.readouterr().err.count("redirects to") == 2
