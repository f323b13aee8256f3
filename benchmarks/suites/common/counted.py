"""Numbers that are shares of replies, or formed from two: their intervals by cluster, without resampling."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.bootstrap import Statistic
from auditors.metrics.clustered import Counts, cluster_difference, clustered_share, peaked_interval, stratified_t
from auditors.metrics.intervals import Interval

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class Found(NamedTuple):
    """An interval in the unit of its number, and how it came about."""

    interval: Interval | None
    method: str
    standard_error: float | None


class Share(NamedTuple):
    """Successes of each cluster among its trials: replies, weighted replies or sums of probabilities."""

    parts: Floats
    """(n_clusters,)"""
    wholes: Floats
    """(n_clusters,)"""
    factors: tuple[Indices, ...] = ()
    """(n_clusters,) levels of what else was drawn and is shared by clusters."""

    @property
    def counts(self) -> Counts:
        return self.parts, self.wholes

    def summed(self, labels: Indices) -> "Share":
        """Return the share with the clusters of each label, 0 and up, added up."""
        parts, wholes = (
            np.bincount(labels, weights=per_cluster).astype(np.float64) for per_cluster in (self.parts, self.wholes)
        )
        return Share(parts, wholes)

    @property
    def totals(self) -> tuple[float, float]:
        return float(self.parts.sum()), float(self.wholes.sum())

    @property
    def n_clusters(self) -> int:
        """Clusters that have trials; the others say nothing."""
        return int((self.wholes > 0).sum())

    def found(self, whole: float, confidence_level: float, *, is_exact: bool) -> Found:
        share = clustered_share(self.parts, self.wholes, is_exact=is_exact, factors=self.factors)
        if share is None:
            return Found(None, "cluster-wilson", None)
        return Found(scaled(share.interval(confidence_level), whole), "cluster-wilson", whole * share.standard_error)


class Difference(NamedTuple):
    """A share less another, over the same clusters."""

    first: Share
    second: Share

    @property
    def n_clusters(self) -> int:
        return min(self.first.n_clusters, self.second.n_clusters)

    def found(self, whole: float, confidence_level: float, *, is_exact: bool) -> Found:
        difference = cluster_difference(
            self.first.counts, self.second.counts, confidence_level=confidence_level, is_exact=is_exact
        )
        if difference is None:
            return Found(None, "cluster-t", None)
        ends = scaled(difference.interval, whole)
        return Found(ends, difference.method, whole * difference.standard_error)


class Peak(NamedTuple):
    """L times how near S is to one half, as ICAT of LMS and SS: greatest where S is one half."""

    outer: Share
    inner: Share

    @property
    def n_clusters(self) -> int:
        return min(self.outer.n_clusters, self.inner.n_clusters)

    def found(self, whole: float, confidence_level: float, *, is_exact: bool) -> Found:
        ends = peaked_interval(
            self.outer.counts, self.inner.counts, confidence_level=confidence_level, is_exact=is_exact
        )
        return Found(None if ends is None else scaled(ends, whole), "peaked", None)


class Joined(NamedTuple):
    """A number that joins strata with a few clusters each, as GroupFav joins opponents."""

    sums: Floats
    """(n_clusters, k)"""
    strata: Indices
    """(n_clusters,)"""
    statistic: Statistic
    factors: tuple[Indices, ...] = ()
    """(n_clusters,) levels of what else was drawn and is shared by clusters."""

    @property
    def n_clusters(self) -> int:
        return len(self.sums)

    def found(self, whole: float, confidence_level: float, *, is_exact: bool) -> Found:
        """`whole` and `is_exact` change nothing: the statistic has a unit of its own, and clusters all of the noise."""
        interval = stratified_t(
            self.sums, self.strata, self.statistic, factors=self.factors, confidence_level=confidence_level
        )
        if interval is None:
            return Found(None, "stratified-t", None)
        return Found(interval.interval, "stratified-t", interval.standard_error)


def scaled(ends: Interval, whole: float) -> Interval:
    return Interval(whole * ends.lower, whole * ends.upper)
