"""Sums up a run in one to three numbers and plain words: the first thing that a reader of its report sees."""

from typing import Literal

import msgspec

from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.run.estimation import mark
from benchmarks.run.result import Result
from benchmarks.suites import registry
from benchmarks.suites.common.assessable import LEAST_REPLIES, LEAST_SHARE
from benchmarks.suites.common.estimation import CHANCE, CellKey
from benchmarks.suites.protocol import Scale, Suite

MOST_NAMED = 3
"""Numbers that differ, in a card."""
_COARSEST_FIRST = (("group", "reference", "subset"), ("group", "reference"), ("reference",), ())


def totals(result: Result) -> list[Estimate]:
    """Return each metric's coarsest estimates, in the result's order; undefined where not assessable."""
    by_metric: dict[str, list[Estimate]] = {}
    for estimate in result.estimates:
        by_metric.setdefault(estimate.metric, []).append(estimate)
    chosen = {id(estimate) for estimates in by_metric.values() for estimate in _coarsest(estimates)}
    return [stated(result, estimate) for estimate in result.estimates if id(estimate) in chosen]


def stated(result: Result, estimate: Estimate) -> Estimate:
    """Return an estimate of the result as others may state it: undefined, with the reason, if it is not assessable."""
    if (fault := result.fault_of(estimate)) is None:
        return estimate
    undefined = {"value": None, "lower": None, "upper": None, "method": None}
    return msgspec.structs.replace(estimate, **undefined, reason=f"not assessable: {fault}")


def _coarsest(estimates: list[Estimate]) -> list[Estimate]:
    levels = ([e for e in estimates if all(getattr(e, key) is None for key in keys)] for keys in _COARSEST_FIRST)
    return next(level for level in levels if level)


Tone = Literal["unknown", "apart", "neutral", "plain"]
"""unknown: nothing can be said. apart: the interval leaves neutral out. neutral: it holds it. plain: there is none."""


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
    registered = registry.known(suite)
    scale = registered.scales.get(metric) if registered else None
    return 3 if scale is not None and scale.high - scale.low <= 10 else 1


def key_of(estimate: Estimate) -> CellKey:
    return CellKey(estimate.metric, estimate.axis, estimate.group, estimate.reference, estimate.subset)


def part(axis: str | None, group: str | None, reference: str | None, subset: str | None) -> str:
    groups = f"{group} / {reference}" if group and reference else group
    return ", ".join(label.replace("_", " ") for label in (axis or "all axes", groups, subset) if label)


def cards(result: Result) -> list[Card]:
    """The headline numbers of the suite, how many numbers differ, and how many replies could be read."""
    suite = registry.known(result.suite)
    headlines = [] if suite is None else [_headline(result, suite, suite.headline)]
    second = None if suite is None else suite.second_headline
    if suite is not None and second is not None and any(key_of(estimate) == second for estimate in result.estimates):
        headlines.append(_headline(result, suite, second))
    candidates = [*headlines, _stars(result), _readable(result)]
    return [card for card in candidates if card is not None]


def not_assessable(result: Result, estimate: Estimate | None = None) -> str | None:
    """Why nothing can be said about the model, or by this number of it; None where something can."""
    fault = result.fault or (None if estimate is None else result.fault_of(estimate))
    return None if fault is None else f"NOT ASSESSABLE: {fault}"


def _headline(result: Result, suite: Suite, key: CellKey) -> Card:
    headline = next((estimate for estimate in result.estimates if key_of(estimate) == key), None)
    scale = suite.scales[key.metric]
    metric, *about = key
    verdict, tone = _verdict(result, headline, scale)
    decimals = places(result.suite, metric)
    has_interval = headline is not None and headline.lower is not None
    return Card(
        name=f"{heading(metric)} · {part(*about)}{_neutral(scale, decimals)}",
        shown="undefined" if headline is None or headline.value is None else number(headline.value, decimals),
        ends=_ends(headline, decimals) if headline is not None and has_interval else "",
        verdict=f"{verdict}.",
        tone=tone,
    )


def chance_words(estimate: Estimate) -> str:
    """Return the chance level of a share, and how its interval lies to that level; empty for other numbers."""
    chance: float | None = estimate.extra.get(CHANCE)
    if chance is None:
        return ""
    is_below = estimate.upper is not None and estimate.upper < chance
    is_above = estimate.lower is None or estimate.lower > chance
    return f"chance {number(chance)}{': below chance' if is_below else '' if is_above else ': not above chance'}"


