"""Remembers the last delivery of each sender, a tap's life, so that a delivery whose answer was lost is taken once."""

import struct
import time
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import facts

KEPT_SECONDS = 24 * 3600.0
"""Longer than any sender waits to repeat itself: then its entry goes."""

_PREFIX = "delivery:"
_VALUE = struct.Struct(">Qd")
"""Number, so that values compare as their numbers do; when it was made."""
_NUMBER_BYTES = 8


class Delivery(NamedTuple):
    """Names one delivery by sender and number."""

    sender: str
    """Unique among all senders of a store, at most 32 characters."""
    number: int
    """Rises with every delivery of the sender."""
    made_at: float
    """Unix seconds."""


async def is_new(connection: AsyncConnection, delivery: Delivery) -> bool:
    """Note the delivery in the caller's transaction; False if it or a later one is stored, or just being stored."""
    row = upsert(connection, facts).values(
        name=_PREFIX + delivery.sender, value=_VALUE.pack(delivery.number, delivery.made_at)
    )
    noting = row.on_conflict_do_update(
        index_elements=[facts.c.name],
        set_={"value": row.excluded.value},
        where=_number(facts.c.value) < _number(row.excluded.value),
    )
    return (await connection.execute(noting.returning(facts.c.name))).first() is not None


def _number(value: sa.ColumnElement[bytes]) -> sa.ColumnElement[bytes]:
    return sa.func.substr(value, 1, _NUMBER_BYTES, type_=sa.LargeBinary)


async def forget_old(database: Database) -> None:
    """Deletes the entries of senders that delivered nothing for `KEPT_SECONDS`."""
    before = time.time() - KEPT_SECONDS
    mine = facts.c.name.startswith(_PREFIX)
    async with database.begin() as connection:
        entries = (await connection.execute(sa.select(facts.c.name, facts.c.value).where(mine))).all()
        old = [name for name, value in entries if _VALUE.unpack(value)[1] < before]
        if old:
            await connection.execute(sa.delete(facts).where(facts.c.name.in_(old)))
