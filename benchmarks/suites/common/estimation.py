"""From cells to estimates: a cell holds per-cluster sums and a formula; an estimate adds the interval or the reason."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.bootstrap import N_RESAMPLES, Bootstrap, Statistic, cluster_bootstrap
from auditors.metrics.intervals import Interval
from auditors.metrics.rates import wilson_interval
from auditors.metrics.spread import Spread, SpreadBootstrap, spread_bootstrap
from auditors.types import Estimate

MIN_CLUSTERS = 10
"""Below this a percentile bootstrap over clusters covers clearly less than it claims, so no interval is given."""
MAX_UNDEFINED_SHARE = 0.05
"""With more undefined resamples than this, an interval would describe only the lucky ones."""


class CellKey(NamedTuple):
    """Which number of a run one is."""

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
    statistic: Statistic | Spread
    """A `Spread` gets the interval for numbers that are above 0 by chance alone."""
    unit: str
    """What a cluster is, for the reader: "target term", "item"."""
    n: int
    """Replies in the denominator."""
    excluded: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Replies left out of the denominator, by status."""
    undefined: str = "no reply counts towards the denominator"
    """Reason given when the statistic is undefined."""
    share: tuple[float, float] | None = None
    """(numerator, denominator) when the number is a share of replies; allows Wilson's interval when both are whole
    numbers. Sums of probabilities (mode exact) are no counts of trials.
    """
    whole: float = 100.0
    """The number when the share is 1: 100 for a percentage, 1 for a proportion."""
    prefers_wilson: bool = False
    """Use Wilson's interval rather than the bootstrap: a plain rate shown beside the scores."""
    no_interval: str | None = None
    """Why no method gives this number an interval that can be relied on; None when one does."""
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def key(self) -> "CellKey":
        return CellKey(self.metric, self.axis, self.group, self.reference, self.subset)


def estimate(cell: Cell, *, seed: int, confidence_level: float = 0.95) -> Estimate:
    """Value and interval of one cell.

    The generator is seeded by the seed and the cell's own name, so that adding a cell moves no other interval.
    """
    value = point(cell)
    if value is None:
        return _result(cell, None, None, None, cell.undefined, confidence_level)
    if cell.prefers_wilson and cell.share and _are_counts(cell.share):
        return _result(cell, value, _wilson(cell.share, cell.whole, confidence_level), "wilson", None, confidence_level)
    if cell.no_interval:
        return _result(cell, value, None, None, f"no interval: {cell.no_interval}", confidence_level)
    if len(cell.clusters) < MIN_CLUSTERS:
        return _result(cell, value, None, None, too_few(cell), confidence_level)
    rng = cell_rng(cell, seed)
    if isinstance(cell.statistic, Spread):
        found = spread_bootstrap(cell.sums, cell.statistic, rng=rng, confidence_level=confidence_level)
        return _from_spread(cell, value, found, confidence_level)
    bootstrap = cluster_bootstrap(cell.sums, cell.statistic, rng=rng, confidence_level=confidence_level)
    return _from_bootstrap(cell, value, bootstrap, confidence_level)


def point(cell: Cell) -> float | None:
    """The statistic of all clusters together, None when undefined."""
    value = float(cell.statistic(cell.sums.sum(axis=0))) if len(cell.sums) else math.nan
    return None if math.isnan(value) else value


def cell_rng(cell: Cell, seed: int) -> np.random.Generator:
    name = "/".join(part or "" for part in cell.key)
    return np.random.default_rng([seed, *name.encode()])


def too_few(cell: Cell) -> str:
    count = len(cell.clusters)
    plural = "" if count == 1 else "s"
    return f"no interval: {count} {cell.unit}{plural} to resample, fewer than {MIN_CLUSTERS}"


def _from_bootstrap(cell: Cell, value: float, bootstrap: Bootstrap, confidence_level: float) -> Estimate:
    if bootstrap.is_degenerate and cell.share is not None:
        # At 0 % or 100 % every resample agrees, which is no evidence of certainty. Wilson's interval on the number of
        # clusters is the cautious answer: it treats a whole cluster as one trial.
        n_clusters = bootstrap.n_clusters
        ends = _wilson((round(value / cell.whole * n_clusters), n_clusters), cell.whole, confidence_level)
        return _result(cell, value, ends, "wilson-clusters", None, confidence_level)
    found = _resampled(cell, value, bootstrap, "cluster-bootstrap", confidence_level)
    if found.lower is None:
        return found
    return msgspec.structs.replace(found, extra={**found.extra, "standard_error": bootstrap.standard_error})


def _from_spread(cell: Cell, value: float, found: SpreadBootstrap, confidence_level: float) -> Estimate:
    estimated = _resampled(cell, value, found, "spread-bootstrap", confidence_level)
    if found.is_degenerate:
        return estimated
    return msgspec.structs.replace(estimated, extra={**estimated.extra, "by_chance": found.by_chance})


def _resampled(
    cell: Cell, value: float, found: Bootstrap | SpreadBootstrap, method: str, confidence_level: float
) -> Estimate:
    interval = found.interval
    if interval is None or found.is_degenerate:
        reason = "no interval: every resample gives the same value, so its spread cannot be seen"
        return _result(cell, value, None, None, reason, confidence_level)
    if found.n_undefined > MAX_UNDEFINED_SHARE * N_RESAMPLES:
        reason = f"no interval: undefined in {found.n_undefined} of {N_RESAMPLES} resamples"
        return _result(cell, value, None, None, reason, confidence_level)
    # A formula with a peak (ICAT at SS = 50) can exceed all its resamples, and a spread that is all noise the largest
    # truth that explains it; the interval always holds the value.
    ends = Interval(min(interval.lower, value), max(interval.upper, value))
    return _result(cell, value, ends, method, None, confidence_level)


def _are_counts(share: tuple[float, float]) -> bool:
    return all(float(number).is_integer() for number in share)


def _wilson(share: tuple[float, float], whole: float, confidence_level: float) -> Interval | None:
    ends = wilson_interval(round(share[0]), round(share[1]), confidence_level=confidence_level)
    return None if ends is None else Interval(whole * ends.lower, whole * ends.upper)


def _result(
    cell: Cell, value: float | None, ends: Interval | None, method: str | None, reason: str | None, level: float
) -> Estimate:
    extra: dict[str, Any] = {"unit": cell.unit, "n_clusters": len(cell.clusters), **cell.extra}
    if cell.share is not None:
        numerator, denominator = (int(part) if _are_counts((part, 0)) else part for part in cell.share)
        extra |= {"numerator": numerator, "denominator": denominator}
    if cell.excluded:
        extra["excluded"] = dict(cell.excluded)
    return Estimate(
        metric=cell.metric,
        axis=cell.axis,
        group=cell.group,
        reference=cell.reference,
        subset=cell.subset,
        value=value,
        lower=None if ends is None else ends.lower,
        upper=None if ends is None else ends.upper,
        confidence_level=level,
        method=method,
        n=cell.n,
        n_excluded=sum(cell.excluded.values()),
        reason=reason,
        extra=extra,
    )
