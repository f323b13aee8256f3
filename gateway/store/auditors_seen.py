"""Signs of life of the auditors, in `facts`; an auditor that ends in order takes its own away, a killed does not."""

import time

import msgspec
import sqlalchemy as sa

from gateway.store.connections import put_row
from gateway.store.database import Database
from gateway.store.tables import facts

BEAT_SECONDS = 3.0
SILENT_SECONDS = 12.0
"""Seconds without a sign of life after which an auditor counts as dead."""
FORGOTTEN_SECONDS = 24 * 3600.0
_PREFIX = "auditor/"


class SeenAuditor(msgspec.Struct, frozen=True):
    """An auditor and its last sign of life, Unix seconds by its own clock."""

    name: str
    """Host and process id."""
    seen_at: float

    def is_silent(self, now: float) -> bool:
        """Return whether it counts as dead."""
        return now - self.seen_at > SILENT_SECONDS


async def beat(database: Database, name: str) -> None:
    """Says that this auditor is there, and forgets those that have been silent for a day."""
    now = time.time()
    async with database.begin() as connection:
        await put_row(connection, facts, {"name": f"{_PREFIX}{name}"}, {"value": msgspec.json.encode(now)})
        entries = (await connection.execute(_all())).all()
        old = [entry.name for entry in entries if now - msgspec.json.decode(entry.value) > FORGOTTEN_SECONDS]
        if old:
            await connection.execute(sa.delete(facts).where(facts.c.name.in_(old)))


async def leave(database: Database, name: str) -> None:
    """Takes the sign of life of an auditor away that ends in order."""
    await database.change_rows(sa.delete(facts).where(facts.c.name == f"{_PREFIX}{name}"))


async def seen(database: Database) -> list[SeenAuditor]:
    """Every auditor that did not end in order, by name."""
    entries = await database.fetch_rows(_all())
    return [SeenAuditor(entry.name.removeprefix(_PREFIX), msgspec.json.decode(entry.value)) for entry in entries]


def _all() -> sa.Select[tuple[str, bytes]]:
    return sa.select(facts.c.name, facts.c.value).where(facts.c.name.startswith(_PREFIX)).order_by(facts.c.name)
