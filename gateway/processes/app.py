"""The only place where the web app's objects are put together."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from gateway.api import problems
from gateway.api.access import admin_guard, served_text_guard
from gateway.api.annotations import AnnotationsController
from gateway.api.audits import AuditsController
from gateway.api.console import ConsoleController
from gateway.api.exchanges import ExchangesController
from gateway.api.health import HealthController
from gateway.api.live import LiveController
from gateway.api.metrics import MetricsController
from gateway.api.origin import origin_guard, require_json
from gateway.api.schedules import SchedulesController
from gateway.api.suites import SuitesController
from gateway.config.schema import Config
from gateway.errors import StoreError
from gateway.jobs import JobQueue
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.data_planes import DataPlanes
from gateway.sampling.tap import SamplingTap
from gateway.store.database import Database
from gateway.telemetry.health import STORE
from gateway.telemetry.metrics import SNAPSHOT_SECONDS, Exposition, GatewayCollector, Gauges, SharedCounts, WorkerStats

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
) -> Litestar:
    """The control plane of one worker; its lifespan starts and stops tap, data plane, queue and database.

    Raises: ConfigError when the variable of the admin key is named and not set.
    """
    stats.surroundings = lambda: (tap.counts, _gauges(tap, planes.current))
    counts = SharedCounts(stats, Path(config.server.metrics_dir) if config.server.metrics_dir else None)
    exposition = Exposition(GatewayCollector(counts))
    admin_key = config.secret(config.server.admin_key_env)
    from_here = origin_guard(config.server.allowed_hosts, is_protected=admin_key is not None)
    guards = [from_here, require_json, admin_guard(admin_key)]

    async def probe() -> Mapping[str, str]:
        return {STORE: await _check(database), **planes.checks()}

    def provided(value: object) -> Provide:
        return Provide(lambda: value, sync_to_thread=False, use_cache=True)

    def current(part: Callable[[DataPlane], object]) -> Provide:
        """What a reload replaces is looked up for each request."""
        return Provide(lambda: part(planes.current), sync_to_thread=False)

    controlled = [SuitesController, AuditsController, SchedulesController, LiveController, AnnotationsController]
    return Litestar(
        route_handlers=[
            HealthController,
            MetricsController,
            ConsoleController,
            Router("/", route_handlers=controlled, guards=guards),
            Router("/", route_handlers=[ExchangesController], guards=[*guards, served_text_guard(admin_key)]),
        ],
        dependencies={
            "config": current(lambda plane: plane.config),
            "database": provided(database),
            "queue": provided(queue),
            "dataplane": current(lambda plane: plane),
            "exposition": provided(exposition),
            "probe": provided(probe),
        },
        exception_handlers=problems.HANDLERS,
        openapi_config=_openapi(Router("/schema", route_handlers=[], guards=guards, include_in_schema=False)),
        lifespan=[lambda _app: _lifespan(database, queue, planes, tap, counts)],
        logging_config=None,
    )


@asynccontextmanager
async def _lifespan(
    database: Database, queue: JobQueue, planes: DataPlanes, tap: SamplingTap, counts: SharedCounts
) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        stack.push_async_callback(queue.close)
        stack.callback(counts.flush)
        await tap.start()
        stack.push_async_callback(tap.stop)
        # The server has drained its connections before it comes here.
        stack.push_async_callback(planes.stop)
        await planes.start()
        if counts.is_shared:
            flushing = asyncio.create_task(_flush_regularly(counts))
            stack.callback(flushing.cancel)
        yield


async def _flush_regularly(counts: SharedCounts) -> None:
    while True:
        counts.flush()
        await asyncio.sleep(SNAPSHOT_SECONDS)


async def _check(database: Database) -> str:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await database.ping()
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


def _openapi(router: Router) -> OpenAPIConfig:
    return OpenAPIConfig(
        title="biasgate control plane",
        version="1",
        description="Audits, live estimates and health. The data plane under /v1 is the OpenAI API of the upstreams.",
        openapi_router=router,
        render_plugins=[JsonRenderPlugin(path="/openapi.json")],
        components=Components(security_schemes={"admin": SecurityScheme(type="http", scheme="bearer")}),
        security=[{"admin": []}],
        use_handler_docstrings=True,
    )
