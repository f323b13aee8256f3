"""Turns cells into estimates: a cell has per-cluster sums and a formula; an estimate adds the interval or a reason."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.bootstrap import (
    N_RESAMPLES,
    Bootstrap,
    Statistic,
    cluster_bootstrap,
    crossed_bootstrap,
    crossed_noise,
    is_one_value,
    stratified_bootstrap,
)
from auditors.metrics.intervals import Interval
from auditors.metrics.spread import Spread, SpreadBootstrap, spread_bootstrap
from auditors.types import Estimate
from benchmarks.suites.common.counted import Difference, Joined, Peak, Share

Counted = Share | Difference | Peak | Joined

REFUSALS_AS, EXCLUDED, LOWEST, HIGHEST = "refusals_as", "excluded", "lowest", "highest"
"""Keys in `extra` where refusals bear on a number: it without them, by what they are taken for, and its ends."""
CHANCE, NOT_ASSESSABLE = "chance", "not_assessable"
"""Keys in `extra`: what replies at random would give; why a number says nothing (see `assessable`)."""
MIN_CLUSTERS = 10
"""Below this a percentile bootstrap over clusters covers clearly less than it claims, so no interval is given."""
SAME_VALUE = "no interval: every resample gives the same value, so its spread cannot be seen"
ONE_DIFFERS = "no interval: clusters differ in one stratum at most, so their spread cannot be told"
MAX_UNDEFINED_SHARE = 0.05
"""Largest share of undefined resamples: with more, an interval would describe only the lucky resamples."""


class CellKey(NamedTuple):
    """Name of a number of a run."""

    metric: str
    axis: str | None = None
    group: str | None = None
    reference: str | None = None
    subset: str | None = None


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One number to report: a formula over sums, the sums by cluster, and what was left out."""

    metric: str
    axis: str | None = None
    group: str | None = None
    reference: str | None = None
    subset: str | None = None
    clusters: tuple[str, ...]
    """Cluster labels, one per row of `sums`, sorted."""
    sums: NDArray[np.float64]
    """(n_clusters, k) sums of whatever `statistic` needs."""
    strata: tuple[str, ...] | None = None
    """Stratum that each cluster was drawn within, one per row; None: clusters are drawn from one whole."""
    strata_are_drawn: bool = False
    """The number speaks of strata like these, not of these alone; with too few of them it speaks of these."""
    factors: Mapping[str, NDArray[np.intp]] = msgspec.field(default_factory=dict)
    """(n_clusters,) levels of what else was drawn and is shared by clusters, e.g. the template; not with `strata`."""
    statistic: Statistic | Spread
    """A `Spread` gets the interval for numbers that are above 0 by chance alone."""
    unit: str
    """Kind of thing that a cluster is, for the reader: "target term", "item"."""
    n: int
    """Replies in the denominator."""
    excluded: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Replies left out of the denominator, by status."""
    undefined: str = "no reply counts towards the denominator"
    """Reason given when the statistic is undefined."""
    counted: Counted | None = None
    """Replies by cluster if the number is a share or formed from two: these give its interval, but for `strata`."""
    whole: float = 100.0
    """The number when the share is 1: 100 for a percentage, 1 for a proportion."""
    is_exact: bool = False
    """The sums are of probabilities known without sampling error, so only clusters differ by chance (mode exact)."""
    is_secondary: bool = False
    """A plain rate shown next to the scores: two runs are compared by it for whole axes alone, without a p value."""
    no_interval: str | None = None
    """Why no method gives this number an interval that can be relied on; None when one does."""
    not_assessable: str | None = None
    """Why the number says nothing about the model; None if it does. Set by `benchmarks.suites.common.assessable`."""
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def key(self) -> "CellKey":
        return CellKey(self.metric, self.axis, self.group, self.reference, self.subset)


def estimate(cell: Cell, *, seed: int, confidence_level: float = 0.95) -> Estimate:
    """Return value and interval of a cell. Seeded by the seed and the cell's name: adding a cell moves no other."""
    value = point(cell)
    if value is None or cell.no_interval:
        reason = cell.undefined if value is None else f"no interval: {cell.no_interval}"
        return _result(cell, value, confidence_level, reason=reason)
    # An interval from counts is used where it, too, is an interval over all that the clusters share.
    is_over_all = cell.strata is None and (not cell.factors or isinstance(cell.counted, Share | Joined))
    if cell.counted is not None and (cell.is_secondary or is_over_all):
        return _from_counts(cell, value, cell.counted, confidence_level, {})
    if len(cell.clusters) < MIN_CLUSTERS:
        return _result(cell, value, confidence_level, reason=too_few(cell))
    rng = cell_rng(cell, seed)
    if isinstance(cell.statistic, Spread):
        factors = list(cell.factors.values())
        spread = spread_bootstrap(
            cell.sums, cell.statistic, rng=rng, factors=factors, confidence_level=confidence_level
        )
        about = {} if spread.is_degenerate else {"by_chance": spread.by_chance}
        return _from_resamples(cell, value, spread, confidence_level, about)
    bootstrap = resampled(cell, cell.sums, cell.statistic, rng=rng, confidence_level=confidence_level)
    about = _of_strata(cell, rng, confidence_level)
    if bootstrap.is_degenerate and cell.counted is not None:
        # At 0 % or 100 % every resample agrees, which is no evidence of certainty.
        return _from_counts(cell, value, cell.counted, confidence_level, about)
    return _from_resamples(cell, value, bootstrap, confidence_level, about)


