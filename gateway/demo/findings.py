"""Formats the demo's measurements as lines of text, with the values that were planted in the simulated model."""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.reporting.headline import places
from benchmarks.run.result import Result
from benchmarks.simulator.planted.cogs import PlantedCoGS
from benchmarks.simulator.planted.table import Expected
from benchmarks.simulator.profile import Profile
from benchmarks.suites import registry
from benchmarks.suites.common.estimation import CellKey
from gateway.terminal.tables import aligned

LIVE_DIGITS = 3
WIDTH = 100
"""Cells of a line of served text."""
TEXT_LINES = 3
"""Lines of each text behind an alarm."""

Planted = Callable[[Estimate], float | None]
"""The value that was planted for a number; None where none is fixed."""


class Finding(NamedTuple):
    """A suite run, with the values that were planted."""

    result: Result
    headline: Estimate | None
    planted: float | None
    """Planted value of the headline; None without a headline."""
    n_inside: int
    n_planted: int
    """Numbers of the run that have an interval and a planted value."""


def planted_of(expected: Expected) -> Planted:
    return lambda estimate: expected.value(
        CellKey(estimate.metric, estimate.axis, estimate.group, estimate.reference, estimate.subset)
    )


def finding(result: Result, planted: Planted) -> Finding:
    """Counts the planted values inside the intervals of a run, and takes the number that stands for its suite."""
    pairs = [
        (estimate, value)
        for estimate in result.estimates
        if estimate.lower is not None and (value := planted(estimate)) is not None
    ]
    key = registry.find(result.suite).headline
    named = (pair for pair in pairs if CellKey(*_key(pair[0])) == key)
    headline, truth = next(named, pairs[0] if pairs else (None, None))
    n_inside = sum(_verdict(value, estimate.lower, estimate.upper) == "inside" for estimate, value in pairs)
    return Finding(result, headline, truth, n_inside, len(pairs))


def suites_table(findings: Sequence[Finding]) -> str:
    """One line a suite: its headline number, planted and measured, and how many of all its numbers were recovered."""
    head = ["suite", "headline metric", "planted", "measured [95 % interval]", "", "all planted values inside"]
    return aligned([head, *map(_row, findings)])


def live_table(estimates: Iterable[dict[str, Any]], planted: Profile | None) -> str:
    """Formats all live estimates, with the known answer where a profile fixes it."""
    ordered = sorted(
        estimates,
        key=lambda estimate: (estimate["auditor"], estimate["metric"], estimate["axis"] or "", estimate["group"] or ""),
    )
    head = ["auditor", "metric", "axis", "group", "planted", "measured [95 % interval]", "", "n", "left out"]
    rows = [head, *(_live_row(estimate, planted) for estimate in ordered)]
    return aligned(rows if planted is not None else [[*row[:4], row[5], *row[7:]] for row in rows])


def arms_table(effect: dict[str, Any], planted: Profile) -> str:
    """Formats both arms of a policy and their difference, with the values that were planted for the group."""
    place = effect["axis"], effect["group"]
    levels = [planted.expected_score(*place, is_instructed=is_treated) for is_treated in (True, False)]
    rows = [["arm", "planted", "measured [95 % interval]", "", "n"]]
    for name, level in zip(("treated", "control"), levels, strict=True):
        arm = effect[name]
        rows.append([name, number(level, LIVE_DIGITS), number(arm["mean"], LIVE_DIGITS), "", str(arm["n"])])
    change = levels[0] - levels[1]
    ends = f"[{number(effect['lower'], LIVE_DIGITS)}, {number(effect['upper'], LIVE_DIGITS)}]"
    verdict = _verdict(change, effect["lower"], effect["upper"])
    rows.append(
        ["difference", number(change, LIVE_DIGITS), f"{number(effect['difference'], LIVE_DIGITS)} {ends}", verdict, ""]
    )
    return aligned(rows)


