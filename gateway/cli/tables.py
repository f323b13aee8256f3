"""The tables that the command line prints: rows of text in aligned columns, and the estimates of a run."""

import io
import sys
from collections import Counter
from collections.abc import Callable, Sequence

from auditors.types import Estimate
from benchmarks.reporting.report import number, places
from benchmarks.run.multiplicity import MARK, mark
from benchmarks.run.result import Result

UNLIMITED = 100_000
"""Cells of a line: tables are laid out as if the terminal were wide enough, so no number is cut or wrapped."""
MAX_PAIRS = 24
"""Pairs of groups shown for one metric; more are in result.json and the report only."""


def estimates_table(result: Result, planted: Callable[[Estimate], float | None] | None = None) -> str:
    """One line per estimate over all parts of the data; of metrics that are never formed over all, the coarsest parts.
    The finer ones are in result.json. `planted` adds a column with the true value where the model's biases are known.
    """
    known = ["planted"] if planted is not None else []
    rows = [["metric", "axis", "value", "95 % interval", *known, "n", "left out", ""]]
    whole = _coarsest(result.estimates)
    pairs = Counter(estimate.metric for estimate in whole if estimate.reference is not None)
    folded = {metric: count for metric, count in pairs.items() if count > MAX_PAIRS}
    rows += [
        _row(estimate, places(result.suite, estimate.metric), planted)
        for estimate in whole
        if estimate.reference is None or estimate.metric not in folded
    ]
    notes = [f"{metric}: {count} pairs of groups are in result.json and the report" for metric, count in folded.items()]
    if result.expected_by_chance is not None:
        notes.append(_stars(result))
    return "\n".join([aligned(rows), *notes])


def _stars(result: Result) -> str:
    n_compared = sum("p_adjusted" in one.extra for one in result.estimates)
    n_marked = sum(bool(mark(one)) for one in result.estimates)
    return (
        f"{MARK} differs from the neutral value, adjusted for all numbers compared ({n_compared}): {n_marked} in all, "
        f"{number(result.expected_by_chance, 3)} expected by chance"
    )


def _coarsest(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Of every metric the numbers over all of the data, or over its coarsest parts ("joy" rather than "joy/glad")."""
    depth: dict[str, int] = {}
    for one in estimates:
        depth[one.metric] = min(_depth(one), depth.get(one.metric, _depth(one)))
    return [one for one in estimates if _depth(one) == depth[one.metric]]


def _depth(one: Estimate) -> int:
    return 0 if one.subset is None else 1 + one.subset.count("/")


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest entry, two spaces apart; the first row holds their heads.

    Plain text that is never wrapped or cut, however narrow the terminal; on a terminal the heads are bold.
    """
    from rich.console import Console  # here, so that commands that print no table do not wait for it
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for _ in rows[0]:
        table.add_column(no_wrap=True, overflow="ignore")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(
        file=io.StringIO(),
        width=UNLIMITED,
        height=1,  # without it a "dumb" terminal would get 80 columns whatever the width
        force_terminal=sys.stdout.isatty() or None,
        highlight=False,
    )
    with console.capture() as drawn:
        console.print(table)
    head, *body = (line.rstrip() for line in drawn.get().splitlines())
    with console.capture() as heads:
        console.print(Text(head, "bold"), end="", soft_wrap=True)
    return "\n".join([heads.get(), *body])


def _row(estimate: Estimate, decimals: int, planted: Callable[[Estimate], float | None] | None) -> list[str]:
    keys = [estimate.axis or "all", estimate.group or "", estimate.reference or "", estimate.subset or ""]
    ends = "" if estimate.lower is None else f"{number(estimate.lower, decimals)} to {number(estimate.upper, decimals)}"
    axis = " / ".join(key for key in keys if key)
    return [
        estimate.metric,
        axis,
        "undefined" if estimate.value is None else number(estimate.value, decimals) + mark(estimate),
        ends,
        *([] if planted is None else [_known(planted(estimate), decimals)]),
        str(estimate.n),
        str(estimate.n_excluded),
        estimate.reason or "",
    ]


def _known(value: float | None, decimals: int) -> str:
    return "" if value is None else number(value, decimals)
