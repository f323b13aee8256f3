"""Runs queued suite runs: claims one in the store, stores every reply and the progress, stops when it is cancelled."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from auditors.clients.embedders import EmbedderError
from auditors.clients.pacing import OPEN, Gate
from auditors.types import Completer, Embedder
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.reporting import report
from benchmarks.run import result as results
from benchmarks.run import runner
from benchmarks.run.client import open_client
from benchmarks.run.runner import Progress, RunOptions
from benchmarks.suites.protocol import Item, Reply
from benchmarks.suites.registry import find
from gateway.auditor.backpressure.limiter import ConcurrencyLimiter, ConcurrencyLimiters
from gateway.auditor.clients import audit_priority, upstream_serving
from gateway.auditor.joint_score import add_joint_scores
from gateway.config.schema import Config, origin_of
from gateway.errors import ConfigError, StoreError
from gateway.store import runs
from gateway.store.database import Database
from gateway.store.runs import Run

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 1.0
"""Also how soon a cancelled run stops."""


class StoreLog:
    """A `benchmarks.run.runner.RunLog` in the store: what it has kept survives this process."""

    def __init__(self, database: Database, run: Run) -> None:
        self._database = database
        self._run = run

    async def existing(self) -> list[Reply]:
        bodies = await runs.responses(self._database, self._run.id)
        return [msgspec.json.decode(body, type=Reply) for body in bodies]

    async def append(self, replies: Sequence[Reply]) -> None:
        rows = [(one.item_id, one.sample, one.status, msgspec.json.encode(one).decode()) for one in replies]
        await runs.append_responses(self._database, self._run, rows)

    async def keep_items(self, items: Sequence[Item]) -> None:
        """Nothing to keep: items are made again from the options and the replies."""


class SuiteRuns:
    """The handler of "run_suite" jobs: `{"run_id": ...}`."""

    def __init__(
        self,
        config: Config,
        database: Database,
        stop: asyncio.Event,
        *,
        embedder: Callable[[], Awaitable[Embedder | None]],
        limiters: ConcurrencyLimiters,
    ) -> None:
        """`embedder` waits for the one that the live auditors use; suites that compare texts use it too."""
        self._limiters = limiters
        self._config = config
        self._database = database
        self._stop = stop
        self._embedder = embedder
        self._data_dir = Path(config.audits.data_dir) if config.audits.data_dir else None

    async def __call__(self, payload: dict[str, Any]) -> None:
        """Runs it to its end. A run that this process cannot finish is queued again for another."""
        run = await runs.claim(self._database, payload["run_id"])
        if run is None:
            return
        watch = _Watch(self._database, run, self._stop)
        watching = asyncio.create_task(watch.keep())
        try:
            await self._finish(run, watch)
        except RunStopped:
            await runs.release(self._database, run.id)  # changes nothing when the run was cancelled
        except (BenchmarkError, ConfigError) as exc:
            await runs.fail(self._database, run.id, str(exc))
        except StoreError:
            raise
        except asyncio.CancelledError:
            await runs.release(self._database, run.id)
            raise
        except Exception as exc:
            logger.exception("run %s of %s failed", run.id, run.suite)
            await runs.fail(self._database, run.id, f"internal error: {type(exc).__name__}: {exc}")
        finally:
            watching.cancel()

    async def _finish(self, run: Run, watch: "_Watch") -> None:
        options = msgspec.convert(run.options, RunOptions)
        concurrency = options.concurrency or self._config.audits.max_concurrency
        served = self._config.aliases.get(options.model, options.model)
        upstream = await upstream_serving(self._config, served)
        suite = find(options.suite)
        embedder = await self._compared_with() if suite.needs_embedder else None
        options = msgspec.structs.replace(
            options,
            model=served,
            concurrency=concurrency,
            judge_model=(options.judge_model or self._config.auditors.judge.model) if suite.needs_judge else None,
            embedder=None if embedder is None else embedder.name,
        )
        async with AsyncExitStack() as stack:
            key = self._config.secret(upstream.api_key_env)
            completer = open_client(
                upstream.origin,
                key,
                concurrency,
                audit_priority(self._config, upstream),
                gate=self._gate(stack, watch, concurrency, self._limiters.of(upstream.origin, upstream.name, key)),
            )
            stack.push_async_callback(completer.aclose)
            judge = self._judge(stack, watch, concurrency) if suite.needs_judge else None
            if judge is not None:
                stack.push_async_callback(judge.aclose)
            result = await runner.run(
                options,
                completer=completer,
                log=StoreLog(self._database, run),
                judge=judge,
                embedder=embedder,
                on_progress=watch.note,
                stop=watch.stop,
                base_url_host=urlsplit(upstream.origin).hostname,
                data_dir=self._data_dir,
            )
        page = await asyncio.to_thread(report.render, [result])
        await watch.beat()
        if await runs.finish(self._database, run.id, result=results.encode(result).decode(), report=page):
            await add_joint_scores(self._database, run, self._data_dir)

    def _gate(
        self, stack: AsyncExitStack, watch: "_Watch", concurrency: int, limiter: ConcurrencyLimiter | None
    ) -> Gate:
        """What gives the run's requests to a server their slots, until the stack is closed."""
        if limiter is None:
            return OPEN
        stack.enter_context(limiter.widened(concurrency))
        return _StoppableGate(limiter, watch)

    def _judge(self, stack: AsyncExitStack, watch: "_Watch", concurrency: int) -> Completer | None:
        """The judge's own server; None when it is served with the model."""
        settings = self._config.auditors.judge
        if settings.base_url is None:
            return None
        key = self._config.secret(settings.api_key_env)
        limiter = self._limiters.of(origin_of(settings.base_url), "auditors.judge", key)
        gate = self._gate(stack, watch, concurrency, limiter)
        return open_client(settings.base_url, key, concurrency, gate=gate)

    async def _compared_with(self) -> Embedder | None:
        try:
            return await self._embedder()
        except EmbedderError as exc:
            logger.warning("numbers that need an embedder will be undefined: %s", exc)
            return None


