"""What the demo prints: plain tables whose every value has its interval, its n, and what was left out."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from benchmarks.estimation import CellKey
from benchmarks.registry import SUITES
from benchmarks.simulator.planted.table import Expected
from benchmarks.simulator.profile import Profile

ROWS = 14
"""Of a suite's table; the report has them all."""
FEW_UNITS = 4
"""Widest scale whose values are shown with two digits: favouritism has three units, a percentage a hundred."""


def live_table(estimates: Iterable[dict[str, Any]], planted: Profile | None) -> str:
    """Live estimates; `planted` adds the known answer where the profile fixes one."""
    rows = [
        [
            one["auditor"],
            one["metric"],
            one["axis"] or "",
            one["group"] or "",
            _value(one, 3),
            _planted_live(one, planted),
            str(one["n"]),
            str(one["n_excluded"]),
        ]
        for one in sorted(estimates, key=lambda one: (one["auditor"], one["metric"], one["axis"], one["group"] or ""))
    ]
    return _table(["auditor", "metric", "axis", "group", "value [95% interval]", "planted", "n", "excluded"], rows)


def suite_table(result: dict[str, Any], planted: Expected) -> str:
    """Estimates of one suite run beside what was planted: those with an interval, at most ROWS, over all axes first.

    A metric that has a number over all subsets is shown by that one, and none twice before the others once.
    """
    whole = {one["metric"] for one in result["estimates"] if one["subset"] is None}
    shown = [one for one in result["estimates"] if one["subset"] is None or one["metric"] not in whole]
    chosen = _headlines(one for one in shown if one["lower"] is not None and "/" not in (one["subset"] or ""))
    rows = [
        [
            one["metric"],
            one["axis"] or "all",
            _group(one),
            one["subset"] or "",
            _value(one, _digits(result["suite"], one)),
            _planted_suite(result["suite"], one, planted),
            str(one["n"]),
            str(one["n_excluded"]),
        ]
        for one in chosen
    ]
    table = _table(["metric", "axis", "group", "subset", "value [95% interval]", "planted", "n", "excluded"], rows)
    n_more = len(result["estimates"]) - len(rows)
    return f"{result['suite']}\n{table}" + (f"\n... and {n_more} more in the report" if n_more else "")


def _headlines(estimates: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most ROWS in their own order, but those over all axes first; metrics take turns."""
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for one in sorted(estimates, key=lambda one: one["axis"] is not None):
        by_metric.setdefault(one["metric"], []).append(one)
    in_turn = [one for turn in zip_longest(*by_metric.values()) for one in turn if one is not None]
    kept = {id(one) for one in in_turn[:ROWS]}
    ordered = [one for part in by_metric.values() for one in part]
    return [one for one in ordered if id(one) in kept]


def _value(one: dict[str, Any], digits: int) -> str:
    if one["value"] is None:
        return f"undefined: {one['reason']}"
    if one["lower"] is None:
        return f"{one['value']:.{digits}f} (no interval: {(one['reason'] or '').removeprefix('no interval: ')})"
    return f"{one['value']:.{digits}f} [{one['lower']:.{digits}f}, {one['upper']:.{digits}f}]"


def _planted_live(one: dict[str, Any], planted: Profile | None) -> str:
    """Favouritism without groups of its own has one answer: prompts differ in the group they name first. And shares."""
    if planted is None:
        return ""
    if one["metric"] == "selection_share":
        return f"{planted.cogs.expected_share(one['axis'], one['group']):.3f}"
    if one["metric"] != "favoritism" or planted.favoritism.groups:
        return ""
    return f"{planted.expected_score(one['axis'], one['group']):.3f}"


def _planted_suite(suite: str, one: dict[str, Any], planted: Expected) -> str:
    value = planted.value(CellKey(one["metric"], one["axis"], one["group"], one["reference"], one["subset"]))
    return "" if value is None else f"{value:.{_digits(suite, one)}f}"


def _group(one: dict[str, Any]) -> str:
    return f"{one['group']} - {one['reference']}" if one["reference"] else one["group"] or ""


def _digits(suite: str, one: dict[str, Any]) -> int:
    """Scores of a few units need more than percentages do."""
    scale = SUITES[suite].scales[one["metric"]]
    return 1 if scale.high is None or scale.high - (scale.low or 0) > FEW_UNITS else 2


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    title = "  ".join(cell.ljust(width) for cell, width in zip(head, widths, strict=True)).rstrip()
    return "\n".join([title, "-" * len(title), *lines])