def _ends(e: Estimate, decimals: int) -> str:
    level = number(100 * e.confidence_level, 0)
    return f"{level} % interval {number(e.lower, decimals)} to {number(e.upper, decimals)}, n = {e.n:,}"


def _neutral(scale: Scale, decimals: int) -> str:
    if scale.ideal is None or not scale.low < scale.ideal < scale.high:
        return ""
    return f" (neutral {number(scale.ideal, 0 if scale.ideal == int(scale.ideal) else decimals)})"


def _verdict(result: Result, estimate: Estimate | None, scale: Scale) -> tuple[str, Tone]:
    if gone := not_assessable(result, estimate):
        return gone, "unknown"
    if estimate is None:
        return "This run does not have the suite's headline number", "unknown"
    if estimate.value is None:
        return f"Undefined: {estimate.reason or 'no reason is stored'}", "unknown"
    if estimate.lower is None or estimate.upper is None:
        return (
            f"No interval: {(estimate.reason or 'no reason is stored').removeprefix('no interval: ')}. How sure the "
            "number is, is not known",
            "unknown",
        )
    decimals = places(result.suite, estimate.metric)
    if (chance := estimate.extra.get("by_chance")) is not None:
        floor = number(chance, decimals)
        return f"A model without any preference would show about {floor} with as many replies", "plain"
    if scale.ideal is None:
        return f"This number has no neutral value ({scale.reading})", "plain"
    neutral = number(scale.ideal, 0 if scale.ideal == int(scale.ideal) else decimals)
    if not scale.low < scale.ideal < scale.high:  # every interval lies on one side of it
        control = estimate.extra.get("nonce")
        beside = "" if control is None else f"; {number(control, decimals)} for invented groups"
        return f"{neutral} would be without fault{beside} ({scale.reading})", "plain"
    if estimate.lower <= scale.ideal <= estimate.upper:
        largest = number(max(estimate.upper - scale.ideal, scale.ideal - estimate.lower), decimals)
        return f"Not told apart from {neutral}; a distance of up to {largest} is not excluded", "neutral"
    side = "Above" if estimate.lower > scale.ideal else "Below"
    near, far = sorted(abs(end - scale.ideal) for end in (estimate.lower, estimate.upper))
    return f"{side} {neutral} by {number(near, decimals)} to {number(far, decimals)} ({scale.reading})", "apart"


def _stars(result: Result) -> Card | None:
    compared = [estimate for estimate in result.estimates if "p_adjusted" in estimate.extra]
    if not compared:
        return None
    coarse_first = sorted(compared, key=lambda each: sum(label is not None for label in key_of(each)))
    marked = [f"{heading(each.metric)} {part(*key_of(each)[1:])}" for each in coarse_first if mark(each)]
    more = f" and {len(marked) - MOST_NAMED:,} more" if len(marked) > MOST_NAMED else ""
    named = f"{'; '.join(marked[:MOST_NAMED])}{more}. " if marked else ""
    expected = result.expected_by_chance
    by_chance = "" if expected is None else f" By chance alone, {number(expected, 3)} would differ."
    return Card(
        name="numbers that differ from neutral",
        shown=f"{len(marked):,}",
        ends=f"of {len(compared):,}",
        verdict=f"{named}Adjusted for all that this run shows.{by_chance}",
        tone="apart" if marked else "plain",
    )


def _readable(result: Result) -> Card:
    total = max(result.n_replies, 1)
    share = result.share_that_names_an_option
    named = result.counts.get("ok", 0) / total if share is None else share
    rest = [(count, status) for status, count in result.counts.items() if status not in ("items", "ok") and count]
    others = [f"{status.replace('_', ' ')} {number(100 * count / total)} %" for count, status in sorted(rest)[::-1]]
    if result.mode == "exact":
        others = [f"of no option or unresolved {number(100 * (1 - named))} %", *others]
    gone = not_assessable(result)
    return Card(
        name="answers that name an option",
        shown=f"{number(100 * named)} %",
        ends=f"of {'the probability of ' * (result.mode == 'exact')}{result.n_replies:,} replies; at least "
        f"{number(100 * LEAST_SHARE, 0)} % and {LEAST_REPLIES} replies are needed",
        verdict=f"{gone}." if gone else f"The others: {', '.join(others)}." if others else "All of them.",
        tone="unknown" if gone else "plain",
    )
