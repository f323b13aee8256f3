"""Many numbers side by side: which of them differ from the neutral value, given how many a page shows.

Among 69 nationalities a few are far from 0 by chance alone, and a page shows several metrics by axis, group and part.
All numbers of a result that can be tested are adjusted together, so that a page of chance alone carries a star in at
most 5 % of runs. Numbers of one metric broken down alike (over everything, by axis, by group, by pair of groups, by
part) are a family, and each family has an equal share of the 5 %: a headline does not pay for 300 pairs of groups.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from auditors.metrics.bootstrap import holm
from auditors.metrics.significance import sign_flip_p_value
from auditors.metrics.spread import Spread
from auditors.types import Estimate
from benchmarks.suites.common.estimation import Cell, degrees_of_freedom, drawn
from benchmarks.suites.protocol import Scale

FALSE_STARS = 0.05
"""Bound on the share of pages with a star among those on which no number differs from its neutral value."""
MARK = "*"
_LEAST_DEFINED = 0.5
"""Share of the replies that must lie in clusters with a value of their own; else only Student's test is left."""

Family = tuple[str, bool, bool, bool, int]
"""Metric; whether it has an axis, a group, a reference; how many names its part has ("joy/glad": 2)."""


class _Test(msgspec.Struct, frozen=True):
    """Of one number."""

    p_value: float
    least: float
    """The smallest p value that the number of its clusters allows."""


class Starred(msgspec.Struct, frozen=True):
    """The estimates of a result, and what chance does to their stars."""

    estimates: list[Estimate]
    """The tested ones have `p_value`, `p_adjusted` and `n_comparisons` in `extra`."""
    expected_by_chance: float | None
    """Stars on average where no number differs from its neutral value, at most FALSE_STARS; None: nothing is tested."""


def with_stars(
    cells: Sequence[Cell], estimates: Sequence[Estimate], scales: Mapping[str, Scale], *, level: float = 0.95
) -> Starred:
    """Adjusted p values of "the value is neutral", where they can be had.

    They can for a number with an interval whose neutral value lies inside its scale: at an end of the scale, as for a
    degree of bias, chance alone is on one side. The p value is the larger of two. Student's, two-sided, has the
    bootstrap's standard error and the interval's degrees of freedom (half of them, where each cluster lies on one side
    of a difference). The other flips the signs of
    whole clusters' own distances to the neutral value, weighted by their replies: it needs no standard error, so it
    holds in the tails, where many comparisons look. Adjusted by Holm, with a share for each family.

    Args:
        cells: what the estimates were made of, in their order.
        estimates: of one result.
        scales: by metric.
        level: of the intervals; above 0.95 where one look of several is shown, and then p values grow by as much as
            makes 5 % of what 1 - level was.
    """
    pairs = zip(cells, estimates, strict=True)
    tests = {n: test for n, (cell, one) in enumerate(pairs) if (test := _test(cell, one, scales.get(one.metric)))}
    if not tests:
        return Starred(list(estimates), None)
    families = {place: _family(estimates[place]) for place in tests}
    sizes = Counter(families.values())
    shares = {place: 1 / (len(sizes) * sizes[family]) for place, family in families.items()}
    looks = 0.05 / (1 - level)
    tests = {place: _Test(min(1.0, looks * one.p_value), looks * one.least) for place, one in tests.items()}
    adjusted = holm([test.p_value for test in tests.values()], list(shares.values()))
    found = list(estimates)
    for (place, test), value in zip(tests.items(), adjusted, strict=True):
        said = {"p_value": test.p_value, "p_adjusted": value, "n_comparisons": len(tests)}
        found[place] = msgspec.structs.replace(found[place], extra={**found[place].extra, **said})
    levels = {place: FALSE_STARS * share for place, share in shares.items()}
    return Starred(found, sum(level for place, level in levels.items() if tests[place].least < level))


def mark(one: Estimate) -> str:
    """MARK for a number that differs from the neutral value after adjustment, else nothing."""
    adjusted = one.extra.get("p_adjusted")
    return MARK if adjusted is not None and adjusted < FALSE_STARS else ""


def _family(one: Estimate) -> Family:
    n_names = 0 if one.subset is None else 1 + one.subset.count("/")
    return (one.metric, one.axis is not None, one.group is not None, one.reference is not None, n_names)


def _test(cell: Cell, one: Estimate, scale: Scale | None) -> _Test | None:
    if scale is None or scale.ideal is None or not scale.low < scale.ideal < scale.high:
        return None
    if one.value is None or one.lower is None or isinstance(cell.statistic, Spread):
        return None
    error, own = one.extra.get("standard_error"), _own_distances(cell, scale.ideal)
    if own is None and not error:
        return None
    degrees = degrees_of_freedom(cell) if own is not None else len(cell.clusters) / 2 - 1
    student = 2 * float(stdtr(max(1.0, min(degrees, 1e9)), -abs(one.value - scale.ideal) / error)) if error else 0.0
    if own is None:
        return _Test(student, 0.0)
    return _Test(max(student, sign_flip_p_value(own)), math.ldexp(1.0, 1 - max(1, int(np.count_nonzero(own)))))


def _own_distances(cell: Cell, ideal: float) -> NDArray[np.float64] | None:
    """(n_clusters,) distance to the neutral value of each cluster by itself, weighted by its sums; 0 where undefined.

    None where too many are: the men and women of a difference are different clusters, and neither has one.
    """
    sums = drawn(cell)
    weights = np.abs(sums).sum(axis=1)
    values = np.asarray(cell.statistic(sums), dtype=np.float64)
    is_defined = ~np.isnan(values)
    if weights[is_defined].sum() < _LEAST_DEFINED * weights.sum():
        return None
    return np.where(is_defined, weights * (np.where(is_defined, values, ideal) - ideal), 0.0)
