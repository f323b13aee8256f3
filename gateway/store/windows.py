"""Windows of live streams: sums over the newest measurements, computed from the stored ones. For display only."""

import time

import msgspec
import sqlalchemy as sa

from auditors.metrics.weighting import WeightedSums
from auditors.streams.scales import scale_of
from gateway.store.database import Database
from gateway.store.tables import measurements


class Window(msgspec.Struct, frozen=True):
    """The newest audits of each stream: so many, or those of the last so many seconds."""

    audits: int | None = None
    seconds: float = 0.0


class WindowSums(msgspec.Struct):
    """One stream over a window."""

    values: WeightedSums = WeightedSums()
    """Of y on [0, 1]."""
    excluded: dict[str, int] = msgspec.field(default_factory=dict)
    """Audits without a value, by status."""


async def sums(database: Database, window: Window) -> dict[str, WindowSums]:
    """By stream; gap streams have no measurements of their own and are absent, as is what lies outside the window."""
    inside = _inside(window).subquery()
    w, v = 1.0 / inside.c.inclusion_probability, inside.c.value
    totals = [sa.func.sum(term) for term in (w, w * w, w * v, w * v * v)]
    query = sa.select(inside.c.stream, inside.c.metric, inside.c.status, sa.func.count(), sa.func.count(v), *totals)
    found: dict[str, WindowSums] = {}
    async with database.read() as connection:
        rows = await connection.execute(query.group_by(inside.c.stream, inside.c.metric, inside.c.status))
        for stream, metric, status, audits, n, *moments in rows:
            one = found.setdefault(stream, WindowSums())
            if n:
                one.values = _on_unit_scale(metric, n, *moments)
            else:
                one.excluded[status] = audits
    return found


def _inside(window: Window) -> sa.Select[tuple[str, str, str, float, float]]:
    columns = measurements.c
    chosen = sa.select(columns.stream, columns.metric, columns.status, columns.value, columns.inclusion_probability)
    chosen = chosen.where(columns.stream.is_not(None))
    if window.audits is None:
        return chosen.where(columns.created_at >= time.time() - window.seconds)
    newest = sa.func.row_number().over(partition_by=columns.stream, order_by=columns.id.desc())
    ranked = chosen.add_columns(newest.label("place")).subquery()
    return sa.select(ranked).where(ranked.c.place <= window.audits)


def _on_unit_scale(metric: str, n: int, w: float, ww: float, wv: float, wvv: float) -> WeightedSums:
    """The sums of y = (value - low) / width from those of the values themselves."""
    scale = scale_of(metric)
    low, width = scale.low, scale.high - scale.low
    wy, wyy = (wv - low * w) / width, (wvv - 2.0 * low * wv + low * low * w) / (width * width)
    return WeightedSums(n=n, w=w, ww=ww, wy=min(w, max(0.0, wy)), wyy=max(0.0, wyy))
