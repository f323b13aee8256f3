"""The auditor process: opens its parts, works until told to stop, closes them in order. Settings of glibc's allocator
bound its memory: by itself glibc raises the size from which a block is mapped apart, up to 32 MB; an embedder's large
blocks then come from the heap, which small long-lived ones keep from shrinking.
"""

import asyncio
import ctypes
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.suites import registry
from gateway.auditor import maintenance, scheduling
from gateway.auditor.backpressure.limiter import ConcurrencyLimiters
from gateway.auditor.circuits import REFRESH_SECONDS as CIRCUIT_SECONDS
from gateway.auditor.circuits import Circuits
from gateway.auditor.enabled import EnabledAuditors
from gateway.auditor.endpoint import Endpoint, listen
from gateway.auditor.live import FREE_JOBS, LIVE_JOBS, LiveAudit
from gateway.auditor.metrics import AuditorMetrics
from gateway.auditor.metrics_snapshot import MetricsRenewal, SnapshotReader
from gateway.auditor.part import AuditorContext, AuditorFeature, AuditorPart, parts_of
from gateway.auditor.reference import drift_settings
from gateway.auditor.suite_runs import SuiteRuns
from gateway.clock import TrustedClock
from gateway.config.schema import Config
from gateway.control_keys import ControlKeys
from gateway.errors import StoreError
from gateway.health import OK, STORE, SUITES
from gateway.jobs import open_queue
from gateway.privacy.texts import texts_of
from gateway.sampling.decision import sampling_secret
from gateway.sampling.writer.direct import AUDIT_TASK
from gateway.store import auditors_seen, damaged_streams, schedules
from gateway.store.database import Database
from gateway.store.sparse_log import SparseLog
from gateway.streams import updates
from gateway.telemetry.exposition import Exposition

LARGE_BLOCK_BYTES = 1024 * 1024
"""Blocks from this size on are mapped apart, and given back to the kernel when freed."""

_M_MMAP_THRESHOLD = -3
"""The constant of this name in malloc.h."""


