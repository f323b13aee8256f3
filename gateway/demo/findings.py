"""The demo's measurements as lines of text, beside the values that were planted in the simulated model."""

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
"""Of each text behind an alarm."""

Planted = Callable[[Estimate], float | None]
"""The value that was planted for a number; None where none is fixed."""


class Finding(NamedTuple):
    """One suite run beside what was planted."""

    result: Result
    headline: Estimate | None
    planted: float | None
    """For the headline."""
    n_inside: int
    n_planted: int
    """Numbers of the run that have an interval and a planted value."""


def planted_of(expected: Expected) -> Planted:
    return lambda one: expected.value(CellKey(one.metric, one.axis, one.group, one.reference, one.subset))


def finding(result: Result, planted: Planted) -> Finding:
    """Counts the planted values inside the intervals of a run, and takes the number that stands for its suite."""
    known = [
        (estimate, value)
        for estimate in result.estimates
        if estimate.lower is not None and (value := planted(estimate)) is not None
    ]
    key = registry.find(result.suite).headline
    named = (pair for pair in known if CellKey(*_key(pair[0])) == key)
    headline, truth = next(named, known[0] if known else (None, None))
    return Finding(result, headline, truth, sum(_is_inside(one, value) for one, value in known), len(known))


def suites_table(findings: Sequence[Finding]) -> str:
    """One line a suite: its headline number, planted and measured, and how many of all its numbers were recovered."""
    head = ["suite", "headline metric", "planted", "measured [95 % interval]", "", "all planted values inside"]
    return aligned([head, *map(_row, findings)])


def live_table(estimates: Iterable[dict[str, Any]], planted: Profile) -> str:
    """All live estimates, beside the known answer where the profile fixes one."""
    ordered = sorted(
        estimates,
        key=lambda estimate: (estimate["auditor"], estimate["metric"], estimate["axis"] or "", estimate["group"] or ""),
    )
    head = ["auditor", "metric", "axis", "group", "planted", "measured [95 % interval]", "", "n", "left out"]
    return aligned([head, *(_live_row(one, planted) for one in ordered)])


def arms_table(effect: dict[str, Any], planted: Profile) -> str:
    """Both arms of a policy and their difference, beside what was planted for the group."""
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
    """What stands beside the bias in both arms; of logarithms the difference is shown as the factor that it is."""
    rows = [["beside it", "treated", "control", "difference [95 % interval]", "n"]]
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
    found = next((score for score in scores if score["id"] == exchange_id), None)
    if found is None:
        return ["the exchange that raised it is not stored any more"]
    if found["no_text_because"] is not None:
        return [f"its text is not shown: {found['no_text_because']}"]
    return [*_text("asked:    ", found["prompt"]), *_text("answered: ", found["reply"])]


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


def _row(one: Finding) -> list[str]:
    recovered = f"{one.n_inside} of {one.n_planted}"
    if one.headline is None:
        return [one.result.suite, "none has an interval and a planted value", "", "", "", recovered]
    digits = places(one.result.suite, one.headline.metric)
    ends = f"[{number(one.headline.lower, digits)}, {number(one.headline.upper, digits)}]"
    return [
        one.result.suite,
        " ".join(part for part in _key(one.headline) if part),
        number(one.planted, digits),
        f"{number(one.headline.value, digits)} {ends}",
        _verdict(one.planted, one.headline.lower, one.headline.upper),
        recovered,
    ]


def _key(one: Estimate) -> tuple[str, str | None, str | None, str | None, str | None]:
    return one.metric, one.axis, one.group, one.reference, one.subset


def _is_inside(one: Estimate, value: float) -> bool:
    return one.lower is not None and one.upper is not None and one.lower <= value <= one.upper


def _verdict(planted: float | None, lower: float | None, upper: float | None) -> str:
    if planted is None or lower is None or upper is None:
        return ""
    return "inside" if lower <= planted <= upper else "outside"


def _live_row(one: dict[str, Any], profile: Profile) -> list[str]:
    planted = _planted_live(one, profile)
    return [
        one["auditor"],
        one["metric"],
        one["axis"] or "",
        one["group"] or "",
        "" if planted is None else number(planted, LIVE_DIGITS),
        _live_value(one),
        _verdict(planted, one["lower"], one["upper"]),
        str(one["n"]),
        str(one["n_excluded"]),
    ]


def _live_value(one: dict[str, Any]) -> str:
    if one["value"] is None:
        return f"undefined: {one['reason']}"
    value = number(one["value"], LIVE_DIGITS)
    if one["lower"] is None:
        return f"{value} (no interval: {(one['reason'] or '').removeprefix('no interval: ')})"
    return f"{value} [{number(one['lower'], LIVE_DIGITS)}, {number(one['upper'], LIVE_DIGITS)}]"


def _planted_live(one: dict[str, Any], profile: Profile) -> float | None:
    """Favouritism without groups of its own has one answer: prompts differ in the group they name first. And shares."""
    if one["metric"] == "selection_share":
        return profile.section(PlantedCoGS).expected_share(one["axis"], one["group"])
    if one["metric"] != "favoritism" or profile.favoritism.groups:
        return None
    return profile.expected_score(one["axis"], one["group"])
