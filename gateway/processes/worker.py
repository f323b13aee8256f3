"""One gateway worker: opens its parts, serves until told to stop, drains, closes. Runs inside an event loop."""

import asyncio
import contextlib
import gc
import logging
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import uvicorn

from gateway.config.effective import digest
from gateway.config.schema import Config
from gateway.errors import ConfigError
from gateway.feature import FEATURES
from gateway.jobs import open_queue
from gateway.privacy.texts import texts_of
from gateway.processes.app import create_app
from gateway.processes.draining import DrainingServer
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.data_planes import DataPlanes
from gateway.proxy.instrumentation import Tracer
from gateway.proxy.protocol import make_protocol
from gateway.proxy.types import Mitigation
from gateway.sampling.decision import sampling_secret
from gateway.sampling.tap import SamplingTap
from gateway.sampling.writer.process import LazySink
from gateway.sampling.writer.remote import RemoteSink
from gateway.store.database import Database
from gateway.telemetry.worker_stats import WorkerStats
from gateway.ticks import next_tick
from gateway.worker_part import WorkerContext, WorkerPart


def worker_parts(context: WorkerContext) -> list[WorkerPart]:
    """Return the part of each installed feature that has one in a worker."""
    return [resolve_name(place)(context) for feature in FEATURES.values() if (place := feature.worker_part) is not None]


def mitigation_of(parts: Sequence[WorkerPart], config: Config) -> Mitigation | None:
    """Return what treats the requests of a configuration; None where no part does. Raises ConfigError."""
    treating = (part.mitigation(config) for part in parts)
    return next((each for each in treating if each is not None), None)


CHECK_SECONDS = 1.0
NEVER = 1_000_000_000
"""Middle-generation collections after which Python would start a full one itself."""
LEAST_SINCE_FULL = 10
"""Middle-generation collections before a full one while no exchange is in flight; Python's default."""
MOST_SINCE_FULL = 50
"""Middle-generation collections before a full one under load. Each kept 7,000 objects more alive: some 50 MB in all."""
LEAST_SECONDS_PER_SECOND = 500.0
"""Pause after a full collection, as a multiple of its duration (80 ms with thousands of connections)."""


@asynccontextmanager
async def defer_garbage_collection(live: Callable[[], int]) -> AsyncIterator[None]:
    """Run full garbage collections only while no exchange is in flight (`live` counts them), or when overdue."""
    young, middle, old = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, NEVER)
    collecting = asyncio.create_task(_collect_when_idle(live))
    try:
        yield
    finally:
        collecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await collecting
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


async def _collect_when_idle(live: Callable[[], int]) -> None:
    not_before = 0.0
    while True:
        await next_tick(CHECK_SECONDS)
        since_full, began = gc.get_count()[2], time.perf_counter()
        is_quiet = since_full >= LEAST_SINCE_FULL and began >= not_before and not live()
        if is_quiet or since_full >= MOST_SINCE_FULL:
            gc.collect()
            ended = time.perf_counter()
            not_before = ended + LEAST_SECONDS_PER_SECOND * (ended - began)


logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75


class Worker:
    """A worker. `stop` and `take_over` also work before it serves. `writer_path`: address of the writer process."""

    def __init__(self, config: Config, listener: socket.socket, writer_path: str) -> None:
        self._config = config
        self._listener = listener
        self._writer_path = writer_path
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._next_config: Config | None = None
        self._has_news = asyncio.Event()
        self.reloads: Counter[str] = Counter()
        """Counted elsewhere, shown here; stays empty where a parent shows them."""

    def stop(self) -> None:
        """Asks for the orderly end: at most `server.drain_seconds` for what is in flight; asked again, no more time."""
        if self._stopping.is_set():
            self._hurrying.set()
        self._stopping.set()

    def take_over(self, config: Config) -> None:
        """Serves by another configuration as soon as its upstreams have been looked at."""
        self._next_config = config
        self._has_news.set()

    async def serve(self, *, migrate: bool, on_ready: Callable[[], None]) -> None:
        """Serve until stopped. Raises ConfigError or StoreError when it cannot start."""
        config = self._config
        database = await Database.open(config.store.url, migrate=migrate, texts=texts_of(config))
        try:
            queue = open_queue(database)
            stats = WorkerStats()
            stats.reloads = self.reloads
            sink, shared = RemoteSink(self._writer_path), Path(self._writer_path).parent
            secret = sampling_secret(config)
            spare = partial(LazySink, config.store.url, texts_of(config), config.sampling.max_text_bytes)
            tap = SamplingTap(config.sampling, secret, database, sink, shared, spare)
            tracer = next(filter(None, (feature.tracer(config) for feature in FEATURES.values())), None)
            planes = DataPlanes(DataPlane(config, tap=tap, stats=stats, spans=tracer))
            context = WorkerContext(
                planes=planes,
                tap=tap,
                database=database,
                stats=stats,
                secret=secret,
                open_sink=partial(RemoteSink, self._writer_path),
            )
            parts = worker_parts(context)
            planes.treat_by(partial(mitigation_of, parts))
            app = create_app(config, database=database, queue=queue, planes=planes, tap=tap, stats=stats, parts=parts)
        except BaseException:
            await database.close()
            raise
        async with _sending(tracer, stats), app.lifespan(), defer_garbage_collection(lambda: planes.live):
            protocol = make_protocol(planes.current)
            planes.serve_through(protocol)
            reloading = asyncio.create_task(self._follow(planes, tap))
            try:
                await self._run(app, protocol, planes, on_ready)
            finally:
                reloading.cancel()

    async def _run(self, app: Any, http: Any, planes: DataPlanes, on_ready: Callable[[], None]) -> None:
        server = DrainingServer(
            uvicorn.Config(
                app,
                http=http,
                ws="none",
                lifespan="off",  # run around the server, so that what goes wrong there reaches the user in one line
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ),
            planes,
            self._config.server,
            on_ready,
            stopping=self._stopping,
            hurrying=self._hurrying,
        )
        await server.serve(sockets=[self._listener])

    async def _follow(self, planes: DataPlanes, tap: SamplingTap) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            config = self._next_config
            if config is None:
                continue
            try:
                await planes.replace(config)
                tap.reconfigure(config.sampling)
                logging.getLogger().setLevel(config.telemetry.log_level.upper())
            except ConfigError as exc:  # found by the parent before it told anyone, unless the surroundings changed
                logger.error("configuration %s not taken over: %s", digest(config), exc)
            except Exception:
                logger.exception("configuration %s not taken over", digest(config))


@contextlib.asynccontextmanager
async def _sending(tracer: Tracer | None, stats: WorkerStats) -> AsyncIterator[None]:
    if tracer is None:
        yield
        return
    stats.spans = tracer.outcomes
    tracer.start()
    try:
        yield
    finally:
        await asyncio.to_thread(tracer.close)
