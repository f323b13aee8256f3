"""The uncertainty of a run's numbers: early stopping, resamples of ranks, many numbers side by side. Stopping
(`--precision`): items are asked in the order of `--limit`. At looks fixed beforehand, each GROWTH times the items of
the last, the run stops if the headline number's interval is narrow enough. Every number has the interval of that look,
at a level so much higher that those of all looks hold at once (`auditors.metrics.significance`). Sets, not whole
clusters, are added: they tell more, and common parts of clusters make the level err on the wide side
(tests/benchmarks/run/test_precision.py). Ranks: a cluster's weight in a resample depends on its name, not on the model,
so what is hard about a question cancels between models that were asked the same. Multiplicity: all testable numbers are
adjusted together: a page of chance alone has a star in at most 5 % of runs. Numbers of a metric broken down the same
way (all, axis, group, pair, part) are a family, and each family has an equal share of the 5 %.
"""

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from auditors.metrics.bootstrap import holm
from auditors.metrics.significance import repeated_level, sign_flip_p_value
from auditors.metrics.spread import Spread
from auditors.types import Estimate
from benchmarks.run.plan import Plan, beginnings
from benchmarks.suites.common.estimation import Cell, CellKey, degrees_of_freedom, drawn, point
from benchmarks.suites.common.rank_statistics import RankRule
from benchmarks.suites.protocol import UNRELATED, Scale

# Stopping early.


GROWTH = 1.5
"""Growth of the number of items from look to look: closer looks stop sooner and need wider intervals."""
FEWEST = 60
"""Items before the first look."""


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    """The precision that the headline number of a run was to have, and the look at which the run stopped."""

    demanded: float
    """Half the width of its interval at most, as a share of the largest value of its scale."""
    demanded_in_unit: float
    """The same in the number's own unit."""
    metric: str
    found: float | None
    """Half the width of its interval, in the number's own unit; None: it has no interval."""
    is_reached: bool
    n_planned: int
    """Items that would have been asked at most."""
    n_asked: int
    looks: int
    """Looks taken; all of `looks_planned` where everything was asked."""
    looks_planned: int
    level_of_a_look: float
    """Confidence level of each look's interval, so that all together hold with the estimates' level."""

    @property
    def words(self) -> str:
        width = "no interval" if self.found is None else f"known to ±{self.found:.3g}"
        demanded = f"±{self.demanded_in_unit:.3g}"
        if self.is_reached and self.n_asked == self.n_planned:
            return (
                f"precision: {self.metric} {width}, {demanded} was asked for: reached with all {self.n_asked:,} items"
            )
        if self.is_reached:
            progress = f"after {self.n_asked:,} of {self.n_planned:,} items (look {self.looks} of {self.looks_planned})"
            return f"precision: {self.metric} {width}, {demanded} was asked for: stopped {progress}"
        return f"precision: {self.metric} {width}, {demanded} was not reached: all {self.n_asked:,} items were asked"


class Looks(msgspec.Struct, frozen=True):
    """The looks of a plan: what is asked up to each, the last being the plan itself."""

    plans: Sequence[Plan]
    level: float

    def after(self, answered: Iterable[str]) -> Iterator[tuple[int, Plan]]:
        """The looks still to be taken, with their numbers from 1: those before an item that was asked are past."""
        unmatched, first = set(answered), 0
        for n, plan in enumerate(self.plans):
            first = n
            unmatched.difference_update(item.item_id for item in plan.items)
            if not unmatched:
                break
        return ((n + 1, self.plans[n]) for n in range(first, len(self.plans)))

    def found(self, number: int, estimates: Sequence[Estimate]) -> Precision:
        """Return what a look saw; the estimates are those of its own level."""
        last = self.plans[-1]
        suite, demanded = last.suite, last.options.precision
        if demanded is None:
            raise ValueError("the plan demands no precision")
        half = half_width(suite.headline, estimates)
        unit = demanded * largest(suite.scales[suite.headline.metric])
        return Precision(
            demanded=demanded,
            demanded_in_unit=unit,
            metric=suite.headline.metric,
            found=half,
            is_reached=half is not None and half <= unit,
            n_planned=len(last.items),
            n_asked=len(self.plans[number - 1].items),
            looks=number,
            looks_planned=len(self.plans),
            level_of_a_look=self.level,
        )


def looks_of(plan: Plan) -> Looks:
    """The looks of a plan; one where it has few items."""
    n = len(plan.items)
    most = n_looks(n)
    sizes = [round(n / GROWTH**before) for before in range(most - 1, 0, -1)]
    parts = beginnings(plan.items, sizes, plan.options.seed) if sizes else []
    plans = [msgspec.structs.replace(plan, items=part) for part in parts]
    return Looks([*plans, plan], repeated_level(most, GROWTH))


