"""The API of stored exchanges: shown redacted to administrators, deleted on request; every access is logged."""

from typing import Annotated

import msgspec
import structlog
from litestar import Controller, Request, Response, delete, get
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, QueryParameter

from gateway.api.access_record import client_of, note
from gateway.api.dependencies import Settings, Store
from gateway.api.exchange_pages import ShownExchange, Wanted, make_page
from gateway.api.names import refuse_unknown
from gateway.api.problems import announced
from gateway.errors import RequestError
from gateway.store import access, counters, exchanges
from gateway.store.access import Access

log = structlog.get_logger(__name__)

MOST_SHOWN = 200
"""Measurements in one answer."""


class Deleted(msgspec.Struct, frozen=True):
    """How many exchanges are gone."""

    deleted: int


class ExchangesController(Controller):
    """What people wrote and were answered: administrators only, redacted, and every access is on record."""

    path = "/live/exchanges"
    tags = ("live",)

    @get(
        "/",
        summary="Audited exchanges, newest first, redacted",
        responses={200: ResponseSpec(list[ShownExchange], generate_examples=False), **announced(403)},
    )
    async def exchanges(
        self,
        request: Request[None, None, State],
        database: Store,
        config: Settings,
        auditor: FromQuery[str | None] = None,
        axis: FromQuery[str | None] = None,
        min_score: FromQuery[float | None] = None,
        exchange_id: FromQuery[list[str] | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_SHOWN)] = 50,
    ) -> Response[bytes]:
        """`exchange_id` may be given again and again; `GET /live/alarms` has such a link to what is behind an alarm."""
        refuse_unknown(auditor, axis)
        wanted = Wanted(auditor=auditor, axis=axis, min_score=min_score, exchange_ids=exchange_id, limit=limit)
        page = await make_page(config, wanted)
        asked = {
            "auditor": auditor,
            "axis": axis,
            "min_score": min_score,
            "exchange_id": exchange_id,
            "limit": limit,
        }
        await note(request, database, "read", asked, len(set(page.ids)))
        log.info("exchanges read", client=client_of(request), exchanges=page.ids)
        return Response(page.body, media_type="application/json")

    @delete(
        "/",
        status_code=200,
        summary="Delete exchanges by request id, user or tag; numbers stay",
        responses=announced(403, 404),
    )
    async def remove(
        self,
        request: Request[None, None, State],
        database: Store,
        request_id: FromQuery[str | None] = None,
        user: FromQuery[str | None] = None,
        tag: FromQuery[str | None] = None,
    ) -> Deleted:
        asked = {"request_id": request_id, "user": user, "tag": tag}
        if not any(asked.values()):
            raise RequestError("nothing says which exchanges to delete: give request_id, user or tag")
        deleted = await exchanges.delete(database, request_id=request_id or None, user=user or None, tag=tag or None)
        await note(request, database, "delete", asked, deleted)
        log.info("exchanges deleted", client=client_of(request), exchanges=deleted)
        return Deleted(deleted)

    @get("/redactions", summary="Places of stored text that were replaced so far, by kind", responses=announced(403))
    async def redactions(self, database: Store) -> dict[str, int]:
        counted = await counters.read(database)
        return {labels[0]: int(count) for (name, labels), count in sorted(counted.items()) if name == "redactions"}

    @get("/access", summary="Who read exchanges or deleted them, newest first", responses=announced(403))
    async def access(self, database: Store, limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100) -> list[Access]:
        return await access.entries(database, limit=limit)
