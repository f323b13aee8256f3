"""One live stream by the server that answered, where several stand behind one address: what an answer's
`system_fingerprint` tells apart. For display only.
"""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from gateway.store.database import Database
from gateway.store.tables import exchanges, measurements
from gateway.store.windows import WindowSums, on_unit_scale, totals_of

MOST_READ = 5_000
"""Measurements that are looked at: the newest."""
MOST_REPLICAS = 50
"""Whoever answers may name another fingerprint each time."""


class Replica(msgspec.Struct):
    """What the answers of one fingerprint came to."""

    system_fingerprint: str | None
    """None: the answer named none, or its exchange is deleted."""
    first_at: float
    """When the oldest of its measurements was recorded, Unix seconds."""
    last_at: float
    sums: WindowSums


async def read(database: Database, stream: str) -> Sequence[Replica]:
    """Of the newest measurements of a stream, the MOST_REPLICAS fingerprints with most of them; empty without any."""
    columns = measurements.c
    mine = sa.select(measurements).where(columns.stream == stream)
    newest = mine.order_by(columns.created_at.desc(), columns.id.desc()).limit(MOST_READ).subquery()
    fingerprint = exchanges.c.system_fingerprint
    times = sa.func.min(newest.c.created_at), sa.func.max(newest.c.created_at)
    query = sa.select(fingerprint, newest.c.metric, newest.c.status, *times, sa.func.count(), *totals_of(newest.c))
    joined = query.select_from(newest.outerjoin(exchanges, newest.c.exchange_id == exchanges.c.id))
    rows = await database.fetch_rows(joined.group_by(fingerprint, newest.c.metric, newest.c.status))
    found: dict[str | None, Replica] = {}
    for name, metric, status, first_at, last_at, audits, n, *moments in rows:
        one = found.setdefault(name, Replica(name, first_at, last_at, WindowSums()))
        one.first_at, one.last_at = min(one.first_at, first_at), max(one.last_at, last_at)
        if n:
            one.sums.values = on_unit_scale(metric, n, *moments)
        else:
            one.sums.excluded[status] = audits
    in_order = sorted(found.values(), key=lambda one: (-one.sums.values.n, one.system_fingerprint or ""))
    return in_order[:MOST_REPLICAS]
