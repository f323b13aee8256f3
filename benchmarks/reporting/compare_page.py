"""One self-contained HTML page from a comparison of two runs: what changed, a forest plot, items that flipped."""

from collections.abc import Sequence

import msgspec

from auditors.structs import combine
from auditors.types import Estimate
from benchmarks.reporting.compare import Comparison, Difference
from benchmarks.reporting.flips import Flip, counted
from benchmarks.reporting.pages import template
from benchmarks.run.estimation import FALSE_STARS
from benchmarks.suites import registry
from benchmarks.suites.protocol import Scale


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One number of both runs, and their difference as it is drawn."""

    row: Difference
    drawn: Estimate
    is_starred: bool


class Forest(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of a single metric on a single scale."""

    metric: str
    reading: str
    scale: Scale
    lines: list[Line]


def render(comparison: Comparison, flips: Sequence[Flip], n_flipped: int) -> str:
    """The page of two runs, with some of the `n_flipped` pairs of replies that were read differently."""
    suite = registry.known(comparison.suite)
    page: str = template("compare.html").render(
        comparison=comparison,
        title=suite.title if suite else comparison.suite,
        name_a=comparison.names["a"],
        name_b=comparison.names["b"],
        forests=_forests(comparison),
        n_starred=sum(map(_is_starred, comparison.differences)),
        n_tested=comparison.n_comparisons + comparison.n_comparisons_of_parts,
        flips=flips,
        counted=counted(flips, n_flipped),
        n_flipped=n_flipped,
    )
    return page


def _is_starred(row: Difference) -> bool:
    return row.adjusted_p_value is not None and row.adjusted_p_value <= FALSE_STARS


def _forests(comparison: Comparison) -> list[Forest]:
    suite = registry.known(comparison.suite)
    first = suite.headline.metric if suite else None
    forests = []
    for metric in sorted(dict.fromkeys(row.metric for row in comparison.differences), key=lambda name: name != first):
        rows = [row for row in comparison.differences if row.metric == metric]
        rows.sort(key=lambda row: [(n is not None, n or "") for n in (row.axis, row.group, row.reference, row.subset)])
        ends = [abs(end) for row in rows for end in (row.difference, row.lower, row.upper) if end is not None]
        widest = max(ends, default=0.0) or 1.0
        suite_scale = suite.scales.get(metric) if suite else None
        scale = Scale(low=-widest, high=widest, ideal=0.0, reading="")
        lines = [Line(row=row, drawn=_drawn(row), is_starred=_is_starred(row)) for row in rows]
        forests.append(
            Forest(metric=metric, reading=suite_scale.reading if suite_scale else "", scale=scale, lines=lines)
        )
    return forests


def _drawn(row: Difference) -> Estimate:
    return combine(Estimate, row, value=row.difference, n=row.n_clusters)
