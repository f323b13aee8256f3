"""Work that is done every so often by the auditor that comes first."""

import struct

import sqlalchemy as sa

from gateway.store.connections import put_row
from gateway.store.database import Database
from gateway.store.schema import exclusively
from gateway.store.tables import facts

AHEAD_SECONDS = 60.0
"""Seconds by which clocks may differ; a pass that began later than that began before a clock was set back."""
_LOCK = 0x6A726566
"""One auditor at a time looks whether a pass is due."""


async def take(database: Database, name: str, every_seconds: float, now: float) -> bool:
    """Return whether a pass of this name is due, which then counts as begun."""
    async with database.begin() as connection:
        await exclusively(connection, _LOCK)
        last = (await connection.execute(sa.select(facts.c.value).where(facts.c.name == name))).scalar()
        if last is not None and -AHEAD_SECONDS < now - struct.unpack("<d", bytes(last))[0] < every_seconds:
            return False
        await put_row(connection, facts, {"name": name}, {"value": struct.pack("<d", now)})
    return True


async def begun_at(database: Database, name: str) -> float | None:
    """Return the Unix seconds at which a pass of this name was begun last; None if it never was, or was forgotten."""
    value = await database.fetch_value(sa.select(facts.c.value).where(facts.c.name == name))
    return None if value is None else float(struct.unpack("<d", bytes(value))[0])


async def forget(database: Database, name: str) -> None:
    """Makes it due again: who took it could not do it."""
    await database.change_rows(sa.delete(facts).where(facts.c.name == name))
