"""A live stream by the server that answered behind one address, by its `system_fingerprint`. For display only."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from gateway.store.database import Database
from gateway.store.tables import exchanges, measurements
from gateway.store.windows import WindowSums, totals_of

MOST_READ = 5_000
"""Measurements that are looked at: the newest."""
MOST_REPLICAS = 50
"""Whoever answers may name another fingerprint each time."""


class Replica(msgspec.Struct):
    """The sums of the answers of a single fingerprint."""

    system_fingerprint: str | None
    """Fingerprint; None: the answer named none, or its exchange is deleted."""
    first_at: float
    """Time at which the oldest of its measurements was recorded, Unix seconds."""
    last_at: float
    sums: WindowSums


async def read(database: Database, stream: str) -> Sequence[Replica]:
    """Return the MOST_REPLICAS fingerprints with most of a stream's newest measurements; empty without any."""
    columns = measurements.c
    mine = sa.select(measurements).where(columns.stream == stream)
    newest = mine.order_by(columns.created_at.desc(), columns.id.desc()).limit(MOST_READ).subquery()
    fingerprint = exchanges.c.system_fingerprint
    times = sa.func.min(newest.c.created_at), sa.func.max(newest.c.created_at)
    query = sa.select(fingerprint, newest.c.metric, newest.c.status, *times, sa.func.count(), *totals_of(newest.c))
    joined = query.select_from(newest.outerjoin(exchanges, newest.c.exchange_id == exchanges.c.id))
    rows = await database.fetch_rows(joined.group_by(fingerprint, newest.c.metric, newest.c.status))
    by_fingerprint: dict[str | None, Replica] = {}
    for name, metric, status, first_at, last_at, *counts in rows:
        replica = by_fingerprint.setdefault(name, Replica(name, first_at, last_at, WindowSums()))
        replica.first_at, replica.last_at = min(replica.first_at, first_at), max(replica.last_at, last_at)
        replica.sums.put(metric, status, *counts)
    in_order = sorted(
        by_fingerprint.values(), key=lambda replica: (-replica.sums.values.n, replica.system_fingerprint or "")
    )
    return in_order[:MOST_REPLICAS]
