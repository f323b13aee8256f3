"""Streams whose stored state cannot be used, and why, as rows of `facts`; the state stays until a restart."""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.streams.state import StreamKey
from gateway.errors import StoreError
from gateway.health import OK, STREAMS
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.streams import Stream
from gateway.store.tables import facts

logger = logging.getLogger(__name__)

MOST_NAMED = 3
"""Streams that a line of /readyz names; the others are counted."""
_PREFIX = "damaged stream/"


class DamagedStream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that was put aside."""

    stream: str
    key: StreamKey
    reason: str
    at: float
    """Time at which it was noticed, Unix seconds."""


async def note(connection: AsyncConnection, damaged: Sequence[Stream]) -> list[Stream]:
    """Put damaged streams on record, in the caller's transaction; return those that were not on record."""
    names = {f"{_PREFIX}{stream.id}": stream for stream in damaged}
    recorded = (await connection.execute(sa.select(facts.c.name).where(facts.c.name.in_(list(names))))).scalars().all()
    new = {name: stream for name, stream in names.items() if name not in recorded}
    for name, stream in new.items():
        reason = stream.state.damaged or "unknown"
        logger.error("stream %s is damaged and was put aside: %s", stream.id, reason)
        entry = DamagedStream(stream=stream.id, key=stream.key, reason=reason, at=time.time())
        row = upsert(connection, facts).values(name=name, value=msgspec.json.encode(entry))
        await connection.execute(row.on_conflict_do_nothing())
    return list(new.values())


async def forget(connection: AsyncConnection, stream_id: str) -> None:
    """Take a stream off the record, in the caller's transaction."""
    await connection.execute(sa.delete(facts).where(facts.c.name == f"{_PREFIX}{stream_id}"))


async def list_damaged(database: Database) -> list[DamagedStream]:
    query = sa.select(facts.c.value).where(facts.c.name.startswith(_PREFIX)).order_by(facts.c.name)
    values = await database.fetch_column(query)
    return [msgspec.json.decode(value, type=DamagedStream) for value in values]


async def check(database: Database) -> Mapping[str, str]:
    """Return the check of /readyz: none while no stream is damaged; otherwise a check that passes, and names them."""
    with suppress(StoreError):  # which is a check of its own
        if damaged := await list_damaged(database):
            return {STREAMS: f"{OK}, but {damaged_text(damaged)}"}
    return {}


def damaged_text(damaged: Sequence[DamagedStream]) -> str:
    """Return what /readyz and the console say of these, in one line."""
    names = [f"{entry.stream} ({_labels(entry.key)}: {entry.reason})" for entry in damaged[:MOST_NAMED]]
    more = [f"{len(damaged) - MOST_NAMED} more"] if len(damaged) > MOST_NAMED else []
    return f"{len(damaged)} damaged and put aside: {'; '.join([*names, *more])}"


def _labels(key: StreamKey) -> str:
    return " ".join(filter(None, (key.auditor, key.metric, key.axis, key.group, key.model)))