def map_large_blocks() -> None:
    """Map large blocks from now on. An operator's own MALLOC_MMAP_THRESHOLD_ stays."""
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    if change is not None and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        change(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def trim() -> None:
    """Gives whole free pages back to the kernel. Takes some tens of milliseconds, without the interpreter's lock."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


logger = logging.getLogger(__name__)
store_log = SparseLog(logger)

SUITE_RUNS = 1
FLUSH_SECONDS = 1.0
RENEW_SECONDS = 10.0
"""Between two renewals of the metrics when no one scrapes them: what a scrape finds to read is never much."""
SWEEP_SECONDS = 5.0
CATALOGUE_SECONDS = 30.0
RETIRE_SECONDS = 60.0
TRIM_SECONDS = 60.0
SCHEDULE_SECONDS = 5.0
MODELS_SECONDS = 30.0
RENDER_SECONDS = 60.0


async def run_auditor(
    config: Config,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[str], None] | None = None,
    features: Iterable[AuditorFeature] = (),
) -> None:
    """Audit until `stop` is set. `on_ready`: called once with the base URL. Raises ConfigError, StoreError."""
    map_large_blocks()
    keys = ControlKeys(config) if config.server.protect_metrics else None
    async with AsyncExitStack() as stack:
        metrics_dir = config.server.metrics_dir
        limiters = ConcurrencyLimiters(config.audits, Path(metrics_dir) if metrics_dir else None)
        stack.push_async_callback(limiters.aclose)
        secret = sampling_secret(config)
        enabled_auditors = EnabledAuditors(config, limiters, secret)
        stack.push_async_callback(enabled_auditors.close)
        planned = scheduling.configured(config)
        database = await Database.open(config.store.url, texts=texts_of(config))
        stack.push_async_callback(database.close)
        await schedules.adopt(database, planned)
        queue = open_queue(database)
        stack.push_async_callback(queue.close)
        listener = stack.enter_context(listen(config.server.host, config.server.auditor_metrics_port))
        enabled_auditors.start()
        weight_share = min((feature.weight_share(config) for feature in features), default=1.0)
        settings = await drift_settings(database, config.drift)
        settings = msgspec.structs.replace(settings, max_weight_share=weight_share)
        circuits = Circuits(database)
        stack.push_async_callback(circuits.aclose)
        context = AuditorContext(
            config=config,
            database=database,
            queue=queue,
            enabled_auditors=enabled_auditors,
            limiters=limiters,
            settings=settings,
            secret=secret,
            stop=stop,
        )
        parts = parts_of(features, context)
        for part in parts:
            stack.push_async_callback(part.aclose)
        live = LiveAudit(context, circuits, parts)
        await circuits.start(enabled_auditors.circuits, live.audit_known_good)
        stack.push_async_callback(live.aclose)
        work = _Work(context, live, parts, circuits)
        stack.push_async_callback(_leave, database, work.name)
        endpoint = Endpoint(Exposition(work.metrics), work.checks, keys, renew=work.renewal.for_a_scrape)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(endpoint.serve(sockets=[listener]))
            for coroutine in work.coroutines():
                group.create_task(coroutine)
            if on_ready is not None:
                on_ready(_url(listener.getsockname()))
            await stop.wait()
            endpoint.should_exit = True
            await serving


class _Work:
    def __init__(
        self, context: AuditorContext, live: LiveAudit, parts: Sequence[AuditorPart], circuits: Circuits
    ) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._context = context
        self._config = context.config
        self._database = context.database
        self._stop = context.stop
        self._parts = parts
        self._circuits = circuits
        self._live = live
        self.metrics = AuditorMetrics(
            context.settings, context.limiters, auditors=context.enabled_auditors.names, latest=live.latest
        )
        self.renewal = MetricsRenewal(SnapshotReader(context.database, context.settings, parts), self.metrics)
        self._has_reported_suites = False
        self._clock = TrustedClock()

    def coroutines(self) -> list[Coroutine[None, None, None]]:
        config, database, stop, queue = self._config, self._database, self._stop, self._context.queue
        suites = {maintenance.RUN_TASK: SuiteRuns(self._context)}
        sweeps = [part.sweep for part in self._parts]
        return [
            queue.work({AUDIT_TASK: self._live}, concurrency=FREE_JOBS, stop=stop, name="live"),
            queue.work(
                {maintenance.SERVED_TASK: self._live.by_servers}, concurrency=LIVE_JOBS, stop=stop, name="served"
            ),
            queue.work(suites, concurrency=SUITE_RUNS, stop=stop, name="suites"),
            *(
                queue.work({task: job.handler}, concurrency=job.concurrency, stop=stop, name=task)
                for part in self._parts
                for task, job in part.jobs().items()
            ),
            *(_every(each.seconds, stop, each.action) for part in self._parts for each in part.periodic()),
            _every(FLUSH_SECONDS, stop, self._flush),
            _every(RENEW_SECONDS, stop, self.renewal.now),
            _every(SWEEP_SECONDS, stop, partial(maintenance.sweep, database, queue, sweeps)),
            _every(SWEEP_SECONDS, stop, self._give_up),
            _every(CIRCUIT_SECONDS, stop, self._check_circuits),
            _every(CATALOGUE_SECONDS, stop, self._report_suites),
            _every(SCHEDULE_SECONDS, stop, partial(scheduling.start_due, database, queue)),
            _every(MODELS_SECONDS, stop, partial(scheduling.notice_models, database, queue, config)),
            _every(RENDER_SECONDS, stop, self._render),
            _every(RETIRE_SECONDS, stop, self._retire),
            _every(auditors_seen.BEAT_SECONDS, stop, partial(auditors_seen.beat, database, self.name)),
            _every(TRIM_SECONDS, stop, partial(asyncio.to_thread, trim)),
        ]

    async def checks(self) -> Mapping[str, str]:
        try:
            await self._database.check()
        except StoreError as exc:
            return {STORE: str(exc)}
        suites = OK if self._has_reported_suites else "not reported to the gateways yet"
        damaged = await damaged_streams.check(self._database)
        return {STORE: OK, SUITES: suites, **self._circuits.problems(), **damaged}

    async def _check_circuits(self) -> None:
        await self._circuits.refresh()
        await self._circuits.check_open_circuits()

    async def _give_up(self) -> None:
        if self._clock.is_trusted():
            await maintenance.give_up(self._database, self._config, self._live.give_up)

    async def _retire(self) -> None:
        if self._clock.is_trusted():
            await maintenance.retire(self._database, self._config, self._stop)

    async def _report_suites(self) -> None:
        data_dir = Path(self._config.audits.data_dir) if self._config.audits.data_dir else None
        await maintenance.publish_catalogue(self._database, partial(registry.catalogue, data_dir))
        self._has_reported_suites = True

    async def _flush(self) -> None:
        await maintenance.flush_counted(self._database, self._context.enabled_auditors.counted)

    async def _render(self) -> None:
        while not self._stop.is_set() and await updates.render(self._database, self._context.settings):
            pass


async def _leave(database: Database, name: str) -> None:
    with suppress(StoreError):  # then it is shown as silent, until it is forgotten
        await auditors_seen.leave(database, name)


async def _every(seconds: float, stop: asyncio.Event, action: Callable[[], Awaitable[None]]) -> None:
    """Does it now and then again after each pause; a store that is away is waited for."""
    while not stop.is_set():
        try:
            await action()
        except StoreError as exc:
            store_log.warning(str(exc))
        try:
            await asyncio.wait_for(stop.wait(), seconds)
        except TimeoutError:
            continue


def _url(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
