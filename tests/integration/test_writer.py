"""The writer process: killed, locked out, shared and stopped; requests go on, and every copy is stored once."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg import sql

from gateway.store import exchanges, ledger
from gateway.store.database import Database
from tests.support.integration.scripted_upstream import reply, scripted_upstream
from tests.support.integration.serving import Command, children_of, is_alive, serving
from tests.support.postgres import DSN as POSTGRES_DSN

pytestmark = pytest.mark.long

STARVED_SECONDS = 100.0
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def configured(directory: Path, upstream: str, store_url: str, name: str = "biasgate.toml") -> Path:
    """Every request is copied, none waits for an auditor."""
    path = directory / name
    path.write_text(
        f'[store]\nurl = "{store_url}"\n[[upstreams]]\nname = "up"\nbase_url = "{upstream}"\nmodels = ["m"]\n'
        "[server]\nauditor_metrics_port = 0\ndrain_seconds = 5\n[sampling]\nrate = 1.0\n"
    )
    return path


@contextlib.asynccontextmanager
async def gateway(directory: Path, store_url: str, *arguments: str) -> AsyncIterator[Command]:
    async with scripted_upstream(default=reply(b'{"id": "1"}')) as upstream:
        config = configured(directory, upstream.base_url, store_url)
        async with serving("gateway", "--config", str(config), *arguments) as running:
            yield running


async def writer_of(running: Command, *, other_than: int | None = None) -> int:
    """Its process, once there is one."""
    async with asyncio.timeout(20):
        while (found := children_of(running.process.pid).get("writer", [])) in ([], [other_than]):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
    [writer] = found
    return writer


async def send(running: Command, count: int) -> list[float]:
    """So many requests one after another, each on a connection of its own; how long each took. All are answered."""
    seconds = []
    for _ in range(count):
        began = time.monotonic()
        async with httpx.AsyncClient(base_url=running.root, trust_env=False, verify=False, timeout=20) as http:
            assert (await http.post("/v1/chat/completions", json=CHAT)).status_code == 200
        seconds.append(time.monotonic() - began)
    return seconds


async def stopped(running: Command) -> None:
    running.process.send_signal(signal.SIGTERM)
    assert await running.exit_code() == 0


async def stored(store_url: str) -> tuple[int, dict[tuple[str, str], int]]:
    """Exchanges in the store, and the ledger."""
    database = await Database.open(store_url, migrate=False)
    try:
        waiting, _ = await exchanges.backlog(database)
        return waiting, await ledger.counts(database)
    finally:
        await database.close()


async def test_kills_of_the_writer_lose_nothing_and_count_nothing_twice(tmp_path: Path, store_url: str) -> None:
    """kill -9 again and again amid traffic: every request is answered, every copy is stored and counted once."""
    async with gateway(tmp_path, store_url, "--workers", "2") as running:
        killed = None
        sending = asyncio.create_task(send(running, 120))
        for pause in (0.3, 0.6, 0.9):
            await asyncio.sleep(pause)
            killed = await writer_of(running, other_than=killed)
            os.kill(killed, signal.SIGKILL)
        await sending
        await writer_of(running, other_than=killed)
        await send(running, 5)
        await eventually_stored(store_url, 125)  # a busy machine may take longer than a stop waits
        await stopped(running)

    assert [line for line in running.lines if "writer" in line and "is started again" in line]
    assert await stored(store_url) == (125, {("other", "queued"): 125})


@pytest.mark.stores("sqlite")
async def test_a_worker_stores_its_last_copies_when_the_writer_stalls(tmp_path: Path, store_url: str) -> None:
    """A writer that gets no processor time until the end of the gateway costs no copy, and none is counted twice."""
    async with gateway(tmp_path, store_url) as running:
        writer = await writer_of(running)
        await send(running, 5)
        await eventually_stored(store_url, 5)
        os.kill(writer, signal.SIGSTOP)
        await send(running, 20)
        await stopped(running)
        assert not is_alive(writer)

    assert [line for line in running.lines if "copies itself" in line]
    assert await stored(store_url) == (25, {("other", "queued"): 25})


@pytest.mark.parametrize("verb", [("gateway", "--workers", "2"), ("serve",)])
async def test_a_stop_flushes_through_the_writer(tmp_path: Path, verb: tuple[str, ...]) -> None:
    """What the workers hold when they are told to stop is stored before the writer, their only one, ends."""
    url = f"sqlite:///{tmp_path}/store.db"
    async with scripted_upstream(default=reply(b"{}")) as upstream:
        config = configured(tmp_path, upstream.base_url, url)
        with config.open("a") as file:
            file.write("[auditors.embedding]\nenabled = false\n[auditors.refusal]\nenabled = false\n")
        async with serving(*verb, "--config", str(config)) as running:
            writer = await writer_of(running)
            await send(running, 20)
            await stopped(running)
            assert not is_alive(writer)
    _, counts = await stored(url)
    assert sum(counts.values()) == 20
    assert {stratum for stratum, _ in counts} == {"other"}


async def test_a_reload_gives_the_writer_the_new_rules(tmp_path: Path) -> None:
    """Another [store] section: the writer is started again and stores by it, nothing is lost on the way."""
    url = f"sqlite:///{tmp_path}/store.db"
    async with gateway(tmp_path, url) as running:
        before = await writer_of(running)
        await send(running, 3)
        config = tmp_path / "biasgate.toml"
        config.write_text(config.read_text().replace("[store]\n", "[store]\nredact = []\n"))
        running.process.send_signal(signal.SIGHUP)
        await running.line("configuration reloaded")
        await send(running, 3)
        await writer_of(running, other_than=before)
        await stopped(running)
    assert await stored(url) == (6, {("other", "queued"): 6})
    assert not [line for line in running.lines if "died" in line]


@contextlib.contextmanager
def shut(store_url: str) -> Iterator[None]:
    """Keeps everybody from writing to the store."""
    if store_url.startswith("sqlite"):
        blocker = sqlite3.connect(store_url.removeprefix("sqlite:///"), isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        yield
        blocker.execute("ROLLBACK")
        blocker.close()
        return
    name = store_url.rpartition("/")[2]
    with psycopg.connect(POSTGRES_DSN, autocommit=True) as connection:
        allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        connection.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
        connection.execute(allow.format(sql.Identifier(name), sql.SQL("true")))


async def test_a_store_that_is_away_holds_up_copies_and_no_request(tmp_path: Path, store_url: str) -> None:
    """Locked, or refusing connections, from the writer's first moment on: requests are answered, copies wait for it."""
    async with gateway(tmp_path, store_url) as running:
        first = await writer_of(running)
        await send(running, 2)
        with shut(store_url):
            os.kill(first, signal.SIGKILL)
            seconds = await send(running, 10)
            await writer_of(running, other_than=first)
            seconds += await send(running, 5)
            await asyncio.sleep(1)
        await send(running, 3)
        # Whether the two from before had been stored by the killed writer or not, they are there once.
        await eventually_stored(store_url, 20)
        await stopped(running)

    assert max(seconds) < 5
    assert await stored(store_url) == (20, {("other", "queued"): 20})


async def eventually_stored(store_url: str, count: int) -> None:
    """Waits until so many exchanges are in the store: long, for the writer is the first that a busy machine starves."""
    deadline = time.monotonic() + STARVED_SECONDS
    while (found := await stored(store_url))[0] < count:
        assert time.monotonic() < deadline, f"{found} after {STARVED_SECONDS:g} s instead of {count}"
        await asyncio.sleep(0.2)
