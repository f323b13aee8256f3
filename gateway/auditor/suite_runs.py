"""Runs queued suite runs: claims one in the store, stores every reply and the progress, stops when it is cancelled."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from auditors.clients.completion import HttpCompleter
from auditors.clients.embedders import EmbedderError
from auditors.judge_validation import Validation
from auditors.types import Completer, Embedder
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.reporting import report
from benchmarks.run import judge_validation, runner
from benchmarks.run import result as results
from benchmarks.run.client import REQUEST_SECONDS, RETRIES, open_client
from benchmarks.run.runner import Progress, RunOptions
from benchmarks.run.stopping import LIMIT_SECONDS, in_thread, unless_stopped
from benchmarks.suites.registry import find
from gateway.auditor.backpressure.limiter import ConcurrencyLimiter, ConcurrencyLimiters
from gateway.auditor.backpressure.stoppable_gate import StoppableGate
from gateway.auditor.clients import audit_priority, upstream_serving
from gateway.auditor.joint_score import add_joint_scores
from gateway.auditor.store_log import StoreLog
from gateway.config.schema import Config, origin_of
from gateway.errors import ConfigError, NotFoundError, RequestError, StoreError
from gateway.store import calibrations, judge_passes, runs
from gateway.store.database import Database
from gateway.store.runs import Run

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 1.0
LOOK_SECONDS = 0.15
"""How soon a run learns that it was cancelled."""
END_SECONDS = LIMIT_SECONDS + 0.1
"""How long a cancelled run may take to end."""


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
            if await unless_stopped(watch.stop, self._finish(run, watch), watch.stopped, within=END_SECONDS):
                await add_joint_scores(self._database, run, self._data_dir)
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

    async def _finish(self, run: Run, watch: "_Watch") -> bool:
        """Whether the run has its result now; not when it was cancelled meanwhile."""
        options = msgspec.convert((await runs.with_prompts(self._database, run)).options, RunOptions)
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
            limiter = self._limiters.of(upstream.origin, upstream.name, key)
            priority = audit_priority(self._config, upstream)
            completer = self._client(
                stack, watch, upstream.origin, key, concurrency, limiter, priority, upstream.audit_headers
            )
            stack.push_async_callback(completer.aclose)
            judge = self._judge(stack, watch, concurrency) if suite.needs_judge else None
            if judge is not None:
                stack.push_async_callback(judge.aclose)
            validation = await self._judge_validation() if suite.needs_judge else None
            result = await runner.run(
                options,
                completer=completer,
                log=StoreLog(self._database, run),
                judge=judge,
                judge_validation=validation,
                embedder=embedder,
                on_progress=watch.note,
                stop=watch.stop,
                base_url_host=urlsplit(upstream.origin).hostname,
                data_dir=self._data_dir,
            )
        page = await in_thread(report.render, [result])
        await watch.beat()
        return await runs.finish(self._database, run.id, result=results.encode(result).decode(), report=page)

    def _client(
        self,
        stack: AsyncExitStack,
        watch: "_Watch",
        origin: str,
        key: str | None,
        concurrency: int,
        limiter: ConcurrencyLimiter | None,
        priority: int | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Completer:
        """The run's client of a server, whose slots it has until the stack is closed.

        What may be cut off goes over httpx: pyreqwest keeps the connection of a call that is cancelled open, so that
        the server would go on.
        """
        if limiter is None:
            return open_client(origin, key, concurrency, priority, headers=headers)
        stack.enter_context(limiter.widened(concurrency))
        return HttpCompleter(
            origin,
            key,
            timeout=REQUEST_SECONDS,
            retries=RETRIES,
            priority=priority,
            max_concurrency=concurrency,
            gate=StoppableGate(limiter, watch.stop, watch.stopped),
            sign=lambda _: headers,
        )

    def _judge(self, stack: AsyncExitStack, watch: "_Watch", concurrency: int) -> Completer | None:
        """The judge's own server; None when it is served with the model."""
        settings = self._config.auditors.judge
        if settings.base_url is None:
            return None
        key = self._config.secret(settings.api_key_env)
        origin = origin_of(settings.base_url)
        return self._client(stack, watch, origin, key, concurrency, self._limiters.of(origin, "auditors.judge", key))

    async def _judge_validation(self) -> Validation | None:
        """Raises BenchmarkError for a file that is none, or a digest that the store does not have."""
        name = self._config.audits.judge_validation
        if name is None or not name.startswith(calibrations.BY_DIGEST):
            return None if name is None else await in_thread(judge_validation.read, Path(name))
        try:
            kept = await calibrations.get(self._database, name.removeprefix(calibrations.BY_DIGEST))
        except (NotFoundError, RequestError) as exc:
            raise BenchmarkError(f"audits.judge_validation: {exc}") from exc
        return await judge_passes.as_of_now(self._database, kept)

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
        """Looks every LOOK_SECONDS whether the run is still wanted; notes its progress every HEARTBEAT_SECONDS."""
        noted_at = -math.inf
        while not self.stop.is_set():
            try:
                if time.monotonic() - noted_at >= HEARTBEAT_SECONDS:
                    noted_at = time.monotonic()
                    await self.beat()
                else:
                    self._heed(await runs.status(self._database, self._run_id))
            except StoreError as exc:
                logger.warning("progress of run %s cannot be noted: %s", self._run_id, exc)
            try:
                await asyncio.wait_for(self._process_stop.wait(), LOOK_SECONDS)
                self.stop.set()
            except TimeoutError:
                pass

    async def beat(self) -> None:
        self._heed(await runs.heartbeat(self._database, self._run_id, self._done, self._total))

    def _heed(self, status: runs.Status | None) -> None:
        if status != "running":
            self.stop.set()