def quality_table(effects: Iterable[dict[str, Any]]) -> str:
    """Formats the quality measures of both arms; a difference of logarithms is shown as a factor."""
    rows = [["quality", "treated", "control", "difference [95 % interval]", "n"]]
    for effect in effects:
        is_log = effect["unit"] is not None
        change, lower, upper = (_change(effect[name], is_log=is_log) for name in ("difference", "lower", "upper"))
        rows.append(
            [
                effect["metric"].removeprefix("answer_") + (f", {effect['unit']}" if is_log else ""),
                *(number(effect[arm]["mean"], LIVE_DIGITS) for arm in ("treated", "control")),
                f"{change} [{lower}, {upper}]",
                str(effect["treated"]["n"] + effect["control"]["n"]),
            ]
        )
    return aligned(rows)


def _change(value: float | None, *, is_log: bool) -> str:
    return f"x{2.0**value:.2f}" if is_log and value is not None else number(value, LIVE_DIGITS)


def exchange_lines(scores: Sequence[dict[str, Any]], exchange_id: str) -> list[str]:
    """The exchange that raised an alarm, as `GET /live/exchanges` shows it; its texts cut to TEXT_LINES lines."""
    exchange = next((score for score in scores if score["id"] == exchange_id), None)
    if exchange is None:
        return ["the exchange that raised it is not stored any more"]
    if exchange["no_text_because"] is not None:
        return [f"its text is not shown: {exchange['no_text_because']}"]
    return [*_text("asked:    ", exchange["prompt"]), *_text("answered: ", exchange["reply"])]


def _text(label: str, text: str | None) -> list[str]:
    lines = textwrap.wrap(
        " ".join((text or "").split()),
        WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        max_lines=TEXT_LINES,
        placeholder=" ...",
    )
    return lines or [label]


def _row(finding: Finding) -> list[str]:
    recovered = f"{finding.n_inside} of {finding.n_planted}"
    if finding.headline is None:
        return [finding.result.suite, "none has an interval and a planted value", "", "", "", recovered]
    digits = places(finding.result.suite, finding.headline.metric)
    ends = f"[{number(finding.headline.lower, digits)}, {number(finding.headline.upper, digits)}]"
    return [
        finding.result.suite,
        " ".join(part for part in _key(finding.headline) if part),
        number(finding.planted, digits),
        f"{number(finding.headline.value, digits)} {ends}",
        _verdict(finding.planted, finding.headline.lower, finding.headline.upper),
        recovered,
    ]


def _key(estimate: Estimate) -> tuple[str, str | None, str | None, str | None, str | None]:
    return estimate.metric, estimate.axis, estimate.group, estimate.reference, estimate.subset


def _verdict(planted: float | None, lower: float | None, upper: float | None) -> str:
    if planted is None or lower is None or upper is None:
        return ""
    return "inside" if lower <= planted <= upper else "outside"


def _live_row(estimate: dict[str, Any], profile: Profile | None) -> list[str]:
    planted = None if profile is None else _planted_live(estimate, profile)
    return [
        estimate["auditor"],
        estimate["metric"],
        estimate["axis"] or "",
        estimate["group"] or "",
        "" if planted is None else number(planted, LIVE_DIGITS),
        _live_value(estimate),
        _verdict(planted, estimate["lower"], estimate["upper"]),
        str(estimate["n"]),
        str(estimate["n_excluded"]),
    ]


def _live_value(estimate: dict[str, Any]) -> str:
    if estimate["value"] is None:
        return f"undefined: {estimate['reason']}"
    value = number(estimate["value"], LIVE_DIGITS)
    reason = "the mean moved" if estimate["is_widened"] else (estimate["reason"] or "").removeprefix("no interval: ")
    if estimate["lower"] is None or estimate["is_widened"]:
        return f"{value} (no interval: {reason})"
    return f"{value} [{number(estimate['lower'], LIVE_DIGITS)}, {number(estimate['upper'], LIVE_DIGITS)}]"


def _planted_live(estimate: dict[str, Any], profile: Profile) -> float | None:
    """Favouritism without groups of its own has one answer: prompts differ in the group they name first. And shares."""
    if estimate["metric"] == "selection_share":
        return profile.section(PlantedCoGS).expected_share(estimate["axis"], estimate["group"])
    if estimate["metric"] != "favoritism" or profile.favoritism.groups:
        return None
    return profile.expected_score(estimate["axis"], estimate["group"])
