"""The queue on SQLite: a table, leases, a wake-up inside the process and a cheap look for writes of other processes."""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any

from gateway.errors import StoreError
from gateway.jobs.attempts import attempt, delay_seconds, is_last
from gateway.jobs.protocol import LEASE_SECONDS, Handler
from gateway.store import jobs
from gateway.store.changes import Changes
from gateway.store.database import Database
from gateway.store.jobs import Job
from gateway.store.sparse_log import SparseLog

logger = logging.getLogger(__name__)
store_log = SparseLog(logger)

POLL_SECONDS = 0.2
"""Between two looks whether another process wrote to the file."""
LONGEST_PAUSE_SECONDS = 5.0
"""Seconds until the table is read anyway."""
AWAY_SECONDS = 1.0
"""Seconds until it is read again when it could not be."""
GRACE_SECONDS = 5.0
"""Seconds that running jobs may go on after `stop`; then they are cancelled and made ready for another worker."""


class EmbeddedQueue:
    """See `gateway.jobs.protocol.JobQueue`."""

    def __init__(self, database: Database, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.failures: dict[str, int] = {}
        self._database = database
        self._lease_seconds = lease_seconds
        self._wake = asyncio.Event()
        self._workers = 0

    async def defer(self, task: str, payload: dict[str, Any], *, lock: str | None = None, priority: int = 0) -> None:
        if await jobs.insert(self._database, task, payload, lock=lock, priority=priority):
            self._wake.set()

    async def defer_many(self, task: str, payloads: Sequence[dict[str, Any]]) -> None:
        await jobs.insert_many(self._database, task, payloads)
        self._wake.set()

    async def work(self, handlers: Mapping[str, Handler], *, concurrency: int, stop: asyncio.Event, name: str) -> None:
        worker = _Worker(self._database, handlers, self.failures, self._lease_seconds, name)
        heartbeat = asyncio.create_task(worker.renew_leases())
        stopping = asyncio.create_task(stop.wait())
        try:
            async with self._watched():
                while not stop.is_set():
                    self._wake.clear()
                    pause = await worker.start_next() if len(worker.running) < concurrency else LONGEST_PAUSE_SECONDS
                    if pause <= 0.0:
                        continue
                    waking = asyncio.create_task(self._wake.wait())
                    await asyncio.wait(
                        {waking, stopping, *worker.running}, timeout=pause, return_when=asyncio.FIRST_COMPLETED
                    )
                    waking.cancel()
            await worker.finish_running()
        finally:
            stopping.cancel()
            heartbeat.cancel()
            await worker.abandon_running()
            # A cancelled renewal still closes its transaction, which hangs once the database is closed.
            await asyncio.wait({heartbeat, stopping})

    async def pending(self, task: str) -> list[dict[str, Any]]:
        return await jobs.payloads(self._database, task)

    async def recover(self) -> int:
        freed = await jobs.recover(self._database, lease_seconds=self._lease_seconds)
        if freed:
            self._wake.set()
        return freed

    async def close(self) -> None:
        """Nothing of its own to close: the database belongs to the caller."""

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        self._workers += 1
        if self._workers == 1:
            self._watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._workers -= 1
            if not self._workers:
                self._watching.cancel()
                await asyncio.wait({self._watching})

    async def _watch(self) -> None:
        with closing(Changes(self._database.url)) as changes:
            while True:
                if changes.seen():
                    self._wake.set()
                await asyncio.sleep(POLL_SECONDS)


class _Worker:
    def __init__(
        self,
        database: Database,
        handlers: Mapping[str, Handler],
        failures: dict[str, int],
        lease_seconds: float,
        name: str,
    ) -> None:
        self.running: dict[asyncio.Task[None], Job] = {}
        self._database = database
        self._handlers = handlers
        self._failures = failures
        self._lease_seconds = lease_seconds
        self._owner = f"{name[:20]}-{uuid.uuid4().hex}"

    async def start_next(self) -> float:
        """Claims and starts one job. Returns how long nothing is to be expected (seconds); 0 when one was started."""
        tasks = list(self._handlers)
        try:
            job = await jobs.claim(self._database, tasks, owner=self._owner, lease_seconds=self._lease_seconds)
            next_at = await jobs.next_at(self._database, tasks) if job is None else None
        except StoreError as exc:
            store_log.warning(f"no job can be claimed: {exc}")
            return AWAY_SECONDS
        if job is None:
            pause = LONGEST_PAUSE_SECONDS if next_at is None else next_at - time.time()
            return min(LONGEST_PAUSE_SECONDS, max(0.001, pause))
        task = asyncio.create_task(self._run(job))
        self.running[task] = job
        task.add_done_callback(self.running.pop)
        return 0.0

    async def renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            ids = [job.id for job in self.running.values()]
            if not ids:
                continue
            try:
                await jobs.renew(self._database, ids, owner=self._owner, lease_seconds=self._lease_seconds)
            except StoreError as exc:
                logger.warning("leases of %d jobs could not be renewed: %s", len(ids), exc)

    async def finish_running(self) -> None:
        if self.running:
            await asyncio.wait(self.running, timeout=GRACE_SECONDS)

    async def abandon_running(self) -> None:
        running = list(self.running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, job: Job) -> None:
        try:
            error = await attempt(job.task, self._handlers[job.task], job.payload, job.attempts, self._failures)
        except asyncio.CancelledError:
            await self._settle(jobs.release(self._database, job, owner=self._owner, delay_seconds=0, counts=False))
            raise
        if error is None or is_last(job.attempts):
            await self._settle(jobs.finish(self._database, job, owner=self._owner))
        else:
            pause = delay_seconds(job.attempts)
            await self._settle(jobs.release(self._database, job, owner=self._owner, delay_seconds=pause, counts=True))

    async def _settle(self, change: Any) -> None:
        # When the store is away the lease runs out, and the job is done again: handlers are idempotent.
        with contextlib.suppress(StoreError):
            await change
