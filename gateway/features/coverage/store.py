"""Stores the coverage computations, and reads the sampled prompts that they are about."""

import time
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from auditors.types import Exchange
from gateway.features.coverage.figures import Coverage
from gateway.store import passes
from gateway.store.database import Database
from gateway.store.exchanges import exchange_columns, exchange_of
from gateway.store.tables import coverages, exchanges

MOST_KEPT = 400
"""Computations that are kept: a year of daily computations."""

RETRY_SECONDS = 600.0
"""After which a computation is begun again that came to no number, or that another auditor began and did not finish."""
NO_EXCHANGES = "no stored exchange has its text: nothing was sampled yet, or store.keep_text is false"
REQUEST = "coverage request"


class Asked(NamedTuple):
    """A stored exchange and the user that its request names, as a digest."""

    exchange: Exchange
    user: str | None


async def add(database: Database, coverage: Coverage) -> None:
    """Keeps a computation, and of the older ones the newest."""
    row = {"at": coverage.at, "body": msgspec.json.encode(coverage).decode()}
    newest = sa.select(coverages.c.id).order_by(coverages.c.id.desc()).limit(MOST_KEPT)
    async with database.begin() as connection:
        await connection.execute(sa.insert(coverages).values(row))
        await connection.execute(sa.delete(coverages).where(coverages.c.id.not_in(newest.scalar_subquery())))


async def newest(database: Database) -> Coverage | None:
    """Reads the newest computation; None before the first, and for another version's, so that it is due again."""
    query = sa.select(coverages.c.body).order_by(coverages.c.id.desc()).limit(1)
    body = await database.fetch_value(query)
    try:
        return None if body is None else msgspec.json.decode(body, type=Coverage)
    except msgspec.ValidationError:
        return None


async def request(database: Database) -> float:
    """Ask the auditors for a computation, whatever the schedule says, and return the Unix seconds of now."""
    now = time.time()
    await passes.take(database, REQUEST, 0.0, now)
    return now


async def next_at(database: Database, newest: Coverage | None, every_seconds: float) -> float | None:
    """Return when the next computation is due, by request, schedule or first exchanges (Unix seconds); None: never."""
    requested = await passes.begun_at(database, REQUEST)
    if requested is not None or not every_seconds:
        return requested
    if newest is None:
        return time.time()
    if newest.reason == NO_EXCHANGES and await read_page(database, before=None, limit=1):
        return newest.at
    return newest.at + (every_seconds if newest.reason is None else min(every_seconds, RETRY_SECONDS))


async def read_page(database: Database, *, before: Asked | None, limit: int) -> list[Asked]:
    """Stored exchanges that have their text, the newest first; `before`: those that come after this one."""
    columns = exchanges.c
    selected = [*exchange_columns(), columns.user_digest]
    query = sa.select(*selected).where(columns.request_body.is_not(None))
    if before is not None:
        place = sa.tuple_(sa.literal(before.exchange.received_at), sa.literal(before.exchange.id))
        query = query.where(sa.tuple_(columns.received_at, columns.id) < place)
    query = query.order_by(columns.received_at.desc(), columns.id.desc()).limit(limit)
    return [Asked(exchange_of(row, database.texts), row.user_digest) for row in await database.fetch_rows(query)]