def resampled(
    cell: Cell, sums: NDArray[np.float64], statistic: Statistic, *, rng: np.random.Generator, confidence_level: float
) -> Bootstrap:
    """Bootstrap of a statistic of sums that have the clusters of `cell`, drawn as these were."""
    if cell.strata is not None:
        strata = _codes(cell.strata)
        if _speaks_of_more(cell, sums, statistic):
            return cluster_bootstrap(_by(strata, sums), statistic, rng=rng, confidence_level=confidence_level)
        return stratified_bootstrap(sums, strata, statistic, rng=rng, confidence_level=confidence_level)
    if cell.factors:
        factors = list(cell.factors.values())
        return crossed_bootstrap(sums, factors, statistic, rng=rng, confidence_level=confidence_level)
    return cluster_bootstrap(sums, statistic, rng=rng, confidence_level=confidence_level)


def drawn(cell: Cell) -> NDArray[np.float64]:
    """(n, k) sums of what was drawn: whole strata where the number speaks of strata like these, else clusters."""
    if cell.strata is None or not _speaks_of_more(cell):
        return cell.sums
    return _by(_codes(cell.strata), cell.sums)


def degrees_of_freedom(cell: Cell) -> float:
    """Return the degrees of freedom of the cell's standard error, which its interval, too, takes for Student's t."""
    if cell.strata is not None and not _speaks_of_more(cell):
        return len(cell.clusters) - len(set(cell.strata))
    if cell.factors and not isinstance(cell.statistic, Spread):
        statistic = cell.statistic
        return crossed_noise(cell.sums, list(cell.factors.values()), lambda rows: statistic(rows)[..., None]).degrees
    return len(drawn(cell)) - 1


def _speaks_of_more(cell: Cell, sums: NDArray[np.float64] | None = None, statistic: Statistic | None = None) -> bool:
    """Return whether the interval is that of strata like these: there are enough of them, and they differ."""
    if cell.strata is None or not cell.strata_are_drawn or len(set(cell.strata)) < MIN_CLUSTERS:
        return False
    values = np.asarray((statistic or cell.statistic)(_by(_codes(cell.strata), cell.sums if sums is None else sums)))
    defined = values[~np.isnan(values)]
    return len(defined) > 0 and not is_one_value(defined)


