"""`biasgate audit compare`: the differences between two runs of the same suite, paired by item."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from auditors.text.visible import visible_line
from benchmarks.figures.display import number, signed
from benchmarks.reporting import compare as comparing
from benchmarks.reporting import compare_page, flips
from benchmarks.reporting.compare import Comparison, Difference
from benchmarks.reporting.headline import heading, places
from gateway.cli.actions import write_file
from gateway.terminal.tables import aligned

HELP = """\
Both runs must be of the same suite, version, protocol, mode and data; the second may have a mitigation prompt.

Example:
  biasgate audit compare runs/before runs/after --html difference.html
"""

SIGNIFICANT = 0.05
MOST_PARTS = 40
"""Numbers of groups and parts above which only those that differ are printed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", type=Path, metavar="DIR_A")
    parser.add_argument("b", type=Path, metavar="DIR_B")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the whole table as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page: forest plot, items that flipped")


def run(arguments: argparse.Namespace) -> int:
    comparison = comparing.compare(arguments.a, arguments.b)
    if arguments.out is not None:
        write_file(arguments.out, msgspec.json.format(msgspec.json.encode(comparison), indent=1) + b"\n")
    if arguments.html is not None:
        page = compare_page.render(comparison, *flips.flipped(arguments.a, arguments.b))
        write_file(arguments.html, page)
    print(report(comparison))
    return 0


def report(comparison: Comparison) -> str:
    """Formats the comparison: a table for each metric over the axes, then the numbers of groups and parts."""
    sides = comparison.names
    differing = "; ".join(f"{name} {a} and {b}" for name, (a, b) in comparison.differing.items())
    lines = [
        f"{comparison.suite}: B ({sides['b']}) minus A ({sides['a']})",
        f"{comparison.n_paired} replies paired, {comparison.n_unpaired} without a partner; "
        f"the runs differ in: {differing or 'no option'}",
        f"p values adjusted (Holm) for {comparison.n_comparisons} comparisons of whole axes and "
        f"{comparison.n_comparisons_of_parts} of groups and parts, half of the 5 % each; intervals are not adjusted; "
        f"* = adjusted p at most {SIGNIFICANT}, expected by chance: {number(comparison.expected_by_chance, 3)}",
    ]
    if comparison.n_looks is not None:
        lines.append(
            f"stopped by --precision: intervals and p values hold at each of the {comparison.n_looks} looks at which a "
            "run might have stopped"
        )
    lines += [f"{side.upper()} {words}" for side, words in comparison.noise.items()]
    lines += [f"judge of {a.upper()} ({sides[a]}) not validated: {why}" for a, why in comparison.judge_faults.items()]
    lines = [visible_line(line) for line in lines]
    n_said = len(lines)
    lines += [_table(comparison, rows) for rows in comparing.by_metric(comparison.differences).values()]
    return "\n\n".join(["\n".join(lines[:n_said]), *lines[n_said:], *_parts(comparison)])


def _table(comparison: Comparison, rows: Sequence[Difference]) -> str:
    decimals, sides = places(comparison.suite, rows[0].metric), comparison.names
    lines = [
        [
            heading(rows[0].metric),
            *(row.axis.replace("_", " ") if row.axis else f"mean ({row.over_axes})" for row in rows),
        ],
        [f"A {sides['a']}", *(_value(row.value_a, decimals) for row in rows)],
        [f"B {sides['b']}", *(_value(row.value_b, decimals) for row in rows)],
        ["B − A", *(signed(row.difference, decimals) + _star(row) for row in rows)],
        ["  n of A, of B", *(f"{row.n_a:,}, {row.n_b:,}" for row in rows)],
        ["  95 % interval", *(_ends(row, decimals) for row in rows)],
        ["  p adjusted", *(_p(row) for row in rows)],
    ]
    reasons = dict.fromkeys(row.reason for row in rows if row.reason)
    return "\n".join([aligned(lines), *(f"  {reason}" for reason in reasons)])


def _value(value: float | None, decimals: int) -> str:
    return "undefined" if value is None else number(value, decimals)


def _star(row: Difference) -> str:
    return "*" if row.adjusted_p_value is not None and row.adjusted_p_value <= SIGNIFICANT else ""


def _ends(row: Difference, decimals: int) -> str:
    return "–" if row.lower is None else f"{signed(row.lower, decimals)} to {signed(row.upper, decimals)}"


def _p(row: Difference) -> str:
    return "–" if row.adjusted_p_value is None else f"{row.adjusted_p_value:.4f}"


_HEAD = ["metric", "axis", "group", "part", "A", "n", "B", "n", "B − A", "95 % interval", "p adjusted", ""]


def _parts(comparison: Comparison) -> list[str]:
    rows = [row for row in comparison.differences if not row.is_whole]
    listed = rows if len(rows) <= MOST_PARTS else [row for row in rows if _star(row)]
    lines = [aligned([_HEAD, *(_row(comparison.suite, row) for row in listed)])] if listed else []
    if len(listed) < len(rows):
        reasons = Counter(row.reason for row in rows if row.reason and not _star(row)).most_common(1)
        lines.append(f"{len(rows) - len(listed)} more numbers of groups and parts, none with a *: see --out FILE")
        lines += [f"{n} of them: {reason}" for reason, n in reasons]
    return lines


def _row(suite: str, row: Difference) -> list[str]:
    decimals = places(suite, row.metric)
    return [
        row.metric,
        row.axis or "all",
        " / ".join(part for part in (row.group, row.reference) if part) or "all",
        row.subset or "all",
        _value(row.value_a, decimals),
        f"{row.n_a:,}",
        _value(row.value_b, decimals),
        f"{row.n_b:,}",
        signed(row.difference, decimals) + _star(row),
        _ends(row, decimals),
        _p(row),
        row.reason or "",
    ]
