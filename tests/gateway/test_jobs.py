"""One suite for both queues: work is shared, survives kill -9, is ordered, deduplicated, retried and given up."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager

from gateway.jobs import JobQueue, open_queue
from gateway.jobs.postgres import PostgresQueue
from gateway.jobs.protocol import MAX_ATTEMPTS, Handler
from gateway.store import exchanges, ledger
from gateway.store.database import Database
from tests.support.postgres import Scratch
from tests.support.store.made import exchange, measurement, record, settle
from tests.support.store.scored import scores_of
from tests.support.waiting import eventually

spawn = multiprocessing.get_context("spawn")

LEASE_SECONDS = 1.5
LIMITS = ("5", "10000", "10", "2", "3")


@pytest.fixture
async def queue(database: Database) -> AsyncIterator[JobQueue]:
    """The queue that fits the store, with a short lease."""
    opened = open_queue(database, lease_seconds=LEASE_SECONDS)
    yield opened
    await opened.close()


@asynccontextmanager
async def working(queue: JobQueue, handlers: Mapping[str, Handler], *, concurrency: int = 1) -> AsyncIterator[None]:
    """A worker for as long as the block runs."""
    stop = asyncio.Event()
    worker = asyncio.create_task(queue.work(handlers, concurrency=concurrency, stop=stop, name="test"))
    try:
        yield
    finally:
        stop.set()
        await worker


async def test_jobs_wait_for_a_worker_and_go_out_by_priority(queue: JobQueue) -> None:
    """Jobs deferred before any worker lives are kept: larger priority first, then first come first served."""
    seen: list[str] = []

    async def note(payload: dict[str, Any]) -> None:
        seen.append(payload["name"])

    await queue.defer("of another handler", {"name": "none"})
    for name, priority in (("first", 0), ("second", 0), ("urgent", 5), ("late", -1)):
        await queue.defer("note", {"name": name}, priority=priority)
    async with working(queue, {"note": note}):
        await eventually(lambda: len(seen) == 4)
    assert seen == ["urgent", "first", "second", "late"]


async def test_same_lock_waits_once(queue: JobQueue) -> None:
    """A lock holds one waiting job; once that runs, another may wait behind it."""
    seen: list[int] = []
    running, go_on = asyncio.Event(), asyncio.Event()

    async def note(payload: dict[str, Any]) -> None:
        running.set()
        await go_on.wait()
        seen.append(payload["n"])

    await queue.defer("note", {"n": 1}, lock="one")
    await queue.defer("note", {"n": 2}, lock="one")
    await queue.defer("note", {"n": 3}, lock="two")
    async with working(queue, {"note": note}):
        await running.wait()
        await queue.defer("note", {"n": 4}, lock="one")
        await queue.defer("note", {"n": 5}, lock="one")
        go_on.set()
        await eventually(lambda: len(seen) == 3)
        await asyncio.sleep(0.3)
    assert sorted(seen) == [1, 3, 4]


async def test_failing_jobs_are_retried_and_given_up(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing job runs again until it succeeds or its last attempt fails; no more jobs run at once than allowed."""
    monkeypatch.setattr("gateway.jobs.attempts.RETRY_SECONDS", 0)
    attempts, running, most, three_run = Counter[str](), 0, 0, asyncio.Event()

    async def fail(payload: dict[str, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            three_run.set()
        await three_run.wait()
        await asyncio.sleep(0.1)
        running -= 1
        attempts[payload["name"]] += 1
        if attempts[payload["name"]] < payload["succeeds_at"]:
            raise RuntimeError("not yet")

    await queue.defer_many("flaky", [{"name": "third time", "succeeds_at": 3}, {"name": "never", "succeeds_at": 99}])
    await queue.defer_many("flaky", [{"name": f"{n}", "succeeds_at": 1} for n in range(6)])
    async with working(queue, {"flaky": fail}, concurrency=3):
        await eventually(lambda: queue.failures == {"flaky": 1})
        await asyncio.sleep(0.4)
    assert (attempts["third time"], attempts["never"]) == (3, MAX_ATTEMPTS)
    assert most == 3


async def test_job_cut_off_by_a_stop_runs_again(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that outlives the grace of a stopping worker is cancelled, and the next worker does it."""
    monkeypatch.setattr("gateway.jobs.embedded.GRACE_SECONDS", 0.1)
    monkeypatch.setattr("gateway.jobs.postgres.GRACE_SECONDS", 0.1, raising=False)
    started, seen = asyncio.Event(), []

    async def hang(payload: dict[str, Any]) -> None:
        started.set()
        await asyncio.sleep(3600)

    async def note(payload: dict[str, Any]) -> None:
        seen.append(payload["n"])

    await queue.defer("slow", {"n": 7})
    async with working(queue, {"slow": hang}):
        await started.wait()
    async with working(queue, {"slow": note}):
        await eventually(lambda: seen == [7])


@pytest.mark.stores("postgresql")
async def test_stop_ends_a_worker_that_registers(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that waits for its first connection stops, though Python 3.11's wait_for may swallow a cancellation."""
    registering, register = asyncio.Event(), JobManager.register_worker

    async def unregistered(manager: JobManager) -> int:
        registering.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.2)
        return await register(manager)

    monkeypatch.setattr(JobManager, "register_worker", unregistered)
    stop = asyncio.Event()
    worker = asyncio.create_task(queue.work({}, concurrency=1, stop=stop, name="test"))
    await registering.wait()
    stop.set()
    await asyncio.wait({worker}, timeout=10)
    assert worker.done()
    await worker


def _audit_in_process(url: str, started: str, slow: bool) -> None:
    """A worker process: records one measurement per exchange, which is its only effect."""

    async def run() -> None:
        database = await Database.open(url)
        queue = open_queue(database, lease_seconds=LEASE_SECONDS)

        async def audit(payload: dict[str, Any]) -> None:
            for found in await exchanges.load(database, payload["ids"]):
                await asyncio.to_thread(Path(started, f"{os.getpid()}-{found.id}").touch)
                await asyncio.sleep(30 if slow else 0.01)
                await record(database, found, [measurement(1.0)])
                await settle(database, found.id, "audited", keep_text=True)

        worker = queue.work({"audit": audit}, concurrency=2, stop=asyncio.Event(), name="worker")
        recovering = asyncio.create_task(_recover_regularly(queue))
        try:
            await worker
        finally:
            recovering.cancel()

    asyncio.run(run())


async def _recover_regularly(queue: JobQueue) -> None:
    while True:
        await asyncio.sleep(0.3)
        await queue.recover()


async def test_killed_worker_loses_nothing_and_repeats_no_effect(
    database: Database, queue: JobQueue, tmp_path: Path
) -> None:
    """Two processes share the work; one dies by kill -9 in the middle; every exchange is recorded exactly once."""
    batch = [exchange(id=f"e{number}") for number in range(24)]
    await exchanges.insert_batch(database, batch, {("other", "queued"): len(batch)})
    for first in range(0, len(batch), 3):
        await queue.defer("audit", {"ids": [one.id for one in batch[first : first + 3]]})
    started = tmp_path / "started"
    started.mkdir()
    victim = spawn.Process(target=_audit_in_process, args=(database.url, str(started), True))
    victim.start()
    try:
        await eventually(lambda: len(list(started.iterdir())) >= 2)
        survivor = spawn.Process(target=_audit_in_process, args=(database.url, str(started), False))
        survivor.start()
        try:
            await eventually(lambda: len({path.name.split("-")[0] for path in started.iterdir()}) == 2)
            assert victim.pid is not None
            os.kill(victim.pid, signal.SIGKILL)
            deadline = time.monotonic() + 30
            while (await ledger.counts(database)) != {("other", "audited"): len(batch)}:
                assert time.monotonic() < deadline, await ledger.counts(database)
                await asyncio.sleep(0.1)
        finally:
            survivor.terminate()
            survivor.join(10)
    finally:
        victim.kill()
        victim.join(10)
    scored = await scores_of(database, limit=1000)
    assert sorted(one.exchange.id for one in scored) == sorted(one.id for one in batch)


@pytest.mark.postgres
async def test_a_job_whose_end_was_not_noted_is_done_again(
    postgres_migrated: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection may break just then, and the worker live on: its job would keep what it is for from being done."""
    seen, broken, finished = list[int](), list[int](), list[int]()
    finishing: Any = JobManager.finish_job

    async def note(_: dict[str, Any]) -> None:
        seen.append(1)

    async def broken_once(manager: JobManager, *arguments: Any, **named: Any) -> None:
        if not broken:
            broken.append(1)
            raise ConnectorException("the connection is gone")
        await finishing(manager, *arguments, **named)
        finished.append(1)

    monkeypatch.setattr(JobManager, "finish_job", broken_once)
    database = await Database.open(postgres_migrated.emptied(keep_tables=True))
    queue = open_queue(database)
    recovering = asyncio.create_task(_recover_regularly(queue))
    async with working(queue, {"note": note}):
        await queue.defer("note", {})
        await eventually(lambda: bool(finished))
        assert await queue.pending("note") == []
    recovering.cancel()
    assert len(seen) == 2
    await queue.close()
    await database.close()


async def test_a_long_job_is_not_taken_for_lost(queue: JobQueue) -> None:
    """However often somebody looks, it runs once."""
    seen = list[int]()

    async def take_long(_: dict[str, Any]) -> None:
        seen.append(1)
        await asyncio.sleep(2 * LEASE_SECONDS)

    async with working(queue, {"note": take_long}, concurrency=2):
        await queue.defer("note", {})
        await eventually(lambda: bool(seen))
        for _ in range(8):
            assert await queue.recover() == 0
            await asyncio.sleep(0.2)
    assert seen == [1]


@pytest.mark.postgres
async def test_a_connection_whose_other_end_is_dead_is_given_up(postgres_migrated: Scratch) -> None:
    """The queue's connections have the time limits of the store's: a kernel's own are a quarter of an hour and more."""
    database = await Database.open(postgres_migrated.emptied(keep_tables=True))
    queue = open_queue(database)
    assert isinstance(queue, PostgresQueue)
    await queue.defer("note", {})
    async with queue._connector.pool.connection() as theirs, database.read() as connection:
        ours: Any = (await connection.get_raw_connection()).driver_connection
        found = [one.info.get_parameters() for one in (theirs, ours)]
    limits = ("connect_timeout", "tcp_user_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count")
    assert [{name: one[name] for name in limits} for one in found] == [dict(zip(limits, LIMITS, strict=True))] * 2
    await queue.close()
    await database.close()


async def test_several_processes_may_make_the_queue_at_once(store_url: str) -> None:
    """The queue's own schema is applied once, however many open it together."""
    databases = [await Database.open(store_url) for _ in range(3)]
    queues = [open_queue(database) for database in databases]
    await asyncio.gather(*(one.defer("note", {}) for one in queues))
    assert await queues[0].recover() == 0
    for one, database in zip(queues, databases, strict=True):
        await one.close()
        await database.close()
