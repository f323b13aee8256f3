"""Measurements by day (UTC) on PostgreSQL: partitions made ahead of time, dropped when they are old. SQLite has none. A
row belongs to the day of its `created_at`, by the clock of the auditor. A row without a partition goes to
`measurements_other`.
"""

import logging
import math
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import StoreError
from gateway.store.connections import Connections
from gateway.store.schema import exclusively
from gateway.store.tables import measurements

logger = logging.getLogger(__name__)

A_DAY = 86_400
DAYS_AHEAD = 7
MOST_AT_ONCE = 10_000
"""Rows that a pass deletes singly: of SQLite, or of a partition that does not hold a single day."""
LOCK_SECONDS = 2
"""Seconds that a change of partitions waits for sessions that work with them, and keeps others waiting."""
_OTHER = "measurements_other"
_LOCK = 0x70617274
_IS_LOCKED = "55P03"
_PARTITIONS = sa.text(
    "SELECT relname, pg_get_expr(relpartbound, pg_class.oid) FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
    " WHERE inhparent = 'measurements'::regclass"
)
_BOUNDS = re.compile(r"FOR VALUES FROM \('([0-9.e+]+)'\) TO \('([0-9.e+]+)'\)")


class Partition(NamedTuple):
    """Measurements recorded from `start` until just before `end`, Unix seconds."""

    name: str
    start: float
    end: float


async def prepare(database: Connections, *, since: float | None = None) -> None:
    """Make the partitions from this Unix time (None: yesterday) until DAYS_AHEAD; move rows of their days into them."""
    if database.dialect == "sqlite":
        return
    now = time.time()
    days = range(_day(now - A_DAY if since is None else since), _day(now) + DAYS_AHEAD * A_DAY + 1, A_DAY)
    async with database.read() as connection:
        if not _missing(days, await listed(connection)):
            return
    async with database.begin() as connection:
        await exclusively(connection, _LOCK)
        await connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
        await connection.execute(sa.text(f"LOCK TABLE {_OTHER} IN ACCESS EXCLUSIVE MODE"))
        for start in _missing(days, await listed(connection)):
            await _make(connection, start)
    await database.change_rows(sa.text("ANALYZE measurements"))  # autovacuum only looks at single partitions


async def retire(database: Connections, *, recorded_before: float) -> None:
    """Deletes the days that ended before this Unix time: whole partitions, and up to MOST_AT_ONCE other rows."""
    before = _day(recorded_before)
    if database.dialect == "sqlite":
        await _delete(database, measurements, before)
        return
    async with database.read() as connection:
        partitions = await listed(connection)
    for partition in partitions:
        if partition.end <= before and not await _drop(database, partition):
            return  # the next pass goes on
    for name in [partition.name for partition in partitions if partition.start < before < partition.end] + [_OTHER]:
        await _delete(database, sa.table(name, *map(sa.column, ("created_at", "id"))), before)


async def listed(connection: AsyncConnection) -> list[Partition]:
    """Return all partitions but the last resort for rows that fit no other, in order of time."""
    partitions = []
    for name, expression in await connection.execute(_PARTITIONS):
        if bounds := _BOUNDS.fullmatch(expression):
            partitions.append(Partition(name, float(bounds[1]), float(bounds[2])))
    return sorted(partitions, key=lambda partition: partition.start)


def _missing(days: range, partitions: Sequence[Partition]) -> list[int]:
    return [
        start
        for start in days
        if not any(partition.start < start + A_DAY and start < partition.end for partition in partitions)
    ]


async def _make(connection: AsyncConnection, start: int) -> None:
    end = start + A_DAY
    name = time.strftime("measurements_d%Y%m%d", time.gmtime(start))
    for statement in (
        f"CREATE TABLE {name} (LIKE measurements INCLUDING DEFAULTS)",
        f"WITH moved AS (DELETE FROM {_OTHER} WHERE created_at >= {start} AND created_at < {end} RETURNING *)"  # noqa: S608 - names and numbers of our own
        f" INSERT INTO {name} SELECT * FROM moved",
        f"ALTER TABLE measurements ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})",
    ):
        await connection.execute(sa.text(statement))


async def _drop(database: Connections, partition: Partition) -> bool:
    """False where someone worked with it for longer than LOCK_SECONDS."""
    try:
        async with database.begin() as connection:
            await connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
            await connection.execute(sa.text(f"DROP TABLE IF EXISTS {partition.name}"))
    except StoreError as exc:
        if not _is_locked(exc):
            raise
        return False
    logger.info("measurements until %s are deleted", time.strftime("%Y-%m-%d", time.gmtime(partition.end - 1)))
    return True


async def _delete(database: Connections, table: sa.TableClause, before: float) -> None:
    columns = table.c
    key = sa.tuple_(columns.created_at, columns.id)
    oldest = sa.select(columns.created_at, columns.id).where(columns.created_at < before)
    oldest = oldest.order_by(columns.created_at, columns.id).limit(MOST_AT_ONCE)
    await database.change_rows(sa.delete(table).where(key.in_(oldest)))


def _is_locked(exc: StoreError) -> bool:
    cause = exc.__cause__
    return isinstance(cause, DBAPIError) and getattr(cause.orig, "sqlstate", None) == _IS_LOCKED


def _day(at: float) -> int:
    return math.floor(at / A_DAY) * A_DAY
