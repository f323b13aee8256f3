"""Formats a run for the command line: its summary, its estimates, and tables of text in aligned columns."""

import io
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from auditors.text.visible import visible_line
from auditors.types import Estimate
from benchmarks.figures.display import between, group_words, number
from benchmarks.reporting.headline import Card, cards, chance_words, places
from benchmarks.run.estimation import MARK, mark
from benchmarks.run.result import Result
from benchmarks.suites.common.estimation import NOT_ASSESSABLE

UNLIMITED = 100_000
"""Characters of a line in a file."""
MAX_PAIRS = 24
"""Pairs of groups shown for one metric; more are in result.json and the report only."""


def summary(result: Result) -> str:
    """Formats the results of a run, a line for each of its one to three numbers."""
    return "\n".join(visible_line(f"{card.name}: {_within(card)}. {card.verdict}") for card in cards(result))


def _within(card: Card) -> str:
    return f"{card.shown} ({card.ends})" if card.ends else card.shown


def estimates_table(result: Result, planted: Callable[[Estimate], float | None] | None = None) -> str:
    """One line per estimate over all or the coarsest data, reasons as footnotes. `planted` adds a column."""
    planted_head = ["planted"] if planted is not None else []
    rows = [["metric", "axis", "value", "95 % interval", *planted_head, "n", "left out", ""]]
    whole = _coarsest(result.estimates)
    pairs = Counter(estimate.metric for estimate in whole if estimate.reference is not None)
    folded = {metric: count for metric, count in pairs.items() if count > MAX_PAIRS}
    listed = [estimate for estimate in whole if estimate.reference is None or estimate.metric not in folded]
    reasons = {
        reason: f"[{n}]"
        for n, reason in enumerate(dict.fromkeys(reason for estimate in listed for reason in _reasons(estimate)), 1)
    }
    rows += [_row(estimate, places(result.suite, estimate.metric), planted, reasons) for estimate in listed]
    notes = [f"{footnote} {reason}" for reason, footnote in reasons.items()]
    notes += [
        f"{metric}: {count} pairs of groups are in result.json and the report" for metric, count in folded.items()
    ]
    if result.expected_by_chance is not None:
        notes.append(_stars(result))
    return "\n".join([aligned(rows), *map(visible_line, notes)])


def _stars(result: Result) -> str:
    n_compared = sum("p_adjusted" in estimate.extra for estimate in result.estimates)
    n_marked = sum(bool(mark(estimate)) for estimate in result.estimates)
    return (
        f"{MARK} differs from the neutral value, adjusted for all numbers compared ({n_compared}): {n_marked} in all, "
        f"{number(result.expected_by_chance, 3)} expected by chance"
    )


def _coarsest(estimates: Sequence[Estimate]) -> list[Estimate]:
    depth: dict[str, int] = {}
    for estimate in estimates:
        depth[estimate.metric] = min(_depth(estimate), depth.get(estimate.metric, _depth(estimate)))
    return [estimate for estimate in estimates if _depth(estimate) == depth[estimate.metric]]


def _depth(estimate: Estimate) -> int:
    return 0 if estimate.subset is None else 1 + estimate.subset.count("/")


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest entry, heads first; wrapped to a terminal's width, uncut in a file or pipe."""
    from rich.console import Console  # here, so that commands that print no table do not wait for it
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    table = Table(box=None, show_header=is_terminal, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    head, *body = rows
    for name in head:
        table.add_column(
            Text(visible_line(name)), no_wrap=not is_terminal, overflow="fold" if is_terminal else "ignore"
        )
    for row in body if is_terminal else rows:
        table.add_row(*(Text(visible_line(cell)) for cell in row))
    console = Console(
        file=io.StringIO(),
        width=shutil.get_terminal_size().columns if is_terminal else UNLIMITED,
        height=1,  # without it a "dumb" terminal would get 80 columns whatever the width
        force_terminal=is_terminal or None,
        highlight=False,
    )
    with console.capture() as drawn:
        console.print(table)
    return "\n".join(line.rstrip() for line in drawn.get().splitlines())


def _row(
    estimate: Estimate, decimals: int, planted: Callable[[Estimate], float | None] | None, reasons: Mapping[str, str]
) -> list[str]:
    keys = [estimate.axis or "all", estimate.group or "", estimate.reference or "", estimate.subset or ""]
    axis = " / ".join(key for key in keys if key)
    return [
        estimate.metric,
        axis,
        "undefined" if estimate.value is None else number(estimate.value, decimals) + mark(estimate),
        between(estimate.lower, estimate.upper, decimals),
        *([] if planted is None else [_format_planted(planted(estimate), decimals)]),
        str(estimate.n),
        str(estimate.n_excluded),
        " ".join(filter(None, [_said(estimate), *(reasons[reason] for reason in _reasons(estimate))])),
    ]


def _said(estimate: Estimate) -> str:
    by_groups = [] if estimate.value is None else group_words(estimate.extra)
    return "; ".join(filter(None, [chance_words(estimate), *by_groups]))


def _reasons(estimate: Estimate) -> list[str]:
    fault = estimate.extra.get(NOT_ASSESSABLE)
    return [reason for reason in (fault and f"not assessable: {fault}", estimate.reason) if reason]


def _format_planted(value: float | None, decimals: int) -> str:
    return "" if value is None else number(value, decimals)
