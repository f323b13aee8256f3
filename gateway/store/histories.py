"""The newest measurements of a live stream, by periods of equal length, for display only: a finished period stays as it
is, and an empty one is absent. Bounds are multiples of their length since 1970-01-01 UTC. A measurement counts when
recorded.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store.database import Database
from gateway.store.tables import measurements
from gateway.store.windows import Window, WindowSums, totals_of

MOST_READ = 20_000
"""Measurements that are read for one history: the newest."""
MOST_PERIODS, FEWEST_PERIODS = 60, 12
PER_PERIOD = 100
"""Measurements that a period should have on average, as long as that leaves FEWEST_PERIODS."""
MINUTE, HOUR, DAY = 60, 3600, 86_400
LENGTHS = (
    *(1, 2, 5, 10, 15, 30),
    *(MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR),
    *(DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 364 * DAY),
)
"""Seconds that a period may have."""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """The history read of a single stream."""

    length: int
    """Length of each period, in seconds."""
    periods: Mapping[int, WindowSums]
    """Sums by the number of their period since 1970-01-01 UTC, in order; empty periods are absent."""
    is_cut: bool
    """True if MOST_READ left out older measurements that were asked for."""


async def read(database: Database, stream: str, window: Window | None = None) -> Read | None:
    """The history of a stream, of MOST_READ measurements of the `window` (None: all) at most; None without any."""
    columns = measurements.c
    span = window or Window(audits=None, seconds=math.inf)
    limit = MOST_READ if span.audits is None else min(span.audits, MOST_READ)
    since = time.time() - span.seconds if span.audits is None and span.seconds < math.inf else 0.0
    place = columns.created_at, columns.id
    mine = sa.select(*place).where(columns.stream == stream, columns.created_at >= since)
    newest_first = mine.order_by(*(column.desc() for column in place)).limit(limit)
    newest = newest_first.subquery().c
    async with database.read() as connection:
        inside = sa.select(sa.func.count(), sa.func.min(newest.created_at), sa.func.max(newest.created_at))
        n, start, end = (await connection.execute(inside)).one()
        if not n:
            return None
        at_start = sa.select(sa.func.min(newest.id)).where(newest.created_at == start)
        first = (start, (await connection.execute(at_start)).scalar_one())
        older = mine.where(columns.created_at <= start, sa.tuple_(*place) < sa.tuple_(*first)).limit(1)
        is_cut = (span.audits is None or span.audits > MOST_READ) and (
            await connection.execute(older)
        ).first() is not None
        length = length_of(start, end, n)
        rows = await _sums(connection, stream, first, end, length)
    return Read(length=length, periods=_periods(rows), is_cut=is_cut)


def length_of(start: float, end: float, n: int) -> int:
    """Seconds of a period: MOST_PERIODS at most, few measurements in hardly any. `start`, `end`: Unix seconds."""
    most = min(MOST_PERIODS, max(FEWEST_PERIODS, n // PER_PERIOD))
    length = next((length for length in LENGTHS if end // length - start // length < most), None)
    return length or LENGTHS[-1] * math.ceil((end - start) / LENGTHS[-1])


async def _sums(
    connection: AsyncConnection, stream: str, first: tuple[float, int], end: float, length: int
) -> Sequence[sa.Row[Any]]:
    columns = measurements.c
    place = columns.created_at / float(length)
    # SQLite may lack floor(), and its cast cuts off; that of PostgreSQL rounds.
    period = sa.cast(sa.func.floor(place) if connection.dialect.name == "postgresql" else place, sa.BigInteger)
    number = period.label("number")
    query = sa.select(number, columns.metric, columns.status, sa.func.count(), *totals_of(columns))
    chosen = query.where(columns.stream == stream, columns.created_at.between(first[0], end))
    chosen = chosen.where(sa.tuple_(columns.created_at, columns.id) >= sa.tuple_(*first))
    grouped = chosen.group_by(number, columns.metric, columns.status).order_by(number)
    return (await connection.execute(grouped)).all()


def _periods(rows: Sequence[Sequence[Any]]) -> dict[int, WindowSums]:
    sums_by_period: dict[int, WindowSums] = {}
    for number, *counts in rows:
        sums_by_period.setdefault(number, WindowSums()).put(*counts)
    return sums_by_period
