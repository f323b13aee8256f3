"""Counters that the auditors expose, kept with the facts they count and raised in the same transaction."""

from collections.abc import Collection, Mapping

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import counters

Increments = Mapping[tuple[str, tuple[str, ...]], float]
"""(name, label values in the metric's own order) to how much more, >= 0."""


async def add(connection: AsyncConnection, increments: Increments) -> None:
    """Raises counters inside the caller's transaction, in one order, so that writers cannot deadlock."""
    rows = [{"name": key[0], "labels": _encode(key[1]), "value": more} for key, more in sorted(increments.items())]
    if rows:
        row = upsert(connection, counters)
        total = {"value": counters.c.value + row.excluded.value}
        adding = row.on_conflict_do_update(index_elements=[counters.c.name, counters.c.labels], set_=total)
        await connection.execute(adding, rows)


async def increase(database: Database, increments: Increments) -> None:
    """Raises counters in a transaction of their own."""
    async with database.begin() as connection:
        await add(connection, increments)


async def read(database: Database, names: Collection[str] | None = None) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every counter by (name, label values), or those of these names."""
    query = sa.select(counters) if names is None else sa.select(counters).where(counters.c.name.in_(names))
    rows = await database.fetch_rows(query)
    return {(row.name, tuple(msgspec.json.decode(row.labels, type=list[str]))): row.value for row in rows}


def _encode(labels: tuple[str, ...]) -> str:
    return msgspec.json.encode(labels).decode()
