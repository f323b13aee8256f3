"""Records who lowered which drift alarm, why, and if by accepting the new level."""

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store.connections import put_row
from gateway.store.database import Database
from gateway.store.streams import Stream
from gateway.store.tables import acknowledgements, facts


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """One acknowledgement. Times are Unix seconds."""

    at: float
    stream: str
    by: str
    """The name that the person gave."""
    reason: str
    accept_new_level: bool
    client: str | None
    """Network address."""
    alarm_since: float | None = None
    direction: str | None = None
    """rising or falling."""


_LOWERED = "lowered alarm:"


async def add(connection: AsyncConnection, stream: Stream, entry: Acknowledgement, shown: bytes) -> None:
    """Puts it on record, in the caller's transaction, with what the alarm of the stream was; `shown`: its detector."""
    if stream.alarm_since is not None:
        await put_row(connection, facts, {"name": _LOWERED + stream.id}, {"value": shown})
    detector = stream.state.detector
    row = msgspec.structs.asdict(entry) | {
        "by_whom": entry.by,
        "alarm_since": stream.alarm_since,
        "direction": detector.direction if detector is not None else None,
    }
    del row["by"]
    await connection.execute(sa.insert(acknowledgements).values(row))


async def lowered_alarm(database: Database, stream: str) -> bytes | None:
    """Return what `add` was last given for a stream's alarm."""
    return await database.fetch_value(sa.select(facts.c.value).where(facts.c.name == _LOWERED + stream))


async def entries(database: Database, *, stream: str | None = None, limit: int = 100) -> list[Acknowledgement]:
    """Return the newest entries, newest first; of a single stream, or of all."""
    columns = [column for column in acknowledgements.c if column.name not in ("id", "by_whom")]
    query = sa.select(*columns, acknowledgements.c.by_whom.label("by"))
    if stream is not None:
        query = query.where(acknowledgements.c.stream == stream)
    rows = await database.fetch_rows(query.order_by(acknowledgements.c.id.desc()).limit(limit))
    return [Acknowledgement(**row._mapping) for row in rows]
