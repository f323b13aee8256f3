"""Plain-text tables of results."""

from collections import Counter
from collections.abc import Sequence

from auditors.types import Estimate
from benchmarks.multiplicity import MARK, mark
from benchmarks.report import number, places
from benchmarks.result import Result

MAX_PAIRS = 24
"""Pairs of groups shown for one metric; more are in result.json and the report only."""


def estimates_table(result: Result) -> str:
    """One line per estimate over all parts of the data; of metrics that are never formed over all, the coarsest parts.
    The finer ones are in result.json.
    """
    rows = [["metric", "axis", "value", "95 % interval", "n", "left out", ""]]
    whole = _coarsest(result.estimates)
    pairs = Counter(estimate.metric for estimate in whole if estimate.reference is not None)
    folded = {metric: count for metric, count in pairs.items() if count > MAX_PAIRS}
    rows += [
        _row(estimate, places(result.suite, estimate.metric))
        for estimate in whole
        if estimate.reference is None or estimate.metric not in folded
    ]
    notes = [f"{metric}: {count} pairs of groups are in result.json and the report" for metric, count in folded.items()]
    if any(map(mark, whole)):
        notes.append(f"{MARK} differs from the neutral value, adjusted for how many of its kind are compared")
    return "\n".join([aligned(rows), *notes])


def _coarsest(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Of every metric the numbers over all of the data, or over its coarsest parts ("joy" rather than "joy/glad")."""
    depth: dict[str, int] = {}
    for one in estimates:
        depth[one.metric] = min(_depth(one), depth.get(one.metric, _depth(one)))
    return [one for one in estimates if _depth(one) == depth[one.metric]]


def _depth(one: Estimate) -> int:
    return 0 if one.subset is None else 1 + one.subset.count("/")


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest entry, two spaces apart."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(estimate: Estimate, decimals: int) -> list[str]:
    keys = [estimate.axis or "all", estimate.group or "", estimate.reference or "", estimate.subset or ""]
    ends = "" if estimate.lower is None else f"{number(estimate.lower, decimals)} to {number(estimate.upper, decimals)}"
    axis = " / ".join(key for key in keys if key)
    return [
        estimate.metric,
        axis,
        "undefined" if estimate.value is None else number(estimate.value, decimals) + mark(estimate),
        ends,
        str(estimate.n),
        str(estimate.n_excluded),
        estimate.reason or "",
    ]
