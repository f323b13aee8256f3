"""The only way out for texts that people wrote: redacted, and on record before they are sent."""

import math
import re
from typing import Any

import msgspec
import structlog
from litestar import Request
from litestar.datastructures import State

from gateway.api.access import client_of, note
from gateway.config.schema import Config, SamplingConfig
from gateway.errors import NotFoundError, RequestError
from gateway.reading import exchange_pages
from gateway.reading.exchange_comparison import Compared, Comparison, make_comparison
from gateway.reading.exchange_forms import ExchangeRecord
from gateway.reading.exchange_pages import Page, Wanted
from gateway.reading.process import Encoded
from gateway.store.database import Database
from gateway.store.exchange_search import Criteria, Place

log = structlog.get_logger(__name__)

_PLACE = re.compile(r"([0-9.e+-]{1,30}),([^,\x00]{0,36}),([0-9]{1,18})")


async def read_list(
    request: Request[Any, Any, State],
    database: Database,
    config: Config,
    criteria: Criteria,
    *,
    before: str | None = None,
    limit: int,
    excerpt: int | None = None,
) -> Page:
    """Up to `limit` exchanges that `criteria` choose, after `before`; on record. `excerpt`: characters of each text;
    None: all. Raises RequestError for a wrong place, NotFoundError for an unstored request id, StoreError.
    """
    place = None if before is None else _read_place(before)
    page = await exchange_pages.make_page(config, Wanted(criteria=criteria, before=place, limit=limit, excerpt=excerpt))
    fields = msgspec.structs.asdict(criteria)
    filter_fields = {"exchange_id": fields.pop("exchange_ids"), **fields} | {"before": before, "limit": limit}
    await note(request, database, "read", filter_fields, len(set(page.ids)))
    log.info("exchanges read", client=client_of(request), exchanges=page.ids)
    if not page.has_request:
        raise NotFoundError(not_stored(str(criteria.request_id), config))
    return page


async def read_record(
    request: Request[Any, Any, State], database: Database, config: Config, exchange_id: str
) -> Encoded[ExchangeRecord]:
    """Return one exchange with all that is stored of it. Raises NotFoundError, StoreError."""
    filter_fields = {"exchange_id": [exchange_id[:36]]}
    try:
        record = await exchange_pages.make_record(config, exchange_id)
    except NotFoundError:
        await note(request, database, "read", filter_fields, 0)
        raise
    await note(request, database, "read", filter_fields, 1)
    log.info("exchange read", client=client_of(request), exchanges=[exchange_id])
    return record


async def read_comparison(
    request: Request[Any, Any, State],
    database: Database,
    config: Config,
    stream: str,
    *,
    limit: int,
    excerpt: int | None = None,
) -> Encoded[Comparison]:
    """Return exchanges before and since a change, `limit` a side. Raises NotFoundError, ConflictError, StoreError."""
    query = Compared(stream=stream, limit=limit, excerpt=excerpt)
    page = await make_comparison(config, query)
    await note(request, database, "read", {"stream": stream, "limit": limit}, len(page.ids))
    log.info("exchanges read", client=client_of(request), exchanges=page.ids)
    return page.comparison


def written(place: Place) -> str:
    """A place in the list, as `before` takes it."""
    return f"{place.received_at!r},{place.exchange_id},{place.measurement_id}"


def not_stored(request_id: str, config: Config) -> str:
    """Why nothing is known of a request: most requests are never sampled, and what was is not kept for ever."""
    return (
        f'no exchange with the request id "{request_id[:80]}" is stored: {_sampled(config.sampling)}; what was sampled '
        f"is stored within seconds and deleted after {config.store.retention_days:g} days, or on request"
    )


def _sampled(sampling: SamplingConfig) -> str:
    rates = {sampling.rate, *sampling.strata.values()}
    least, most = f"{100 * min(rates):.3g}", f"{100 * max(rates):.3g}"
    return f"{most} % of requests are sampled" if least == most else f"{least} to {most} % of requests are sampled"


def _read_place(text: str) -> Place:
    match = _PLACE.fullmatch(text)
    try:
        place = match and Place(float(match[1]), match[2], int(match[3]))
    except ValueError:
        place = None
    if not place or not math.isfinite(place.received_at):
        raise RequestError(f'before "{text[:80]}" is not a place in the list: take it from a header x-next-before')
    return place
