"""`keep_text = "never"`: while text waits for its audit, after kill -9 and a restart, no file has a word of it."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import sqlalchemy as sa

from gateway.privacy.texts import DRAWN_KEY_VARIABLE
from gateway.store import ledger
from gateway.store.database import Database
from tests.integration.test_secrets import contents, found_in
from tests.support.auditors.scripted import Asked, Reply, chat, scripted_server
from tests.support.integration.auditing import until
from tests.support.integration.serving import Command, children_of, serving

pytestmark = pytest.mark.long

ASKED, ANSWERED = "xylophone-asked-7c1e", "zeppelin-answered-7c1e"
WORDS = [ASKED, ANSWERED]
PROMPT = f"Do women play the {ASKED} better than men?"
CONFIG = """
[store]
url = "sqlite:///{home}/biasgate.db"
keep_text = {keep_text}
[server]
auditor_metrics_port = 0
[[upstreams]]
name = "u"
base_url = "{upstream}"
models = ["m"]
[sampling]
rate = 1.0
[auditors.judge]
model = "j"
base_url = "{judge}"
[auditors.embedding]
enabled = false
[auditors.refusal]
enabled = false
[telemetry]
log_level = "debug"
access_log = true
"""


def answer(asked: Asked) -> Reply:
    """A model that answers with its word, streamed where it is asked so."""
    if not asked.json.get("stream"):
        return chat(f"Both play the {ANSWERED}.")
    pieces = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in ("Both play ", f"the {ANSWERED}.")]
    events = b"".join(b"data: %b\n\n" % msgspec.json.encode(piece) for piece in pieces)
    return Reply(events + b"data: [DONE]\n\n", headers={"content-type": "text/event-stream"})


def repeat(asked: Asked) -> Reply:
    """A judge that refuses the question and repeats it, as servers do that say which input they could not take."""
    words = asked.json["messages"][-1]["content"].split("]\n", 1)[1]
    return Reply(msgspec.json.encode({"error": {"message": f"bad input: {words}"}}), status=400)


def judge(_: Asked) -> Reply:
    return chat('{"refused": false, "findings": []}')


class Home:
    """Everything that a start may write to: store, temporary files, home directory."""

    def __init__(self, directory: Path, upstream: str, judge_url: str, keep_text: str) -> None:
        self.path = directory
        (directory / "tmp").mkdir()
        self.environ = {"HOME": str(directory), "BIASGATE_HOME": str(directory), "TMPDIR": str(directory / "tmp")}
        self.config = directory / "biasgate.toml"
        self.config.write_text(CONFIG.format(home=directory, upstream=upstream, judge=judge_url, keep_text=keep_text))
        self.logs: list[str] = []
        self.keys: set[str] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[tuple[Command, httpx.AsyncClient]]:
        async with (
            serving("serve", "--config", str(self.config), environ=self.environ) as running,
            httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=30) as http,
        ):
            await running.line("auditor is ready")
            self.keys |= drawn_keys(running)
            try:
                yield running, http
            finally:
                self.logs += running.lines

    def found(self) -> set[str]:
        """Which of the words, or of the keys, any file has, or a line of the log."""
        everything = {**contents(self.path), "logs": "\n".join(self.logs)}
        return {word for text in everything.values() for word in found_in(text, [*WORDS, *self.keys])}


def drawn_keys(running: Command) -> set[str]:
    """The key that the start drew, from the environments of its processes."""
    found = set()
    for pid in [pid for pids in children_of(running.process.pid).values() for pid in pids]:
        variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        found |= {one.partition("=")[2] for one in variables if one.startswith(f"{DRAWN_KEY_VARIABLE}=")}
    return found


def kill_all(running: Command) -> None:
    """kill -9 of every process of a start, the parent first, so that it starts none anew."""
    children = [pid for pids in children_of(running.process.pid).values() for pid in pids]
    for pid in (running.process.pid, *children):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def ask(http: httpx.AsyncClient, **fields: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": PROMPT}], **fields}
    assert ANSWERED in (await http.post("/v1/chat/completions", json=body)).text


async def reached(home: Home, outcomes: Mapping[str, int]) -> None:
    """Waits until the ledger has exactly these outcomes."""
    database = await Database.open(f"sqlite:///{home.path}/biasgate.db", migrate=False)

    async def holds() -> bool:
        counts = await ledger.counts(database)
        return {outcome: count for (_, outcome), count in counts.items() if count} == outcomes

    await until(holds, within_seconds=60)
    await database.close()


async def waiting_text(home: Home) -> list[tuple[bool, bool]]:
    """Of each stored exchange: whether it is sealed, and whether there is a text."""
    database = await Database.open(f"sqlite:///{home.path}/biasgate.db", migrate=False)
    async with database.read() as connection:
        rows = await connection.execute(sa.text("SELECT is_sealed, request_body IS NOT NULL FROM exchanges"))
        found = [(bool(is_sealed), bool(has_text)) for is_sealed, has_text in rows]
    await database.close()
    return found


@pytest.mark.parametrize("keep_text", ['"never"', "true"])
async def test_text_that_is_never_kept(tmp_path: Path, keep_text: str) -> None:
    """Waiting, killed, failed with a judge's echo, audited: the files have no word of it; kept text they have."""
    is_kept = keep_text == "true"
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        judge_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with scripted_server(answer) as upstream:
            home = Home(tmp_path, upstream.base_url, judge_url, keep_text)
            async with home.serving() as (running, http):
                await ask(http)
                await ask(http, stream=True)
                await reached(home, {"queued": 2})
                assert await waiting_text(home) == [(not is_kept, True)] * 2
                kill_all(running)
                await running.process.wait()
            assert home.found() == (set(WORDS) if is_kept else set())
            if is_kept:
                return
            scripts: list[Callable[[Asked], Reply]] = [repeat]
            async with scripted_server(lambda asked: scripts[-1](asked)) as server:
                home.config.write_text(home.config.read_text().replace(judge_url, server.base_url))
                async with home.serving() as (running, http):
                    await reached(home, {"failed": 2})  # what was waiting can be read by nobody
                    await ask(http)
                    await reached(home, {"failed": 3})
                    assert any(ASKED in str(one.json) for one in server.asked)
                    scripts.append(judge)
                    await ask(http, stream=True)
                    await reached(home, {"failed": 3, "audited": 1})
                    await asyncio.sleep(1.5)  # counts and logs are written every second
                    assert home.found() == set()
            assert await waiting_text(home) == [(True, False)] * 4

    assert len(home.keys) == 2
    assert any("request ended" in line for line in home.logs)
    assert home.found() == set()
