"""Windows of live streams: sums over the newest measurements, computed from the stored ones. For display only."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql import ColumnCollection

from auditors.metrics.weighting import MAX_MOMENT_WEIGHT, WeightedSums
from auditors.streams.scales import scale_of
from gateway.store.database import Database
from gateway.store.tables import measurements, streams
from gateway.turns import in_turns

_COLUMNS = [
    *(measurements.c[name] for name in ("stream", "metric", "status", "value")),
    *(measurements.c[name] for name in ("inclusion_probability", "rate_factor", "weight")),
]


class Window(msgspec.Struct, frozen=True):
    """The newest audits of each stream: so many, or those of the last so many seconds."""

    audits: int | None = None
    seconds: float = 0.0


class WindowSums(msgspec.Struct):
    """One stream over a window."""

    values: WeightedSums = WeightedSums()
    """Sums of y on [0, 1]."""
    excluded: dict[str, int] = msgspec.field(default_factory=dict)
    """Audits without a value, by status."""

    def put(self, metric: str, status: str, audits: int, n: int, *moments: float) -> None:
        """Take in the counts and the `totals_of` the measurements of a metric with this status."""
        if n:
            self.values = on_unit_scale(metric, n, *moments)
        else:
            self.excluded[status] = audits


async def sums(database: Database, window: Window, ids: Sequence[str] | None = None) -> dict[str, WindowSums]:
    """Sums by stream (`ids`, None: all); absent are gap streams and measurements outside the window."""
    inside = (_newest_of_each if database.dialect == "postgresql" and window.audits and ids else _inside)(window, ids)
    totals = totals_of(inside.c)
    query = sa.select(inside.c.stream, inside.c.metric, inside.c.status, sa.func.count(), *totals)
    sums_by_stream: dict[str, WindowSums] = {}
    rows = await database.fetch_rows(query.group_by(inside.c.stream, inside.c.metric, inside.c.status))

    def put(row: Sequence[Any]) -> None:
        stream, *counts = row
        sums_by_stream.setdefault(stream, WindowSums()).put(*counts)

    await in_turns(put, rows)
    return sums_by_stream


def totals_of(columns: ColumnCollection[str, Any]) -> list[sa.ColumnElement[Any]]:
    """Columns: count of values, and sums of w, w * w, w * value, w * value * value; w as in `streams.state.update`."""
    within_reach = MAX_MOMENT_WEIGHT * columns.rate_factor  # as `weighting.bounded_weight`
    bound = sa.case((within_reach < 1.0, within_reach), else_=1.0)
    w, v = columns.weight * bound / columns.inclusion_probability, columns.value
    weights = sa.case((v.is_not(None), w))
    return [sa.func.count(v), *(sa.func.sum(term) for term in (weights, weights * weights, w * v, w * v * v))]


def _newest_of_each(window: Window, ids: Sequence[str] | None) -> sa.FromClause:
    """Read off the index of each stream, however many measurements it has: SQLite cannot be told so."""
    selected = sa.select(streams.c.key).where(streams.c.key.in_(ids or [])).subquery().c
    mine = sa.select(*_COLUMNS).where(measurements.c.stream == selected.key)
    newest = mine.order_by(measurements.c.created_at.desc(), measurements.c.id.desc()).limit(window.audits)
    lateral_rows = newest.correlate(selected.key.table).lateral()
    return sa.select(lateral_rows).select_from(selected.key.table.join(lateral_rows, sa.true())).subquery()


def _inside(window: Window, ids: Sequence[str] | None) -> sa.FromClause:
    columns = measurements.c
    chosen = sa.select(*_COLUMNS)
    chosen = chosen.where(columns.stream.is_not(None) if ids is None else columns.stream.in_(ids))
    if window.audits is None:
        return chosen.where(columns.created_at >= time.time() - window.seconds).subquery()
    newest = sa.func.row_number().over(
        partition_by=columns.stream, order_by=(columns.created_at.desc(), columns.id.desc())
    )
    ranked = chosen.add_columns(newest.label("place")).subquery()
    return sa.select(ranked).where(ranked.c.place <= window.audits).subquery()


def on_unit_scale(metric: str, n: int, w: float, ww: float, wv: float, wvv: float) -> WeightedSums:
    """The sums of y = (value - low) / width from those of the values themselves."""
    scale = scale_of(metric)
    low, width = scale.low, scale.high - scale.low
    wy, wyy = (wv - low * w) / width, (wvv - 2.0 * low * wv + low * low * w) / (width * width)
    return WeightedSums(n=n, w=w, ww=ww, wy=min(w, max(0.0, wy)), wyy=max(0.0, wyy))
