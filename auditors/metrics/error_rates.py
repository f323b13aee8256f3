"""A judge's sensitivity and specificity against people, and a share corrected for them, where judgements come in
clusters: several of one exchange, which share what makes it easy or hard to judge.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from auditors.metrics.agreement import grouped
from auditors.metrics.agreement_intervals import FEWEST_CLUSTERS, too_few
from auditors.metrics.clustered import ClusteredShare, clustered_share
from auditors.metrics.intervals import Interval
from auditors.metrics.rogan_gladen import CorrectedShare, KnownRates, KnownShare, corrected_share

Floats = NDArray[np.float64]

LEAST_LABELS = 30
"""Fewer correct no share."""


@dataclass(frozen=True)
class Rate:
    """A share of judgements that a judge gets right; without a value or an interval `reason` says why."""

    n: int
    """Judgements of its kind."""
    n_clusters: int
    """Clusters that have any."""
    value: float | None
    """In [0, 1]."""
    interval: Interval | None
    reason: str | None
    clustered: ClusteredShare | None
    """What a correction needs; None without an interval."""


_NO_RATE = Rate(0, 0, None, None, "no label of this kind", None)


@dataclass(frozen=True)
class ErrorRates:
    """A judge against people, over judgements that are above a threshold or not."""

    sensitivity: Rate
    """Of those that people put above it, the share that the judge does too."""
    specificity: Rate
    """Of those that people do not, the share that the judge does not either."""


def error_rates(
    people: Sequence[bool] | NDArray[np.bool_],
    judge: Sequence[bool] | NDArray[np.bool_],
    clusters: ArrayLike | None = None,
    *,
    confidence_level: float = 0.95,
) -> ErrorRates:
    """Sensitivity and specificity with Wilson's intervals on clusters (`clustered_share`).

    Args:
        people: (n,) whether people put each judgement above the threshold.
        judge: (n,) whether the judge does.
        clusters: (n,) the cluster of each; None: each is one.
        confidence_level: in (0, 1).

    Returns: rates without an interval where fewer than FEWEST_CLUSTERS clusters have a judgement of the kind.
    Raises: ValueError for sequences of different length.
    """
    positive, said = np.asarray(people, dtype=bool), np.asarray(judge, dtype=bool)
    if positive.shape != said.shape:
        raise ValueError(f"each judgement has both: {positive.size} and {said.size} differ in number")
    if not len(positive):
        return ErrorRates(_NO_RATE, _NO_RATE)
    labels = np.arange(len(positive)) if clusters is None else clusters
    return _rates_of(positive, said, np.ones(len(positive), dtype=bool), labels, confidence_level)


def error_rates_by_group(
    people: Sequence[bool] | NDArray[np.bool_],
    judge: Sequence[bool] | NDArray[np.bool_],
    groups: Sequence[str],
    clusters: ArrayLike,
    *,
    confidence_level: float = 0.95,
) -> dict[str, ErrorRates]:
    """`error_rates` of each group by itself, whose deviations are of the same clusters in the same order.

    Args: see `error_rates`; groups: (n,) the group of each judgement.
    """
    positive, said = np.asarray(people, dtype=bool), np.asarray(judge, dtype=bool)
    names = np.asarray(groups)
    return {
        str(name): _rates_of(positive, said, names == name, clusters, confidence_level) for name in np.unique(names)
    }


def _rates_of(
    positive: NDArray[np.bool_],
    said: NDArray[np.bool_],
    used: NDArray[np.bool_],
    clusters: ArrayLike,
    confidence_level: float,
) -> ErrorRates:
    columns = [used & positive & said, used & positive, used & ~positive & ~said, used & ~positive]
    sums = grouped(np.stack(columns, axis=1).astype(np.float64), clusters)
    return ErrorRates(_rate(sums[:, 0], sums[:, 1], confidence_level), _rate(sums[:, 2], sums[:, 3], confidence_level))


def rogan_gladen(n_positive: int, n: int, rates: ErrorRates, *, confidence_level: float = 0.95) -> CorrectedShare:
    """Share of judgements above a threshold, corrected for the judge's errors (`corrected_share`).

    For labels from other traffic, in which that share may be another. The judge's two error rates must be the same in
    both, which is an assumption. Where it may fail, label the traffic at hand.

    Args:
        n_positive: judgements that the judge puts above the threshold, each independent of the others.
        n: all that it scored, none of them labelled.
        rates: from the labels.
        confidence_level: two-sided, in (0, 1).

    Returns: in [0, 1]; no value where `known_rates` has a reason.
    Raises: ValueError for an impossible count.
    """
    if not 0 <= n_positive <= n or n < 1:
        raise ValueError(f"a share needs 0 <= positive <= n and an n of 1 or more, not {n_positive} of {n}")
    judged = KnownShare(value=n_positive / n, effective_n=n)
    return corrected_share(judged, known_rates(rates), confidence_level=confidence_level)


def known_rates(rates: ErrorRates) -> KnownRates:
    """The rates as a correction needs them; with a reason, and nothing else, where there are fewer than LEAST_LABELS
    labels, a rate has no interval, or sensitivity and specificity, each with its interval, may add up to 1 or less: the
    judge could be no better than chance.
    """
    se, sp = rates.sensitivity, rates.specificity
    counted = KnownRates(n_positive=se.n, n_negative=sp.n)
    if se.value is None or sp.value is None or se.n + sp.n < LEAST_LABELS:
        few = f"{se.n + sp.n} labels, {se.n} of them positive and {sp.n} negative: {LEAST_LABELS} or more are needed"
        return msgspec.structs.replace(counted, reason=f"{few}, of both kinds")
    if se.interval is None or sp.interval is None or se.clustered is None or sp.clustered is None:
        kind, least = min((("positive", se.n_clusters), ("negative", sp.n_clusters)), key=lambda one: one[1])
        return msgspec.structs.replace(counted, reason=f"{kind} labels of {least} clusters are too few")
    if se.interval.lower + sp.interval.lower <= 1.0:
        reason = f"the judge may be no better than chance: sensitivity {se.value:.2f}, specificity {sp.value:.2f} "
        return msgspec.structs.replace(counted, reason=f"{reason}over {se.n + sp.n} labels")
    return msgspec.structs.replace(
        counted,
        sensitivity=known_share(se.clustered),
        specificity=known_share(sp.clustered),
        covariance=_covariance(se.clustered, sp.clustered),
    )


def known_share(found: ClusteredShare) -> KnownShare:
    degrees = None if math.isinf(found.degrees) else found.degrees
    return KnownShare(value=found.share, effective_n=found.effective_n, degrees=degrees)


def _rate(right: Floats, of: Floats, confidence_level: float) -> Rate:
    n, n_clusters = int(of.sum()), int((of > 0).sum())
    if not n:
        return _NO_RATE
    value = float(right.sum() / n)
    found = clustered_share(right, of) if n_clusters >= FEWEST_CLUSTERS else None
    if found is None:
        return Rate(n, n_clusters, value, None, too_few(n_clusters), None)
    return Rate(n, n_clusters, value, found.interval(confidence_level), None, found)


def _covariance(a: ClusteredShare, b: ClusteredShare) -> float:
    n = len(a.deviations)
    return float((a.deviations * b.deviations).sum()) * n / (n - 1)
