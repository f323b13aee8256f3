"""Is the process alive, and may it be sent traffic? Both open: load balancers hold no keys."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec
from litestar import Controller, Response, get
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec

Probe = Callable[[], Awaitable[Mapping[str, str]]]
"""Named checks; a check passes when its text starts with "ok"."""


class Liveness(msgspec.Struct):
    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct):
    status: Literal["ready", "not ready"]
    checks: dict[str, str]


class HealthController(Controller):
    """GET /livez and /readyz."""

    tags = ("health",)

    @get("/livez", summary="The process answers")
    async def livez(self) -> Liveness:
        return Liveness()

    @get(
        "/readyz",
        summary="Named checks: database, upstreams; 503 when one fails",
        responses={503: ResponseSpec(Readiness, description="Not ready", generate_examples=False)},
    )
    async def readyz(self, probe: NamedDependency[Probe]) -> Response[Readiness]:
        checks = dict(await probe())
        is_ready = all(text.startswith("ok") for text in checks.values())
        body = Readiness(status="ready" if is_ready else "not ready", checks=checks)
        return Response(body, status_code=200 if is_ready else 503)
