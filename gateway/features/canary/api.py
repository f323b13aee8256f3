"""The API of canaries: two models compared on replayed exchanges, with a verdict."""

from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from gateway.api.audits import require_model
from gateway.api.dependencies import Plane, Queue, Store
from gateway.api.problems import announced
from gateway.features.canary import store as canaries
from gateway.features.canary.request import CanaryRequest, resolved
from gateway.features.canary.shown import ListedCanary, ShownCanary
from gateway.features.canary.store import CANARY_TASK, shown


class Started(msgspec.Struct, frozen=True):
    id: str


class CanariesController(Controller):
    """Everything under /canaries."""

    path = "/canaries"
    tags = ("canaries",)

    @post("/", status_code=202, summary="Compare a canary with a stable model", responses=announced(415, 429))
    async def start(self, data: JSONBody[CanaryRequest], database: Store, queue: Queue, dataplane: Plane) -> Started:
        request = resolved(data, dataplane.config)
        for side in (request.stable, request.canary):
            require_model(side.model, dataplane)
        canary_id = await canaries.create(database, request, max_queued=dataplane.config.audits.max_queued)
        await queue.defer(CANARY_TASK, {"canary_id": canary_id}, lock=canary_id)
        return Started(canary_id)

    @get("/", summary="Canaries, newest first, with verdict and reasons", responses=announced())
    async def canaries(
        self, database: Store, limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100
    ) -> list[ListedCanary]:
        return await canaries.list_canaries(database, limit=limit)

    @get("/{canary_id:str}", summary="A canary: gaps with bounds, exclusions, source", responses=announced(404))
    async def canary(self, canary_id: FromPath[str], database: Store) -> ShownCanary:
        return shown(await canaries.get(database, canary_id))

    @post(
        "/{canary_id:str}/cancel",
        status_code=200,
        summary="End a canary with the verdict hold; pairs are kept",
        responses=announced(404, 409),
    )
    async def cancel(self, canary_id: FromPath[str], database: Store) -> ShownCanary:
        await canaries.cancel(database, canary_id)
        return shown(await canaries.get(database, canary_id))
