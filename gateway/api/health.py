"""GET /livez and GET /readyz of the gateway. Both are open: load balancers hold no keys."""

from litestar import Controller, Request, Response, get
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec

from gateway.health import Liveness, Probe, Readiness, readiness
from gateway.telemetry.exposition import Exposition


class HealthController(Controller):
    """Tells whether the process is alive, and whether it may be sent traffic."""

    tags = ("health",)

    @get("/livez", summary="The process answers")
    async def livez(self) -> Liveness:
        return Liveness()

    @get(
        "/readyz",
        summary="Named checks; 503 when a check fails",
        responses={503: ResponseSpec(Readiness, description="Not ready", generate_examples=False)},
    )
    async def readyz(self, probe: NamedDependency[Probe]) -> Response[Readiness]:
        report = await readiness(probe)
        return Response(report, status_code=report.status_code)


class MetricsController(Controller):
    """The gateway's own families; the auditor serves its own."""

    tags = ("health",)

    @get(
        "/metrics",
        summary="Prometheus metrics of all workers; with server.protect_metrics for control keys alone",
        media_type="text/plain",
    )
    async def metrics(
        self, request: Request[None, None, State], exposition: NamedDependency[Exposition]
    ) -> Response[bytes]:
        body, content_type = await exposition.render(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})
