"""Stores the coverage computations, and reads the sampled prompts that they are about."""

from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from auditors.types import Exchange
from gateway.features.coverage.figures import Coverage
from gateway.store.database import Database
from gateway.store.exchanges import exchange_columns, exchange_of
from gateway.store.tables import coverages, exchanges

MOST_KEPT = 400
"""Computations that are kept: a year of daily computations."""


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


async def asked(database: Database, *, before: Asked | None, limit: int) -> list[Asked]:
    """Stored exchanges that have their text, the newest first; `before`: those that come after this one."""
    columns = exchanges.c
    selected = [*exchange_columns(), columns.user_digest]
    query = sa.select(*selected).where(columns.request_body.is_not(None))
    if before is not None:
        place = sa.tuple_(sa.literal(before.exchange.received_at), sa.literal(before.exchange.id))
        query = query.where(sa.tuple_(columns.received_at, columns.id) < place)
    query = query.order_by(columns.received_at.desc(), columns.id.desc()).limit(limit)
    return [Asked(exchange_of(row, database.texts), row.user_digest) for row in await database.fetch_rows(query)]
