"""Two runs compared as their page shows it: a forest plot for each metric, and what flipped."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import msgspec
from markupsafe import Markup

from gateway.console.interval_figure import plot

MOST_PARTS = 40
"""Most numbers of groups and parts of a metric that are drawn; if there are more, those with a star."""
MOST_FLIPS = 50
SIGNIFICANT = 0.05


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One number of both runs; see `benchmarks.reporting.compare.Difference`."""

    metric: str
    axis: str | None
    group: str | None
    reference: str | None
    subset: str | None
    value_a: float | None
    value_b: float | None
    difference: float | None
    lower: float | None
    upper: float | None
    adjusted_p_value: float | None
    n_a: int
    n_b: int
    over_axes: str | None
    reason: str | None

    @property
    def is_whole(self) -> bool:
        return (self.group, self.reference, self.subset) == (None, None, None)

    @property
    def is_starred(self) -> bool:
        return self.adjusted_p_value is not None and self.adjusted_p_value <= SIGNIFICANT

    @property
    def name(self) -> str:
        axis = self.axis or f"all axes{f', {self.over_axes}' if self.over_axes else ''}"
        return " · ".join(part for part in (axis, self.group, self.reference, self.subset) if part).replace("_", " ")


class _Found(msgspec.Struct, frozen=True):
    comparison: dict[str, Any]
    """See `benchmarks.reporting.compare.Comparison`."""
    n_flipped: int
    flips: list[dict[str, Any]] | None
    """See `benchmarks.reporting.flips.Flip`."""


class Forest(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of a single metric on a single scale."""

    metric: str
    rows: list[tuple[Difference, Markup]]
    """The rows that are whole, over all axes or starred; all rows, if there are none of these."""
    parts: list[tuple[Difference, Markup]]
    """The others, folded."""
    digits: int
    n_left_out: int
    """Numbers of groups and parts without a star, which are in the JSON and the report."""


class Drawn(msgspec.Struct, frozen=True):
    comparison: Any
    forests: list[Forest]
    flips: list[dict[str, Any]] | None
    """The items that flipped; None for a viewer, who reads no text."""
    n_flipped: int


async def drawn(content: bytes) -> Drawn:
    """Return the drawn form of the JSON of `run_views.compared`."""
    return await asyncio.to_thread(_drawn, content)


def _drawn(content: bytes) -> Drawn:
    answer = msgspec.json.decode(content, type=_Found)
    by_metric: dict[str, list[Difference]] = {}
    for row in msgspec.convert(answer.comparison["differences"], list[Difference]):
        by_metric.setdefault(row.metric, []).append(row)
    forests = [_forest(metric, rows) for metric, rows in by_metric.items()]
    flips = None if answer.flips is None else answer.flips[:MOST_FLIPS]
    return Drawn(answer.comparison, forests, flips, answer.n_flipped)


def _forest(metric: str, rows: Sequence[Difference]) -> Forest:
    parts = [row for row in rows if not row.is_whole]
    visible = [row for row in rows if row.is_whole or row.is_starred or len(parts) <= MOST_PARTS]
    visible.sort(key=lambda row: (not row.is_whole, row.axis is not None))
    ends = [abs(end) for row in visible for end in (row.difference, row.lower, row.upper) if end is not None]
    widest = max(ends, default=0.0) or 1.0
    scale = (-widest, widest)
    first = [row for row in visible if row.is_whole or row.is_starred or row.axis is None] or visible
    drawn_rows = [(row, plot(scale, 0.0, row.difference, row.lower, row.upper)) for row in visible]
    return Forest(
        metric=metric,
        rows=[row for row in drawn_rows if row[0] in first],
        parts=[row for row in drawn_rows if row[0] not in first],
        digits=max(0, 2 - math.floor(math.log10(widest))),
        n_left_out=len(rows) - len(visible),
    )