def _by(strata: NDArray[np.intp], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n_strata, k) sums of each stratum."""
    totals = np.zeros((strata.max() + 1, sums.shape[1]))
    np.add.at(totals, strata, sums)
    return totals


def _codes(labels: tuple[str, ...]) -> NDArray[np.intp]:
    code = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return np.array([code[label] for label in labels], dtype=np.intp)


def _of_strata(cell: Cell, rng: np.random.Generator, confidence_level: float) -> dict[str, Any]:
    """Return what the interval speaks of; for strata like these also the narrower interval of these alone."""
    if cell.strata is None:
        return {}
    if not _speaks_of_more(cell):
        return {"speaks_of": "these categories"}
    alone = stratified_bootstrap(
        cell.sums, _codes(cell.strata), cell.statistic, rng=rng, confidence_level=confidence_level
    )
    ends = None if alone.interval is None or alone.is_degenerate else [alone.interval.lower, alone.interval.upper]
    return {"speaks_of": "categories like these", "interval_of_these_categories": ends}


def point(cell: Cell) -> float | None:
    """The statistic of all clusters together, None when undefined."""
    value = float(cell.statistic(cell.sums.sum(axis=0))) if len(cell.sums) else math.nan
    return None if math.isnan(value) else value


def cell_rng(cell: Cell, seed: int) -> np.random.Generator:
    name = "/".join(part or "" for part in cell.key)
    return np.random.default_rng([seed, *name.encode()])


def too_few(cell: Cell) -> str:
    count = len(cell.clusters) if cell.counted is None else cell.counted.n_clusters
    plural = "" if count == 1 else "s"
    return f"no interval: {count} {cell.unit}{plural} to resample, fewer than {MIN_CLUSTERS}"


def too_undefined(bootstrap: Bootstrap | SpreadBootstrap) -> str | None:
    """Return why there is no interval: an interval would describe only the lucky resamples; None if there is."""
    if bootstrap.n_undefined <= MAX_UNDEFINED_SHARE * N_RESAMPLES:
        return None
    return f"no interval: undefined in {bootstrap.n_undefined} of {N_RESAMPLES} resamples"


def _from_counts(
    cell: Cell, value: float, counted: Counted, confidence_level: float, about: Mapping[str, Any]
) -> Estimate:
    """Take a share of what was drawn: strata, if it speaks of their like; fixed strata are left out (wider)."""
    if counted.n_clusters < MIN_CLUSTERS:
        return _result(cell, value, confidence_level, reason=too_few(cell), about=about)
    if isinstance(counted, Share):
        is_of_strata = cell.strata is not None and _speaks_of_more(cell)
        factors = tuple(cell.factors.values())
        counted = counted.summed(_codes(cell.strata or ())) if is_of_strata else counted._replace(factors=factors)
    result = counted.found(cell.whole, confidence_level, is_exact=cell.is_exact)
    if result.interval is None:
        reason = ONE_DIFFERS if isinstance(counted, Joined) else SAME_VALUE
        return _result(cell, value, confidence_level, reason=reason, about=about)
    error = {} if result.standard_error is None else {"standard_error": result.standard_error}
    return _result(cell, value, confidence_level, result.interval, result.method, about={**error, **about})


def _from_resamples(
    cell: Cell, value: float, bootstrap: Bootstrap | SpreadBootstrap, confidence_level: float, about: Mapping[str, Any]
) -> Estimate:
    if bootstrap.interval is None or bootstrap.is_degenerate:
        return _result(cell, value, confidence_level, reason=SAME_VALUE, about=about)
    if (reason := too_undefined(bootstrap)) is not None:
        return _result(cell, value, confidence_level, reason=reason, about=about)
    if isinstance(bootstrap, SpreadBootstrap):
        return _result(cell, value, confidence_level, bootstrap.interval, "spread-bootstrap", about=about)
    method = "crossed-bootstrap" if cell.factors else "cluster-bootstrap"
    if cell.strata is not None and not _speaks_of_more(cell):
        method = "stratified-bootstrap"
    about = {"standard_error": bootstrap.standard_error, **about}
    return _result(cell, value, confidence_level, bootstrap.interval, method, about=about)


def _result(
    cell: Cell,
    value: float | None,
    level: float,
    ends: Interval | None = None,
    method: str | None = None,
    *,
    reason: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> Estimate:
    """The interval always holds the value: a spread that is all noise can exceed the largest truth that explains it."""
    extra: dict[str, Any] = {"unit": cell.unit, "n_clusters": len(cell.clusters), **cell.extra}
    if isinstance(cell.counted, Share):
        numerator, denominator = (int(total) if total.is_integer() else total for total in cell.counted.totals)
        extra |= {"numerator": numerator, "denominator": denominator}
    if cell.excluded:
        extra["excluded"] = dict(cell.excluded)
    if cell.not_assessable is not None:
        extra[NOT_ASSESSABLE] = cell.not_assessable
    return Estimate(
        **cell.key._asdict(),
        value=value,
        lower=None if ends is None or value is None else min(ends.lower, value),
        upper=None if ends is None or value is None else max(ends.upper, value),
        confidence_level=level,
        method=method,
        n=cell.n,
        n_excluded=sum(cell.excluded.values()),
        reason=reason,
        extra={**extra, **(about or {})},
    )
