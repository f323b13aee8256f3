"""What a run found, in one to three numbers and plain words: the first thing that a reader of its report sees."""

from typing import Literal

import msgspec

from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.run.estimation import mark
from benchmarks.run.result import Result
from benchmarks.suites import registry
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.protocol import Scale

LEAST_READABLE = 0.1
"""Of all replies. Below it a run is not assessable: what the few readable ones say is about those alone."""

Tone = Literal["unknown", "apart", "neutral", "plain"]
"""unknown: nothing can be said. apart: the interval leaves the neutral value out. neutral: it holds it. plain: the
number has no neutral value, or is no verdict.
"""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One number with what it says."""

    name: str
    shown: str
    ends: str
    """The interval in words; empty where there is none."""
    verdict: str
    tone: Tone


def heading(metric: str) -> str:
    """`unrelated_rate` as words; the papers' short names (lms, ss, icat) in capitals."""
    return metric.upper() if len(metric) <= 4 else metric.replace("_", " ")


def places(suite: str, metric: str) -> int:
    """Decimals to print: one for percentages and the like, three where the whole scale is a few units long."""
    known = registry.known(suite)
    scale = known.scales.get(metric) if known else None
    return 3 if scale is not None and scale.high - scale.low <= 10 else 1


def key_of(one: Estimate) -> CellKey:
    return CellKey(one.metric, one.axis, one.group, one.reference, one.subset)


def part(axis: str | None, group: str | None, reference: str | None, subset: str | None) -> str:
    """What a number is about, in words."""
    groups = f"{group} / {reference}" if group and reference else group
    return ", ".join(one.replace("_", " ") for one in (axis or "all axes", groups, subset) if one)


def cards(result: Result) -> list[Card]:
    """The headline number of the suite, how many numbers differ, and how many replies could be read; what is not known
    of these is left away, but for the first.
    """
    shown = [_headline(result), _stars(result), _readable(result)]
    return [one for one in shown if one is not None]


def not_assessable(result: Result) -> str | None:
    """Why nothing can be said about the model, in capitals and figures; None where something can."""
    if not result.n_replies:
        return "NOT ASSESSABLE: no reply"
    read = result.counts.get("ok", 0)
    if read >= LEAST_READABLE * result.n_replies:
        return None
    most = max((status for status in result.counts if status not in ("items", "ok")), key=result.counts.__getitem__)
    share = 100 * result.counts[most] / result.n_replies
    return f"NOT ASSESSABLE: {number(share, 0 if share == 100 else 1)} % {most.replace('_', ' ')}"


def _headline(result: Result) -> Card | None:
    suite = registry.known(result.suite)
    if suite is None:
        return None
    found = next((estimate for estimate in result.estimates if key_of(estimate) == suite.headline), None)
    scale = suite.scales[suite.headline.metric]
    metric, *about = suite.headline
    verdict, tone = _verdict(result, found, scale)
    decimals = places(result.suite, metric)
    has_interval = found is not None and found.lower is not None
    return Card(
        name=f"{heading(metric)} · {part(*about)}",
        shown="undefined" if found is None or found.value is None else number(found.value, decimals),
        ends=_ends(found, decimals) if found is not None and has_interval else "",
        verdict=f"{verdict}.",
        tone=tone,
    )


def _ends(one: Estimate, decimals: int) -> str:
    level = number(100 * one.confidence_level, 0)
    return f"{level} % interval {number(one.lower, decimals)} to {number(one.upper, decimals)}, n = {one.n:,}"


def _verdict(result: Result, one: Estimate | None, scale: Scale) -> tuple[str, Tone]:
    if gone := not_assessable(result):
        return gone, "unknown"
    if one is None:
        return "This run does not have the suite's headline number", "unknown"
    if one.value is None:
        return f"Undefined: {one.reason or 'no reason is stored'}", "unknown"
    if one.lower is None or one.upper is None:
        return f"No interval: {one.reason or 'no reason is stored'}. How sure the number is, is not known", "unknown"
    decimals = places(result.suite, one.metric)
    if (chance := one.extra.get("by_chance")) is not None:
        floor = number(chance, decimals)
        return f"A model without any preference would show about {floor} with as many replies", "plain"
    if scale.ideal is None:
        return f"This number has no neutral value ({scale.reading})", "plain"
    neutral = number(scale.ideal, 0 if scale.ideal == int(scale.ideal) else decimals)
    if not scale.low < scale.ideal < scale.high:  # every interval lies on one side of it
        control = one.extra.get("nonce")
        beside = "" if control is None else f"; {number(control, decimals)} for invented groups"
        return f"{neutral} would be without fault{beside} ({scale.reading})", "plain"
    if one.lower <= scale.ideal <= one.upper:
        largest = number(max(one.upper - scale.ideal, scale.ideal - one.lower), decimals)
        return f"Not told apart from {neutral}; a distance of up to {largest} is not excluded", "neutral"
    side = "Above" if one.lower > scale.ideal else "Below"
    near, far = sorted(abs(end - scale.ideal) for end in (one.lower, one.upper))
    return f"{side} {neutral} by {number(near, decimals)} to {number(far, decimals)} ({scale.reading})", "apart"


def _stars(result: Result) -> Card | None:
    compared = [estimate for estimate in result.estimates if "p_adjusted" in estimate.extra]
    if not compared:
        return None
    n_marked = sum(bool(mark(one)) for one in compared)
    by_chance = (
        "" if result.expected_by_chance is None else f" By chance alone: {number(result.expected_by_chance, 3)}."
    )
    return Card(
        name="numbers that differ from neutral",
        shown=f"{n_marked:,}",
        ends=f"of {len(compared):,}",
        verdict=f"Adjusted for all that this run shows.{by_chance}",
        tone="apart" if n_marked else "neutral",
    )


def _readable(result: Result) -> Card:
    rest = [(count, status) for status, count in result.counts.items() if status not in ("items", "ok") and count]
    total = max(result.n_replies, 1)
    others = ", ".join(
        f"{status.replace('_', ' ')} {number(100 * count / total)} %" for count, status in sorted(rest)[::-1]
    )
    gone = not_assessable(result)
    return Card(
        name="replies that could be read",
        shown=f"{number(100 * result.counts.get('ok', 0) / total)} %",
        ends=f"of {result.n_replies:,}",
        verdict=f"{gone}." if gone else f"The others: {others}." if others else "All of them.",
        tone="unknown" if gone else "plain",
    )
