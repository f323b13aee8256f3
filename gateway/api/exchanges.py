"""The API of stored exchanges: shown redacted to administrators, deleted on request; every access is logged."""

from typing import Annotated, Any

import msgspec
import structlog
from litestar import Controller, Request, delete, get
from litestar.datastructures import State
from litestar.params import FromQuery, QueryParameter

from auditors.text.conversation import NotAuditableError, read_conversation
from auditors.types import Exchange
from gateway.api.access import ADMIN
from gateway.api.dependencies import Store
from gateway.api.names import refuse_unknown
from gateway.api.problems import announced
from gateway.errors import RequestError
from gateway.privacy.redaction import Redactor
from gateway.store import access, counters, exchanges, measurements
from gateway.store.access import Access, Action
from gateway.store.measurements import Scored

log = structlog.get_logger(__name__)

MOST_SHOWN = 200
"""Measurements in one answer."""
_SHOWN = Redactor()
"""Text stored before redaction was configured is redacted at least when it is shown."""


class ShownExchange(msgspec.Struct, frozen=True, kw_only=True):
    """One audited exchange, with personal data taken out of its text."""

    id: str
    request_id: str
    received_at: float
    model: str
    upstream: str
    auditor: str
    metric: str
    axis: str | None
    group: str | None
    reference: str | None
    value: float | None
    inclusion_probability: float
    prompt: str | None
    reply: str | None
    no_text_because: str | None


class Deleted(msgspec.Struct, frozen=True):
    """How many exchanges are gone."""

    deleted: int


class ExchangesController(Controller):
    """What people wrote and were answered: administrators only, redacted, and every access is on record."""

    path = "/live/exchanges"
    tags = ("live",)

    @get("/", summary="Audited exchanges, newest first, redacted", responses=announced(403))
    async def exchanges(
        self,
        request: Request[None, None, State],
        database: Store,
        auditor: FromQuery[str | None] = None,
        axis: FromQuery[str | None] = None,
        min_score: FromQuery[float | None] = None,
        exchange_id: FromQuery[list[str] | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_SHOWN)] = 50,
    ) -> list[ShownExchange]:
        """`exchange_id` may be given again and again; `GET /live/alarms` has such a link to what is behind an alarm."""
        refuse_unknown(auditor, axis)
        found = await measurements.search(
            database, auditor=auditor, axis=axis, min_score=min_score, exchange_ids=exchange_id, limit=limit
        )
        shown = [_shown(one) for one in found]
        asked = {
            "auditor": auditor,
            "axis": axis,
            "min_score": min_score,
            "exchange_id": exchange_id,
            "limit": limit,
        }
        await _note(request, database, "read", asked, len({one.id for one in shown}))
        log.info("exchanges read", client=_client(request), exchanges=[one.id for one in shown])
        return shown

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
        await _note(request, database, "delete", asked, deleted)
        log.info("exchanges deleted", client=_client(request), exchanges=deleted)
        return Deleted(deleted)

    @get("/redactions", summary="Places of stored text that were replaced so far, by kind", responses=announced(403))
    async def redactions(self, database: Store) -> dict[str, int]:
        counted = await counters.read(database)
        return {labels[0]: int(count) for (name, labels), count in sorted(counted.items()) if name == "redactions"}

    @get("/access", summary="Who read exchanges or deleted them, newest first", responses=announced(403))
    async def access(self, database: Store, limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100) -> list[Access]:
        return await access.entries(database, limit=limit)


async def _note(
    request: Request[None, None, State], database: Store, action: Action, asked: dict[str, Any], n_exchanges: int
) -> None:
    client = _client(request)
    await access.note(database, who=ADMIN, client=client, action=action, asked=asked, n_exchanges=n_exchanges)


def _client(request: Request[None, None, State]) -> str | None:
    return request.client.host if request.client else None


def _shown(scored: Scored) -> ShownExchange:
    prompt, reply, reason = _text(scored.exchange)
    return ShownExchange(
        id=scored.exchange.id,
        request_id=scored.exchange.request_id,
        received_at=scored.exchange.received_at,
        model=scored.exchange.model,
        upstream=scored.exchange.upstream,
        auditor=scored.auditor,
        metric=scored.metric,
        axis=scored.axis,
        group=scored.group,
        reference=scored.reference,
        value=scored.value,
        inclusion_probability=scored.inclusion_probability,
        prompt=prompt,
        reply=reply,
        no_text_because=reason,
    )


def _text(exchange: Exchange) -> tuple[str | None, str | None, str | None]:
    """(prompt, reply, None), redacted, or (None, None, why there is no text)."""
    if not exchange.request_body:
        return None, None, "there is no text: it was dropped (store.keep_text), or its key is not configured any more"
    try:
        conversation = read_conversation(exchange)
    except NotAuditableError as exc:
        return None, None, _SHOWN.redacted(str(exc))
    return _SHOWN.redacted(conversation.prompt_text), _SHOWN.redacted(conversation.reply_text), None
