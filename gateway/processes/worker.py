"""One gateway worker: opens its parts, serves until told to stop, drains, closes. Runs inside an event loop."""

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from gateway.config.effective import digest
from gateway.config.schema import Config
from gateway.errors import ConfigError
from gateway.jobs import open_queue
from gateway.privacy.texts import texts_of
from gateway.processes.app import create_app
from gateway.processes.draining import DrainingServer
from gateway.processes.feature_parts import mitigation_of, worker_parts
from gateway.processes.garbage import kept_off_the_hot_path
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.data_planes import DataPlanes
from gateway.proxy.protocol import make_protocol
from gateway.sampling.secret import sampling_secret
from gateway.sampling.tap import SamplingTap
from gateway.sampling.writer.remote import RemoteSink
from gateway.store.database import Database
from gateway.telemetry.tracing import Tracer, open_tracer
from gateway.telemetry.worker_stats import WorkerStats
from gateway.worker_part import WorkerContext

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75


class Worker:
    """A worker and its two levers, which work from the beginning: what is asked for too early is done when it can be.

    Use from the event loop's thread.

    Args:
        config: to serve by.
        listener: where clients connect.
        writer_path: address of the process that stores sampled copies.
    """

    def __init__(self, config: Config, listener: socket.socket, writer_path: str) -> None:
        self._config = config
        self._listener = listener
        self._writer_path = writer_path
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._wanted: Config | None = None
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
        self._wanted = config
        self._has_news.set()

    async def serve(self, *, migrate: bool, on_ready: Callable[[], None]) -> None:
        """Until stopped.

        Raises: ConfigError or StoreError when it cannot start.
        """
        config = self._config
        database = await Database.open(config.store.url, migrate=migrate, texts=texts_of(config))
        try:
            queue = open_queue(database)
            stats = WorkerStats(native_histograms=config.server.native_histograms)
            stats.reloads = self.reloads
            sink, shared = RemoteSink(self._writer_path), Path(self._writer_path).parent
            secret = sampling_secret(config)
            tap = SamplingTap(config.sampling, secret, database, sink, shared)
            tracer = open_tracer(config.telemetry)
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
            app = create_app(
                config,
                database=database,
                queue=queue,
                planes=planes,
                tap=tap,
                stats=stats,
                parts=parts,
            )
        except BaseException:
            await database.close()
            raise
        async with _sending(tracer, stats), app.lifespan(), kept_off_the_hot_path(lambda: planes.live):
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
            wanted = self._wanted
            if wanted is None:
                continue
            try:
                await planes.replace(wanted)
                tap.reconfigure(wanted.sampling)
                logging.getLogger().setLevel(wanted.telemetry.log_level.upper())
            except ConfigError as exc:  # found by the parent before it told anyone, unless the surroundings changed
                logger.error("configuration %s not taken over: %s", digest(wanted), exc)
            except Exception:
                logger.exception("configuration %s not taken over", digest(wanted))


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
