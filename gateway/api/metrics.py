"""GET /metrics of the gateway, for Prometheus: counts and names of models, no text."""

from litestar import Controller, Request, Response, get
from litestar.datastructures import State
from litestar.di import NamedDependency

from gateway.telemetry.exposition import Exposition


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
