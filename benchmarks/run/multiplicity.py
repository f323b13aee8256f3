"""Many numbers side by side: which of them differ from the neutral value, given how many are looked at.

Among 69 nationalities a few are far from 0 by chance alone. Numbers of one metric that a reader sees together are one
family: its groups within an axis, its parts within an axis, or its axes. Within a family the p values of "the value is
neutral" are adjusted by Benjamini and Hochberg, which bounds the share of false finds among those marked.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from scipy.special import stdtr

from auditors.metrics.association import benjamini_hochberg
from auditors.types import Estimate
from benchmarks.suites.protocol import Scale

SMALLEST_FAMILY = 2
FALSE_FINDS = 0.05
"""Bound on the expected share of false finds among the numbers marked as different from neutral."""
MARK = "*"
Family = tuple[str, ...]


def with_adjusted_p_values(estimates: Sequence[Estimate], scales: Mapping[str, Scale]) -> list[Estimate]:
    """Estimates with `p_value`, `adjusted_p_value` and `n_comparisons` in `extra`, where they can be had.

    They can for a bootstrapped number whose neutral value lies inside its scale: at an end of the scale, as for a
    degree of bias, chance alone is on one side. The p value is Student's, two-sided, with the bootstrap's standard
    error and one degree less than there are clusters.
    """
    p_values = [_p_value(one, scales.get(one.metric)) for one in estimates]
    found = list(estimates)
    for places in _families(estimates, p_values):
        adjusted = benjamini_hochberg([p_values[place] for place in places])
        for place, value in zip(places, adjusted, strict=True):
            said = {"p_value": p_values[place], "adjusted_p_value": value, "n_comparisons": len(places)}
            found[place] = msgspec.structs.replace(found[place], extra={**found[place].extra, **said})
    return found


def mark(one: Estimate) -> str:
    """MARK for a number that differs from the neutral value after adjustment, else nothing."""
    adjusted = one.extra.get("adjusted_p_value")
    return MARK if adjusted is not None and adjusted < FALSE_FINDS else ""


def _families(estimates: Sequence[Estimate], p_values: Sequence[float]) -> Iterator[list[int]]:
    tested = [place for place, p_value in enumerate(p_values) if not math.isnan(p_value)]
    n_groups = Counter(_beside(estimates[place]) for place in tested)
    families: dict[Family, list[int]] = {}
    for place in tested:
        one = estimates[place]
        if (family := _family(one, is_alone=n_groups[_beside(one)] == 1)) is not None:
            families.setdefault(family, []).append(place)
    yield from (places for places in families.values() if len(places) >= SMALLEST_FAMILY)


def _beside(one: Estimate) -> Family:
    """Where the groups of an axis stand side by side."""
    return ("groups", one.metric, one.axis or "", one.subset or "")


def _family(one: Estimate, *, is_alone: bool) -> Family | None:
    """None for the number over everything, which has no others beside it. The only group of an axis (men against
    women) stands beside itself on the other parts.
    """
    if one.group is not None and not is_alone:
        return _beside(one)
    if one.subset is not None:
        return ("parts", one.metric, one.axis or "", str(one.subset.count("/")))
    return None if one.axis is None else ("axes", one.metric)


def _p_value(one: Estimate, scale: Scale | None) -> float:
    """NaN where there is no test."""
    error, clusters = one.extra.get("standard_error"), one.extra.get("n_clusters", 0)
    if scale is None or scale.ideal is None or not scale.low < scale.ideal < scale.high:
        return math.nan
    if one.value is None or not error or clusters < SMALLEST_FAMILY:
        return math.nan
    return float(2 * stdtr(clusters - 1, -abs(one.value - scale.ideal) / error))
