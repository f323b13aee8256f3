"""The only place where the web app's objects are put together."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from pkgutil import resolve_name

from litestar import Controller, Litestar, Router
from litestar.di import Provide
from litestar.exceptions import NotFoundException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from gateway.api import problems
from gateway.api.access import Access
from gateway.api.audit_views import AuditViewsController
from gateway.api.audits import AuditsController, SuitesController
from gateway.api.exchanges import ExchangesController
from gateway.api.health import HealthController, MetricsController
from gateway.api.judges import JudgesController
from gateway.api.live import LiveController
from gateway.api.origin import require_json
from gateway.api.replies import AccessLog, forbid_sniffing
from gateway.api.route_access import all_invitations, all_routes, require_entries
from gateway.api.schedules import SchedulesController
from gateway.api.sessions import SessionsController
from gateway.config.schema import Config
from gateway.console.entrance import answer_error
from gateway.console.routes import console
from gateway.console.showing import Pages
from gateway.errors import StoreError
from gateway.feature import FEATURES
from gateway.health import STORE
from gateway.jobs import JobQueue
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.data_planes import DataPlanes
from gateway.sampling.tap import SamplingTap
from gateway.store import damaged_streams
from gateway.store.database import Database
from gateway.telemetry.exposition import Exposition
from gateway.telemetry.metrics import GatewayCollector
from gateway.telemetry.shared_counts import SNAPSHOT_SECONDS, SharedCounts
from gateway.telemetry.worker_stats import LAG_SECONDS, Gauges, WorkerStats
from gateway.ticks import every
from gateway.worker_part import WorkerPart

MAX_CONTROL_BODY_BYTES = 1024 * 1024
"""Most bytes of a request to the control plane: 10 ms of a worker's time."""
PROBE_SECONDS = 2.0
"""A database that does not answer in this time is not ready."""


def create_app(
    config: Config,
    *,
    database: Database,
    queue: JobQueue,
    planes: DataPlanes,
    tap: SamplingTap,
    stats: WorkerStats,
    parts: Sequence[WorkerPart] = (),
) -> Litestar:
    """Return a worker's control plane; its lifespan runs all parts. Raises ConfigError for keys unset or used twice."""
    stats.filtered = tap.filtered
    stats.surroundings = lambda: (tap.counts, _gauges(tap, planes.current))
    counts = SharedCounts(stats, Path(config.server.metrics_dir) if config.server.metrics_dir else None)
    exposition = Exposition(GatewayCollector(counts))
    routes = all_routes()
    access = Access(lambda: planes.current.config, all_invitations(database), routes=routes)

    async def probe() -> Mapping[str, str]:
        store = tap.store_problem or await _check(database)
        return {STORE: store, **planes.checks(), **await damaged_streams.check(database)}

    def provided(value: object) -> Provide:
        return Provide(lambda: value, sync_to_thread=False, use_cache=True)

    def current(part: Callable[[DataPlane], object]) -> Provide:
        """Return a dependency that is looked up for each request, for parts that a reload replaces."""
        return Provide(lambda: part(planes.current), sync_to_thread=False)

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(database.close)
            stack.push_async_callback(queue.close)
            stack.callback(counts.flush)
            await tap.start()
            stack.push_async_callback(tap.stop)
            stack.callback(counts.flush)  # before the last copies, which may take longer than a hurried worker has
            for part in parts:
                part.start()
                stack.push_async_callback(part.stop)
            # The server has drained its connections before it comes here.
            stack.push_async_callback(planes.stop)
            await planes.start()
            watching = asyncio.create_task(every(LAG_SECONDS, stats.lag.observe), name="event-loop-lag")
            stack.callback(watching.cancel)
            if counts.is_shared:
                flushing = asyncio.create_task(_flush_regularly(counts))
                stack.callback(flushing.cancel)
            yield

    controllers: list[type[Controller]] = [
        SessionsController,
        SuitesController,
        AuditsController,
        AuditViewsController,
        SchedulesController,
        LiveController,
        JudgesController,
        ExchangesController,
        *(controller for feature in FEATURES.values() for controller in map(resolve_name, feature.controllers)),
    ]
    app = Litestar(
        route_handlers=[
            HealthController,
            MetricsController,
            *(router for feature in FEATURES.values() for router in feature.routers()),
            *console(),
            Router("/", route_handlers=controllers, guards=[require_json, problems.require_known_parameters]),
        ],
        guards=[access.check_route],
        dependencies={
            "access": provided(access),
            "config": current(lambda plane: plane.config),
            "database": provided(database),
            "queue": provided(queue),
            "dataplane": current(lambda plane: plane),
            "exposition": provided(exposition),
            "probe": provided(probe),
            **{name: provided(value) for part in parts for name, value in part.dependencies().items()},
            "features": provided(FEATURES),
            "pages": provided(Pages(database, probe, access, lambda: planes.is_draining)),
        },
        request_max_body_size=MAX_CONTROL_BODY_BYTES,
        exception_handlers=problems.HANDLERS | {NotFoundException: answer_error},
        before_send=[forbid_sniffing, AccessLog(lambda: planes.current.config)],
        openapi_config=OpenAPIConfig(
            title="biasgate control plane",
            version="1",
            description="Audits, live estimates and health. The data plane under /v1 is the OpenAI API of the "
            "upstreams.",
            openapi_router=Router("/schema", route_handlers=[], guards=[require_json], include_in_schema=False),
            render_plugins=[JsonRenderPlugin(path="/openapi.json")],
            components=Components(security_schemes={"control key": SecurityScheme(type="http", scheme="bearer")}),
            security=[{"control key": []}],
            use_handler_docstrings=True,
        ),
        lifespan=[lifespan],
        logging_config=None,
    )
    require_entries(app.routes, routes)
    return app


async def _flush_regularly(counts: SharedCounts) -> None:
    counts.flush()
    await every(SNAPSHOT_SECONDS, lambda _: counts.flush())


async def _check(database: Database) -> str:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await database.check()
    except TimeoutError:
        return f"no answer within {PROBE_SECONDS:g} s"
    except StoreError as exc:
        return str(exc)
    return "ok"


def _gauges(tap: SamplingTap, dataplane: DataPlane) -> Gauges:
    upstreams = dataplane.upstreams
    return Gauges(
        config=dataplane.config_name,
        upstream_up={upstream.name: upstream.is_up for upstream in upstreams},
        upstream_share={u.name: 0.0 if u.outliers.is_ejected else u.outliers.share for u in upstreams},
        sampling_rate=tap.rates,
        model_info=[(u.name, model, u.fingerprint or "") for u in upstreams for model in sorted(u.models)],
    )
