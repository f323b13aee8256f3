"""The API of stored exchanges: shown redacted to administrators, deleted on request; every access is logged."""

from typing import Annotated

import msgspec
import structlog
from litestar import Controller, Request, Response, delete, get
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery, QueryParameter

from gateway.api.access import client_of, note
from gateway.api.dependencies import Settings, Store
from gateway.api.exchange_reading import read_comparison, read_list, read_record, written
from gateway.api.live import refuse_unknown
from gateway.api.problems import announced
from gateway.errors import RequestError
from gateway.reading.alarms import MOST_SHOWN
from gateway.reading.exchange_comparison import MOST_SIDE, Comparison
from gateway.reading.exchange_forms import ExchangeRecord, ShownExchange
from gateway.store import access, counters, exchanges
from gateway.store.access import Access
from gateway.store.exchange_search import Criteria
from gateway.store.exchanges import State as ExchangeState

log = structlog.get_logger(__name__)

LONGEST_TEXT = 200
"""Characters of a filter: no column that is looked into is wider."""
NEXT = "x-next-before"
"""Header of an answer after which the list goes on: `before` of the next page."""

Text = Annotated[str | None, QueryParameter(max_length=LONGEST_TEXT)]


class Deleted(msgspec.Struct, frozen=True):
    """The result of a deletion."""

    deleted: int
    """Exchanges that are gone, with every word of them."""
    measurements_kept: int
    """Their measurements, without link and words: estimates and alarms keep the weight of a deleted exchange. `POST
    /live/streams/{id}/restart` lets a stream forget all of its numbers."""


class ExchangesController(Controller):
    """Texts that people wrote and the answers to them: administrators only, redacted, and every access is on record."""

    path = "/live/exchanges"
    tags = ("exchanges",)

    @get(
        "/",
        summary="Exchanges with their scores, newest first",
        responses={200: ResponseSpec(list[ShownExchange], generate_examples=False), **announced(403, 404)},
    )
    async def exchanges(
        self,
        request: Request[None, None, State],
        database: Store,
        config: Settings,
        request_id: Text = None,
        exchange_id: FromQuery[list[str] | None] = None,
        tag: Text = None,
        key: Text = None,
        model: Text = None,
        in_state: Annotated[ExchangeState | None, QueryParameter(name="state")] = None,
        auditor: FromQuery[str | None] = None,
        metric: Text = None,
        axis: FromQuery[str | None] = None,
        group: Text = None,
        min_score: FromQuery[float | None] = None,
        max_score: FromQuery[float | None] = None,
        since: FromQuery[float | None] = None,
        until: FromQuery[float | None] = None,
        before: Text = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_SHOWN)] = 50,
    ) -> Response[bytes]:
        """List entries, each for a single score; an exchange without scores has `no_score_because`, unless scores are
        asked for.

        `request_id` is the `x-request-id` of a response. `auditor`, `metric`, `axis`, `group`, `min_score` and
        `max_score` are of the same score. `since` and `until` are Unix times of receipt. `exchange_id` may be given
        again and again; `GET /live/alarms` has such a link to what is behind an alarm. Where there may be more, the
        header `x-next-before` has what to give as `before` for the next page; a search that finds little ends a page
        early, even an empty one.
        """
        refuse_unknown(auditor, axis, config.auditors)
        criteria = Criteria(
            request_id=request_id,
            exchange_ids=exchange_id,
            tag=tag,
            key=key,
            model=model,
            state=in_state,
            auditor=auditor,
            metric=metric,
            axis=axis,
            group=group,
            min_score=min_score,
            max_score=max_score,
            since=since,
            until=until,
        )
        page = await read_list(request, database, config, criteria, before=before, limit=limit)
        headers = {} if page.next is None else {NEXT: written(page.next)}
        return Response(page.rows.json, media_type="application/json", headers=headers)

    @get(
        "/compare",
        summary="Exchanges before and since an alarm's change",
        responses={200: ResponseSpec(Comparison, generate_examples=False), **announced(403, 404, 409)},
    )
    async def compare(
        self,
        request: Request[None, None, State],
        database: Store,
        config: Settings,
        stream: Annotated[str, QueryParameter(max_length=LONGEST_TEXT)],
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_SIDE)] = 5,
    ) -> Response[bytes]:
        """`stream` is that of the alarm, `limit` is of each side. They are examples; the means are of all audits."""
        comparison = await read_comparison(request, database, config, stream, limit=limit)
        return Response(comparison.json, media_type="application/json")

    @get(
        "/{exchange_id:str}",
        summary="Text, measurements, audits, policy's arm, swapped question",
        responses={200: ResponseSpec(ExchangeRecord, generate_examples=False), **announced(403, 404)},
    )
    async def exchange(
        self, request: Request[None, None, State], exchange_id: FromPath[str], database: Store, config: Settings
    ) -> Response[bytes]:
        """Return an exchange. Every null value has its reason under its name in `reasons`."""
        record = await read_record(request, database, config, exchange_id)
        return Response(record.json, media_type="application/json")

    @delete(
        "/",
        status_code=200,
        summary="Delete exchanges: numbers of deleted, measurements_kept",
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
        selectors = {"request_id": request_id, "user": user, "tag": tag}
        if not any(selectors.values()):
            raise RequestError("nothing says which exchanges to delete: give request_id, user or tag")
        deleted = await exchanges.delete(database, request_id=request_id or None, user=user or None, tag=tag or None)
        await note(request, database, "delete", selectors, deleted.exchanges)
        log.info("exchanges deleted", client=client_of(request), exchanges=deleted.exchanges)
        return Deleted(deleted.exchanges, deleted.measurements_kept)

    @get("/redactions", summary="Counts of replaced text, by kind", responses=announced(403))
    async def redactions(self, database: Store) -> dict[str, int]:
        counted = await counters.read(database)
        return {labels[0]: int(count) for (name, labels), count in sorted(counted.items()) if name == "redactions"}

    @get("/access", summary="Who read or deleted exchanges, newest first", responses=announced(403))
    async def access(self, database: Store, limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100) -> list[Access]:
        return await access.entries(database, limit=limit)