def n_looks(n_items: int) -> int:
    """Return how often a run of so many items is looked at, at most."""
    return 1 + max(0, math.floor(math.log(max(1, n_items) / FEWEST) / math.log(GROWTH)))


def half_width(headline: CellKey, estimates: Iterable[Estimate]) -> float | None:
    """Half the width of the headline number's interval, in its unit; None where it has none."""
    for estimate in estimates:
        if (estimate.metric, estimate.axis, estimate.group, estimate.reference, estimate.subset) == headline:
            return None if estimate.lower is None or estimate.upper is None else (estimate.upper - estimate.lower) / 2
    return None


def largest(scale: Scale) -> float:
    """The largest value of a scale, whatever its sign: 100 of a percentage, 1 of a share or a correlation."""
    return max(abs(scale.low), abs(scale.high))


# Resamples of ranks.


Floats = NDArray[np.float64]

N_RESAMPLES = 200
"""Number of resamples for standard errors of differences and for ranks, which are whole numbers."""
_DIGITS = 7


class RankResamples(msgspec.Struct, frozen=True, kw_only=True):
    """The resamples of a single axis."""

    axis: str
    values: list[float | None]
    """The ranking number in each resample; None where undefined."""
    by_chance: float | None = None
    """The average value if no group were preferred, for a number that chance raises."""


def rank_resamples(rule: RankRule, cells: Sequence[Cell]) -> list[RankResamples]:
    """Bayesian bootstrap of the ranking number by axis, exponential weights. Rubin 1981, doi:10.1214/aos/1176345338."""
    axes = dict.fromkeys(cell.axis for cell in cells if cell.metric == rule.metric)
    used = {rule.metric, *rule.beside}
    return [
        _of_axis(rule, axis, [c for c in cells if c.axis == axis and c.metric in used])
        for axis in axes
        if axis is not None
    ]


def _of_axis(rule: RankRule, axis: str, cells: Sequence[Cell]) -> RankResamples:
    columns = _columns(cells)
    return RankResamples(axis=axis, values=_values(rule, cells, columns), by_chance=_by_chance(rule, cells, columns))


def _values(rule: RankRule, cells: Sequence[Cell], columns: Sequence[Floats]) -> list[float | None]:
    return [_statistic(rule, cells, [float(column[n]) for column in columns]) for n in range(N_RESAMPLES)]


def _by_chance(rule: RankRule, cells: Sequence[Cell], columns: Sequence[Floats]) -> float | None:
    """Return the mean over resamples of the value that chance alone gives numbers that are 0, or all equal."""
    if rule.raised_by_chance is None:
        return None
    points = [math.nan if (value := point(cell)) is None else value for cell in cells]
    is_compared = [cell.metric == rule.metric and cell.group != UNRELATED for cell in cells]
    defined = [p for p, is_one in zip(points, is_compared, strict=True) if is_one and not math.isnan(p)]
    neutral = sum(defined) / len(defined) if defined and rule.raised_by_chance == "alike" else 0.0
    moved = [
        column - value + neutral if is_one else column
        for column, value, is_one in zip(columns, points, is_compared, strict=True)
    ]
    values = [value for value in _values(rule, cells, moved) if value is not None]
    return float(f"{sum(values) / len(values):.{_DIGITS}g}") if values else None


def _columns(cells: Sequence[Cell]) -> list[Floats]:
    names = sorted({name for cell in cells for name in cell.clusters})
    row = {name: place for place, name in enumerate(names)}
    draws = (np.random.default_rng(zlib.crc32(name.encode())) for name in names)
    weights = np.array([rng.standard_exponential(N_RESAMPLES) for rng in draws]).reshape(-1, N_RESAMPLES)
    return [_resampled(cell, weights[[row[name] for name in cell.clusters]]) for cell in cells]


def _resampled(cell: Cell, weights: Floats) -> Floats:
    if not len(cell.clusters):
        return np.full(N_RESAMPLES, np.nan)
    return np.asarray(cell.statistic(weights.T @ cell.sums), dtype=np.float64)


def _statistic(rule: RankRule, cells: Sequence[Cell], values: Sequence[float]) -> float | None:
    number = rule.statistic([_estimate(cell, value) for cell, value in zip(cells, values, strict=True)])
    return None if math.isnan(number) else float(f"{number:.{_DIGITS}g}")


def _estimate(cell: Cell, value: float) -> Estimate:
    return Estimate(
        **cell.key._asdict(),
        value=None if math.isnan(value) else value,
        n=cell.n,
        n_excluded=0,
        extra=dict(cell.extra),
    )


