"""A judge's sensitivity and specificity against people, and a share corrected for them, where judgements come in
clusters: several of one exchange, which share what makes it easy or hard to judge.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from auditors.metrics.agreement import grouped
from auditors.metrics.agreement_intervals import FEWEST_CLUSTERS, too_few
from auditors.metrics.clustered import ClusteredShare, clustered_share
from auditors.metrics.intervals import Interval

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


@dataclass(frozen=True)
class ErrorRates:
    """A judge against people, over judgements that are above a threshold or not."""

    sensitivity: Rate
    """Of those that people put above it, the share that the judge does too."""
    specificity: Rate
    """Of those that people do not, the share that the judge does not either."""


class CorrectedShare(NamedTuple):
    """A share of judgements above a threshold; without a value `reason` says why."""

    value: float | None
    interval: Interval | None
    reason: str | None = None


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
    columns = [positive & said, positive, ~positive & ~said, ~positive]
    labels = np.arange(len(positive)) if clusters is None else clusters
    sums = grouped(np.stack(columns, axis=1).astype(np.float64), labels)
    return ErrorRates(_rate(sums[:, 0], sums[:, 1], confidence_level), _rate(sums[:, 2], sums[:, 3], confidence_level))


def rogan_gladen(n_positive: int, n: int, rates: ErrorRates, *, confidence_level: float = 0.95) -> CorrectedShare:
    """Share of judgements above a threshold, corrected for the judge's errors: (q + sp - 1) / (se + sp - 1).

    For labels from other traffic, in which that share may be another. The judge's two error rates must be the same in
    both, which is an assumption. Where it may fail, label the traffic at hand.

    Args:
        n_positive: judgements that the judge puts above the threshold.
        n: all that it scored, none of them labelled.
        rates: from the labels.
        confidence_level: two-sided, in (0, 1).

    Returns: in [0, 1]; no value with fewer than LEAST_LABELS labels, a rate without an interval, or a judge whose
        sensitivity and specificity, each with its interval, could be no better than chance.
    Raises: ValueError for an impossible count.
    Source: Rogan & Gladen 1978, doi:10.1093/oxfordjournals.aje.a112510; interval: Lang & Reiczigel 2014,
        doi:10.1016/j.prevetmed.2013.09.015. Deviation: labels in clusters count as many as their effective number, the
        covariance of both rates between clusters is in the variance, and the quantile is Student's with the degrees of
        both (Satterthwaite 1946). With clusters of one it is theirs.
    """
    if not 0 <= n_positive <= n or n < 1:
        raise ValueError(f"a share needs 0 <= positive <= n and an n of 1 or more, not {n_positive} of {n}")
    se, sp = rates.sensitivity, rates.specificity
    if se.value is None or sp.value is None or se.n + sp.n < LEAST_LABELS:
        few = f"{se.n + sp.n} labels, {se.n} of them positive and {sp.n} negative: {LEAST_LABELS} or more are needed"
        return CorrectedShare(None, None, f"{few}, of both kinds")
    if se.interval is None or sp.interval is None or se.clustered is None or sp.clustered is None:
        return CorrectedShare(
            None, None, f"labels of {min(se.n_clusters, sp.n_clusters)} clusters of a kind are too few"
        )
    if se.interval.lower + sp.interval.lower <= 1.0:
        reason = f"the judge may be no better than chance: sensitivity {se.value:.2f}, specificity {sp.value:.2f} "
        return CorrectedShare(None, None, f"{reason}over {se.n + sp.n} labels")
    share = (n_positive / n + sp.value - 1) / (se.value + sp.value - 1)
    centre, half = _lang_reiczigel(n_positive, n, se.clustered, sp.clustered, (1 + confidence_level) / 2)
    ends = Interval(min(max(0.0, centre - half), 1.0), max(min(1.0, centre + half), 0.0))
    return CorrectedShare(min(1.0, max(0.0, share)), ends)


def _rate(right: Floats, of: Floats, confidence_level: float) -> Rate:
    n, n_clusters = int(of.sum()), int((of > 0).sum())
    if not n:
        return Rate(0, 0, None, None, "no label of this kind", None)
    value = float(right.sum() / n)
    found = clustered_share(right, of) if n_clusters >= FEWEST_CLUSTERS else None
    if found is None:
        return Rate(n, n_clusters, value, None, too_few(n_clusters), None)
    return Rate(n, n_clusters, value, found.interval(confidence_level), None, found)


def _lang_reiczigel(
    n_positive: int, n: int, sensitivity: ClusteredShare, specificity: ClusteredShare, tail: float
) -> tuple[float, float]:
    """Centre and half of the width."""
    z = float(ndtri(tail))
    n_pos, n_neg = sensitivity.effective_n + 2, specificity.effective_n + 2
    se = (sensitivity.share * sensitivity.effective_n + 1) / n_pos
    sp = (specificity.share * specificity.effective_n + 1) / n_neg
    n_all = n + z * z
    q = (n_positive + z * z / 2) / n_all
    youden = se + sp - 1
    share = (q + sp - 1) / youden
    of_q, of_se, of_sp = q * (1 - q) / n_all, share**2 * se * (1 - se) / n_pos, (1 - share) ** 2 * sp * (1 - sp) / n_neg
    both = -2 * share * (1 - share) * _covariance(sensitivity, specificity)
    variance = max(of_q + of_se + of_sp + both, of_q)
    uncertain = of_se**2 / sensitivity.degrees + of_sp**2 / specificity.degrees
    quantile = float(stdtrit(variance**2 / uncertain, tail)) if uncertain > 0 else z
    shift = 2 * z * z * (share * se * (1 - se) / n_pos - (1 - share) * sp * (1 - sp) / n_neg)
    return share + shift, quantile * math.sqrt(variance) / youden


def _covariance(a: ClusteredShare, b: ClusteredShare) -> float:
    n = len(a.deviations)
    return float((a.deviations * b.deviations).sum()) * n / (n - 1)
