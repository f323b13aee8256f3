"""What no suite covers: the computations, and the sampled prompts that they are about."""

from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from auditors.types import Exchange
from gateway.features.coverage.figures import Coverage
from gateway.store.database import Database
from gateway.store.exchanges import exchange_columns, exchange_of
from gateway.store.tables import coverages, exchanges

MOST_KEPT = 400
"""Computations: a year of one a day."""


class Asked(NamedTuple):
    """A stored exchange and whom its request names, as a digest."""

    exchange: Exchange
    user: str | None


async def add(database: Database, found: Coverage) -> None:
    """Keeps a computation, and of the older ones the newest."""
    row = {"at": found.at, "body": msgspec.json.encode(found).decode()}
    kept = sa.select(coverages.c.id).order_by(coverages.c.id.desc()).limit(MOST_KEPT)
    async with database.begin() as connection:
        await connection.execute(sa.insert(coverages).values(row))
        await connection.execute(sa.delete(coverages).where(coverages.c.id.not_in(kept.scalar_subquery())))


async def newest(database: Database) -> Coverage | None:
    """None before the first computation, and where that was another version's, which is then due again."""
    query = sa.select(coverages.c.body).order_by(coverages.c.id.desc()).limit(1)
    async with database.read() as connection:
        body = (await connection.execute(query)).scalar()
    try:
        return None if body is None else msgspec.json.decode(body, type=Coverage)
    except msgspec.ValidationError:
        return None


async def asked(database: Database, *, before: Asked | None, limit: int) -> list[Asked]:
    """Stored exchanges that have their text, the newest first; `before`: those that come after this one."""
    columns = exchanges.c
    wanted = [*exchange_columns(), columns.user_digest]
    query = sa.select(*wanted).where(columns.request_body.is_not(None))
    if before is not None:
        place = sa.tuple_(sa.literal(before.exchange.received_at), sa.literal(before.exchange.id))
        query = query.where(sa.tuple_(columns.received_at, columns.id) < place)
    query = query.order_by(columns.received_at.desc(), columns.id.desc()).limit(limit)
    async with database.read() as connection:
        rows = (await connection.execute(query)).all()
    return [Asked(exchange_of(row, database.texts), row.user_digest) for row in rows]