# Many numbers side by side.


FALSE_STARS = 0.05
"""Bound on the share of pages with a star among those on which no number differs from its neutral value."""
MARK = "*"
_LEAST_DEFINED = 0.5
"""Share of the replies that must lie in clusters with a value of their own; else only Student's test is left."""

Family = tuple[str, bool, bool, bool, int]
"""Metric; whether it has an axis, a group, a reference; how many names its part has ("joy/glad": 2)."""


def with_stars(
    cells: Sequence[Cell], estimates: Sequence[Estimate], scales: Mapping[str, Scale], *, level: float = 0.95
) -> tuple[list[Estimate], float | None]:
    """Return the estimates, the tested ones with `p_value`, `p_adjusted` and `n_comparisons` in `extra`, and the stars
    on average where every number is neutral, at most FALSE_STARS; None: nothing is tested. Tested is "the value is
    neutral" for assessable numbers with an interval and a neutral value inside the scale. p is the larger of two:
    Student's, two-sided, with the bootstrap's standard error and the interval's degrees of freedom (half of them, where
    each cluster lies on one side of a difference); and flips of the signs of whole clusters' own distances to the
    neutral value, weighted by replies, which holds in the tails. Adjusted by Holm, a share for each family. `cells`: of
    the estimates, in order. `level`: of the intervals; above 0.95 at one look of several: p grows by as much.
    """
    pairs = zip(cells, estimates, strict=True)
    tests = {
        n: test
        for n, (cell, estimate) in enumerate(pairs)
        if (test := _test(cell, estimate, scales.get(estimate.metric)))
    }
    if not tests:
        return list(estimates), None
    families = {place: _family(estimates[place]) for place in tests}
    sizes = Counter(families.values())
    shares = {place: 1 / (len(sizes) * sizes[family]) for place, family in families.items()}
    looks = 0.05 / (1 - level)
    tests = {place: (min(1.0, looks * p_value), looks * least) for place, (p_value, least) in tests.items()}
    adjusted = holm([p_value for p_value, _ in tests.values()], list(shares.values()))
    starred = list(estimates)
    for (place, (p_value, _)), value in zip(tests.items(), adjusted, strict=True):
        test_fields = {"p_value": p_value, "p_adjusted": value, "n_comparisons": len(tests)}
        starred[place] = msgspec.structs.replace(starred[place], extra={**starred[place].extra, **test_fields})
    levels = {place: FALSE_STARS * share for place, share in shares.items()}
    return starred, sum(level for place, level in levels.items() if tests[place][1] < level)


def mark(estimate: Estimate) -> str:
    """MARK for a number that differs from the neutral value after adjustment, else nothing."""
    adjusted = estimate.extra.get("p_adjusted")
    return MARK if adjusted is not None and adjusted < FALSE_STARS else ""


def _family(estimate: Estimate) -> Family:
    n_names = 0 if estimate.subset is None else 1 + estimate.subset.count("/")
    return (
        estimate.metric,
        estimate.axis is not None,
        estimate.group is not None,
        estimate.reference is not None,
        n_names,
    )


def _test(cell: Cell, estimate: Estimate, scale: Scale | None) -> tuple[float, float] | None:
    """Return the p value of a number, and the least that the number of its clusters allows."""
    if scale is None or scale.ideal is None or not scale.low < scale.ideal < scale.high:
        return None
    if cell.not_assessable is not None or estimate.value is None or estimate.lower is None:
        return None
    if isinstance(cell.statistic, Spread):
        return None
    error, own = estimate.extra.get("standard_error"), _own_distances(cell, scale.ideal)
    if own is None and not error:
        return None
    degrees = degrees_of_freedom(cell) if own is not None else len(cell.clusters) / 2 - 1
    student = (
        2 * float(stdtr(max(1.0, min(degrees, 1e9)), -abs(estimate.value - scale.ideal) / error)) if error else 0.0
    )
    if own is None:
        return student, 0.0
    return max(student, sign_flip_p_value(own)), math.ldexp(1.0, 1 - max(1, int(np.count_nonzero(own))))


def _own_distances(cell: Cell, ideal: float) -> NDArray[np.float64] | None:
    """(n_clusters,) weighted distance of each cluster alone to the neutral value, or 0; None if too many undefined."""
    sums = drawn(cell)
    weights = np.abs(sums).sum(axis=1)
    values = np.asarray(cell.statistic(sums), dtype=np.float64)
    is_defined = ~np.isnan(values)
    if weights[is_defined].sum() < _LEAST_DEFINED * weights.sum():
        return None
    return np.where(is_defined, weights * (np.where(is_defined, values, ideal) - ideal), 0.0)
