"""Runs queued suite runs: claims one in the store, stores every reply and the progress, stops when it is cancelled."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from auditors.addresses import without_credentials
from auditors.clients.completion import HttpCompleter
from auditors.clients.embedders import EmbedderError
from auditors.judge_validation import Validation
from auditors.types import Completer, Embedder
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.reporting import report
from benchmarks.run import judge, qualifications, runner
from benchmarks.run import result as results
from benchmarks.run.client import REQUEST_SECONDS, RETRIES, open_client
from benchmarks.run.result import Addresses
from benchmarks.run.runner import Progress, RunOptions
from benchmarks.run.share import Terms, why_whole
from benchmarks.run.stopping import LIMIT_SECONDS, in_thread, unless_stopped
from benchmarks.suites.protocol import Suite
from benchmarks.suites.registry import find
from gateway.auditor.backpressure.limiter import ConcurrencyLimiter
from gateway.auditor.backpressure.stoppable_gate import StoppableGate
from gateway.auditor.clients import audit_priority, upstream_serving
from gateway.auditor.maintenance import call_to_range
from gateway.auditor.part import AuditorContext
from gateway.auditor.suites.joint_score import add_joint_scores
from gateway.auditor.suites.pooled_endpoint import endpoint_for
from gateway.auditor.suites.run_share import RunShare
from gateway.config.schema import UpstreamConfig, origin_of
from gateway.errors import ConfigError, NotFoundError, RequestError, StoreError
from gateway.store import calibrations, judge_passes, run_ranges, runs
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.store.store_log import StoreLog

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 1.0
LOOK_SECONDS = 0.15
"""Seconds within which a run learns that it was cancelled."""
DECLINED = 64
END_SECONDS = LIMIT_SECONDS + 0.1
"""Seconds that a cancelled run may take to end."""


class SuiteRuns:
    """The handler of "run_suite" jobs: `{"run_id": ...}`."""

    def __init__(self, context: AuditorContext) -> None:
        config = context.config
        self._queue = context.queue
        self._limiters = context.limiters
        self._config = config
        self._database = context.database
        self._stop = context.stop
        self._embedder = context.enabled_auditors.embedder
        self._data_dir = Path(config.audits.data_dir) if config.audits.data_dir else None
        self._declined: deque[str | None] = deque(maxlen=DECLINED)
        """Claims of runs that this auditor cannot take part in."""

    async def __call__(self, payload: dict[str, Any]) -> None:
        """Run it, or a part where another auditor has it; queue it for another where this process cannot finish it."""
        run = await runs.claim(self._database, payload["run_id"])
        if run is None:
            await self._assist(payload["run_id"])
            return
        watch = _Watch(self._database, run, self._stop)
        watching = asyncio.create_task(watch.keep())
        try:
            if await unless_stopped(watch.stop, self._finish(run, watch), watch.stopped, within=END_SECONDS):
                await add_joint_scores(self._database, run, self._data_dir)
        except RunStopped:
            await runs.release(self._database, run.id, claim=run.claim)  # changes nothing when the run was cancelled
        except (BenchmarkError, ConfigError) as exc:
            await runs.fail(self._database, run.id, str(exc), claim=run.claim)
        except StoreError:
            raise
        except asyncio.CancelledError:
            await runs.release(self._database, run.id, claim=run.claim)
            raise
        except Exception as exc:
            logger.exception("run %s of %s failed", run.id, run.suite)
            await runs.fail(self._database, run.id, f"internal error: {type(exc).__name__}: {exc}", claim=run.claim)
        finally:
            watching.cancel()

    async def _assist(self, run_id: str) -> None:
        """Ask ranges of a run that another auditor has; a run that cannot be asked here is left to the others."""
        run = await runs.summary(self._database, run_id)
        if run is None or run.claim in self._declined:
            return
        offered = await run_ranges.terms(self._database, run)
        if offered is None:
            return
        watch = _Watch(self._database, run, self._stop, is_own=False)
        watching = asyncio.create_task(watch.keep())
        try:
            terms = msgspec.json.decode(offered, type=Terms)
            await unless_stopped(watch.stop, self._ask_ranges(run, terms, watch), watch.stopped, within=END_SECONDS)
        except RunStopped:
            pass
        except (BenchmarkError, ConfigError, msgspec.DecodeError) as exc:
            self._declined.append(run.claim)
            logger.warning("run %s of %s is left to the other auditors: %s", run.id, run.suite, exc)
        finally:
            watching.cancel()

    async def _ask_ranges(self, run: Run, terms: Terms, watch: "_Watch") -> None:
        concurrency = self._config.audits.max_concurrency
        options = msgspec.structs.replace(terms.options, concurrency=concurrency)
        suite = find(options.suite)
        upstream = await upstream_serving(self._config, options.model)
        if self._servers(upstream, suite) != terms.servers:
            raise BenchmarkError("it asks another server than this auditor would: give all of them one configuration")
        log = StoreLog(self._database, run)
        share = RunShare(self._database, run, log, is_own=False, call=self._call_to_range(run))
        async with AsyncExitStack() as stack:
            completer, judge = self._clients(stack, watch, upstream, suite, concurrency)
            await stack.enter_async_context(share.renewing())
            await runner.assist(
                msgspec.structs.replace(terms, options=options),
                share=share,
                read=log.reply,
                completer=completer,
                judge=judge,
                stop=watch.stop,
                data_dir=self._data_dir,
            )

    async def _finish(self, run: Run, watch: "_Watch") -> bool:
        """Return whether the run has its result now; not when it was cancelled meanwhile."""
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
            embedder=None if embedder is None else self._config.auditors.embedding.model or "minilm",
        )
        log = StoreLog(self._database, run)
        share = self._share(run, log, self._servers(upstream, suite))
        async with AsyncExitStack() as stack:
            completer, judge = self._clients(stack, watch, upstream, suite, concurrency)
            validation = await self._judge_validation() if suite.needs_judge else None
            if share is not None:
                await stack.enter_async_context(share.renewing())
            result = await runner.run(
                options,
                completer=completer,
                log=log,
                judge=judge,
                judge_validation=validation,
                embedder=embedder,
                on_progress=watch.note,
                stop=watch.stop,
                addresses=self._addresses(upstream, suite),
                data_dir=self._data_dir,
                share=share,
            )
        judged_at = self._config.auditors.judge.base_url or upstream.origin
        result = await in_thread(qualifications.with_qualification, result, judged_at)
        page = await in_thread(report.render, [result])
        await watch.beat()
        return await runs.finish(
            self._database, run.id, result=results.encode(result).decode(), report=page, claim=run.claim
        )

    def _share(self, run: Run, log: StoreLog, servers: tuple[str | None, ...]) -> RunShare | None:
        if self._database.dialect == "sqlite":
            return None
        reason = why_whole(msgspec.convert(run.options, RunOptions))
        if reason is not None:
            logger.info("run %s of %s is asked by one auditor: %s", run.id, run.suite, reason)
            return None
        call = self._call_to_range(run)
        return RunShare(self._database, run, log, is_own=True, servers=servers, call=call)

    def _call_to_range(self, run: Run) -> Callable[[], Awaitable[None]]:
        return partial(call_to_range, self._queue, run.id)

    def _servers(self, upstream: UpstreamConfig, suite: Suite) -> tuple[str | None, ...]:
        return upstream.origin, self._config.auditors.judge.base_url if suite.needs_judge else None

    def _addresses(self, upstream: UpstreamConfig, suite: Suite) -> Addresses:
        judge = self._config.auditors.judge.base_url if suite.needs_judge else None
        embedder = self._config.auditors.embedding.base_url if suite.needs_embedder else None
        return Addresses(
            base_url=without_credentials(upstream.origin),
            judge_base_url=judge and without_credentials(judge),
            embedder_base_url=embedder and without_credentials(embedder),
        )

    def _clients(
        self, stack: AsyncExitStack, watch: "_Watch", upstream: UpstreamConfig, suite: Suite, concurrency: int
    ) -> tuple[Completer, Completer | None]:
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
        return completer, judge

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
        """The run's client of a server, with slots until the stack closes; cut-off requests close connections."""
        if limiter is None:
            return open_client(origin, key, concurrency, priority, headers=headers, endpoint=endpoint_for(origin))
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
            endpoint=endpoint_for(origin),
        )

    def _judge(self, stack: AsyncExitStack, watch: "_Watch", concurrency: int) -> Completer | None:
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
            return None if name is None else await in_thread(judge.read, Path(name))
        try:
            calibration = await calibrations.get(self._database, name.removeprefix(calibrations.BY_DIGEST))
        except (NotFoundError, RequestError) as exc:
            raise BenchmarkError(f"audits.judge_validation: {exc}") from exc
        return await judge_passes.as_of_now(self._database, calibration)

    async def _compared_with(self) -> Embedder | None:
        try:
            return await self._embedder()
        except EmbedderError as exc:
            logger.warning("numbers that need an embedder will be undefined: %s", exc)
            return None


class _Watch:
    def __init__(self, database: Database, run: Run, process_stop: asyncio.Event, *, is_own: bool = True) -> None:
        """`is_own`: this auditor has the run; else it only looks, and notes nothing."""
        self.stop = asyncio.Event()
        self._is_own = is_own
        self._claim = run.claim
        self._database = database
        self._run_id = run.id
        self._process_stop = process_stop
        self._done, self._total = run.progress_done, run.progress_total

    def note(self, progress: Progress) -> None:
        self._done, self._total = progress.done, progress.total

    def stopped(self) -> RunStopped:
        """Return the exception that ends a run that was stopped here."""
        return RunStopped(self._done, self._total or self._done)

    async def keep(self) -> None:
        """Looks every LOOK_SECONDS whether the run is still wanted; notes its progress every HEARTBEAT_SECONDS."""
        noted_at = -math.inf
        while not self.stop.is_set():
            try:
                if self._is_own and time.monotonic() - noted_at >= HEARTBEAT_SECONDS:
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
        self._heed(await runs.heartbeat(self._database, self._run_id, self._done, self._total, claim=self._claim))

    def _heed(self, status: runs.Status | None) -> None:
        if status != "running":
            self.stop.set()