class _Watch:
    """Keeps a run's heartbeat and progress in the store, and learns there that it was cancelled."""

    def __init__(self, database: Database, run: Run, process_stop: asyncio.Event) -> None:
        self.stop = asyncio.Event()
        self._database = database
        self._run_id = run.id
        self._process_stop = process_stop
        self._done, self._total = run.progress_done, run.progress_total

    def note(self, progress: Progress) -> None:
        self._done, self._total = progress.done, progress.total

    def stopped(self) -> RunStopped:
        """What a run is ended with that was stopped here."""
        return RunStopped(self._done, self._total or self._done)

    async def keep(self) -> None:
        while not self.stop.is_set():
            try:
                await self.beat()
            except StoreError as exc:
                logger.warning("progress of run %s cannot be noted: %s", self._run_id, exc)
            try:
                await asyncio.wait_for(self._process_stop.wait(), HEARTBEAT_SECONDS)
                self.stop.set()
            except TimeoutError:
                pass

    async def beat(self) -> None:
        if await runs.heartbeat(self._database, self._run_id, self._done, self._total) != "running":
            self.stop.set()


class _StoppableGate:
    """A server's limiter as one run sees it: a request that waits for a slot when the run is stopped is not sent."""

    def __init__(self, limiter: ConcurrencyLimiter, watch: _Watch) -> None:
        self._limiter = limiter
        self._watch = watch

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """See `auditors.clients.pacing.Gate`. Raises RunStopped."""
        if not self._limiter.try_acquire():
            await self._enter_unless_stopped()
        try:
            yield
        finally:
            self._limiter.release()

    def on_overload(self) -> None:
        """See `auditors.clients.pacing.Gate`."""
        self._limiter.on_overload()

    async def _enter_unless_stopped(self) -> None:
        acquiring = asyncio.create_task(self._limiter.acquire())
        stopping = asyncio.create_task(self._watch.stop.wait())
        is_acquired = False
        try:
            await asyncio.wait({acquiring, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not acquiring.done():
                raise self._watch.stopped()
            is_acquired = True
        finally:
            stopping.cancel()
            if not is_acquired and not acquiring.cancel():  # cancelled although it had its slot by now
                self._limiter.release()
