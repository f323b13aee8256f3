"""The queue on PostgreSQL, by procrastinate. Retries are new jobs: its own fail when a job with the same lock waits."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from typing import Any, cast

import procrastinate
from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException, UniqueViolation
from procrastinate.jobs import Job, Status
from procrastinate.worker import Worker
from psycopg_pool import PoolTimeout

from gateway.errors import StoreError
from gateway.jobs.attempts import attempt, delay_seconds, is_last
from gateway.jobs.protocol import LEASE_SECONDS, Handler
from gateway.store.connections import POSTGRESQL_CONNECT
from gateway.store.database import Database
from gateway.store.schema import exclusively

logger = logging.getLogger(__name__)

CONNECTIONS = 8
CONNECT_SECONDS = 5.0
POLL_SECONDS = 2.0
"""Only a fallback: a new job is notified, a delayed one is found by polling."""
GRACE_SECONDS = 5.0
STOP_SECONDS = 20.0
"""More than the grace, the ends of a worker's helpers and its last words to the database take together."""
RESTART_SECONDS = 1.0

_UNFINISHED = (Status.TODO.value, Status.DOING.value)


class PostgresQueue:
    """See `gateway.jobs.protocol.JobQueue`."""

    def __init__(self, database: Database, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.failures: dict[str, int] = {}
        self._database = database
        self._connector = PsycopgConnector(
            conninfo=database.url,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=CONNECT_SECONDS,
            num_workers=1,
            kwargs=dict(POSTGRESQL_CONNECT),
        )
        self._app = App(connector=self._connector)
        self._lease_seconds = lease_seconds
        self._workers: list[Worker] = []
        self._running = set[int]()
        """Ids of the jobs that run in this process."""
        self._missed = set[int]()
        """Of those that its workers are said to run, and did not when someone looked last."""
        self._is_open = False
        self._opening = asyncio.Lock()

    async def defer(self, task: str, payload: dict[str, Any], *, lock: str | None = None, priority: int = 0) -> None:
        async with self._connected():
            await self._defer(task, payload, lock=lock, priority=priority)

    async def defer_many(self, task: str, payloads: Sequence[dict[str, Any]]) -> None:
        async with self._connected():
            jobs: list[dict[str, Any]] = [{"payload": payload, "attempts": 0} for payload in payloads]
            await self._app.configure_task(task, queue=task).batch_defer_async(*jobs)

    async def work(self, handlers: Mapping[str, Handler], *, concurrency: int, stop: asyncio.Event, name: str) -> None:
        app = App(connector=self._connector)
        for task, handler in handlers.items():
            app.task(name=task, queue=task, pass_context=True)(self._attempts(task, handler))
        while not stop.is_set():
            try:
                async with self._connected():
                    await self._run_worker(app, list(handlers), concurrency, stop, name)
            except StoreError as exc:
                logger.warning("the job worker starts again: %s", exc)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RESTART_SECONDS)

    async def pending(self, task: str) -> list[dict[str, Any]]:
        async with self._connected():
            # In one query: a job that goes from waiting to running, or back, is in none of two.
            all_jobs = await self._app.job_manager.list_jobs_async(task=task)
        return [cast(dict[str, Any], job.task_kwargs["payload"]) for job in all_jobs if job.status in _UNFINISHED]

    async def recover(self) -> int:
        async with self._connected():
            stalled = await self._app.job_manager.get_stalled_jobs(seconds_since_heartbeat=self._lease_seconds)
            return sum([await self._make_ready(job) for job in [*stalled, *await self._forgotten()]])

    async def close(self) -> None:
        await self._app.close_async()

    async def _defer(
        self,
        task: str,
        payload: dict[str, Any],
        *,
        lock: str | None,
        priority: int,
        attempts: int = 0,
        after_seconds: int = 0,
    ) -> None:
        deferrer = self._app.configure_task(
            task,
            queue=task,
            queueing_lock=lock,
            priority=priority,
            schedule_in={"seconds": after_seconds} if after_seconds else None,
        )
        with contextlib.suppress(AlreadyEnqueued):
            await deferrer.defer_async(payload=payload, attempts=attempts)

    def _attempts(self, task: str, handler: Handler) -> Callable[..., Awaitable[None]]:
        async def run(context: JobContext, payload: dict[str, Any], attempts: int) -> None:
            job = context.job
            so_far = attempts + job.attempts  # the latter counts what crashes of workers cost
            again = partial(self._defer, task, payload, lock=job.queueing_lock, priority=job.priority)
            job_id = cast(int, job.id)
            self._running.add(job_id)
            try:
                error = await attempt(task, handler, payload, so_far + 1, self.failures)
                if error is not None and not is_last(so_far + 1):
                    await again(attempts=so_far + 1, after_seconds=delay_seconds(so_far + 1))
            except asyncio.CancelledError:
                await again(attempts=so_far)
                raise
            finally:
                self._running.discard(job_id)

        return run

    async def _forgotten(self) -> list[Job]:
        """Jobs that a live worker of this process has and does not run: the connection broke at their start or end."""
        manager, missed = self._app.job_manager, dict[int, Job]()
        for worker_id in [worker.worker_id for worker in self._workers if worker.worker_id is not None]:
            doing = await manager.list_jobs_async(status=Status.DOING.value, worker_id=worker_id)
            missed |= {cast(int, job.id): job for job in doing if job.id not in self._running}
        before, self._missed = self._missed, set(missed)
        return [job for job_id, job in missed.items() if job_id in before]

    async def _run_worker(self, app: App, queues: list[str], concurrency: int, stop: asyncio.Event, name: str) -> None:
        worker: Any = Worker(  # its methods have no types
            app,
            queues=queues,
            concurrency=concurrency,
            name=name,
            fetch_job_polling_interval=POLL_SECONDS,
            shutdown_graceful_timeout=GRACE_SECONDS,
            update_heartbeat_interval=self._lease_seconds / 3,
            stalled_worker_timeout=self._lease_seconds,
            delete_jobs="always",
            install_signal_handlers=False,
        )
        self._workers.append(worker)
        working = asyncio.create_task(worker.run())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            try:
                await _end(worker, working)
            finally:
                self._workers.remove(worker)

    async def _make_ready(self, job: Job) -> bool:
        manager = self._app.job_manager
        try:
            await manager.retry_job(job)
        except UniqueViolation:  # a job with the same lock waits already and will do the same
            await manager.finish_job(job, status=Status.FAILED, delete_job=True)
            return False
        return True

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[None]:
        try:
            async with self._opening:
                if not self._is_open:
                    await _apply_schema(self._database)
                    await self._app.open_async()
                    self._is_open = True
            yield
        except (ConnectorException, PoolTimeout) as exc:
            reason = str(exc.__cause__ or exc).strip().split("\n")[0]
            raise StoreError(f"job queue {self._database.masked_url}: {reason}: check that PostgreSQL runs") from exc


async def _end(worker: Any, working: asyncio.Task[None]) -> None:
    """Asks it to stop: a cancellation may be lost in whatever it awaits, a request to stop is not."""
    worker.stop()
    _, unfinished = await asyncio.wait({working}, timeout=STOP_SECONDS)
    if unfinished:
        working.cancel()
        logger.error("the job worker did not stop within %.0f s and is left behind", STOP_SECONDS)
    else:
        await working


async def _apply_schema(database: Database) -> None:
    async with database.begin() as connection:
        await exclusively(connection)
        lookup = await connection.exec_driver_sql("SELECT to_regclass('procrastinate_jobs')")
        if lookup.scalar() is None:
            schema = (resources.files(procrastinate) / "sql" / "schema.sql").read_text(encoding="utf-8")
            driver: Any = (await connection.get_raw_connection()).driver_connection
            await driver.execute(schema)  # without SQLAlchemy in between: many statements, with literal percent signs
