"""Calibration of a judge by human labels: its error rates, and a mean corrected for them. Pure, without numpy.

A pair is one audited exchange with the judge's score and a person's on the same scale, drawn from the audited ones by
chance with known probabilities. Intervals are approximate, for LEAST_PAIRS labels or more. For labels from other
traffic, see `benchmarks.lab.metrics.error_rates`.
"""

import math
from collections.abc import Callable, Sequence

import msgspec

from auditors.metrics.intervals import Interval, student_quantile, wilson_interval
from auditors.metrics.weighting import WeightedSums, add_weighted, hajek_mean, kish_effective_n, weighted_variance

LEAST_PAIRS = 30
"""Fewer labels give no correction."""
LEAST_CLUSTERS = 10
"""Exchanges that they must be of."""
_FEWEST_DEGREES = 2.0
"""Fewest degrees of freedom, even if a few clusters cause nearly all of the variance."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange that a judge and a person have scored; both in [0, 1] or in the metric's own unit."""

    judge: float
    person: float
    group: str = ""
    weight: float = 1.0
    """Inverse of the probability with which it was audited and chosen for a label."""
    cluster: str | None = None
    """Cluster of pairs that depend on each other, e.g. their exchange; None if this pair stands alone."""


class Corrected(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate corrected for a judge's errors; without a value it says why."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    method: str
    n_labels: int
    reason: str | None = None
    trust: float | None = None
    """Share of the judge's mean that is used, 0..1: 0 means that the labels alone say more."""


class ErrorRates(msgspec.Struct, frozen=True, kw_only=True):
    """A judge against people, over exchanges that are above a threshold or not."""

    n_positive: int
    """Exchanges above it according to people."""
    n_negative: int
    sensitivity: float | None
    """Share of the positive ones that the judge puts above it; None without any."""
    sensitivity_interval: Interval | None
    specificity: float | None
    """Share of the negative ones that the judge does not."""
    specificity_interval: Interval | None


def prediction_powered(judged: WeightedSums, pairs: Sequence[Pair], confidence_level: float = 0.95) -> Corrected:
    """Prediction-powered mean: trust * (mean of all judged) + mean of (person - trust * judge) over the labelled.

    Args: judged: sums of the judge's scores over all audited exchanges, the labelled ones (pairs) among them, all on
    one scale from 0 to 1, to which the result is clipped. Returns: the estimate, in the unit of the scores;
    `trust` makes the variance least, assuming that few of the judged are labelled. No value with fewer than LEAST_PAIRS
    labels or LEAST_CLUSTERS clusters. Source: Angelopoulos et al. 2023, arXiv:2301.09633; trust: Angelopoulos, Duchi &
    Zrnic 2023, arXiv:2311.01453. Deviation: weights, by Hajek means, whose variance is that of their linear terms
    summed by cluster; that of the mean of all judged ones is raised by as much as clusters raise it among the labelled.
    Student's quantile, with Satterthwaite's degrees of freedom.
    """
    method = "prediction-powered, student"
    if len(pairs) < LEAST_PAIRS or judged.n < LEAST_PAIRS:
        return Corrected(
            value=None,
            method=method,
            n_labels=len(pairs),
            reason=f"{len(pairs)} labels: {LEAST_PAIRS} or more are needed",
        )
    judge, person = _sums(pairs, lambda pair: pair.judge), _sums(pairs, lambda pair: pair.person)
    terms = _terms(pairs, hajek_mean(judge), hajek_mean(person))
    if len(terms) < LEAST_CLUSTERS:
        reason = f"{len(pairs)} labels, of {LEAST_CLUSTERS - 1} exchanges at most: {LEAST_CLUSTERS} or more are needed"
        return Corrected(value=None, method=method, n_labels=len(pairs), reason=reason)
    of_judge, alone = (
        _variance([judge_move for judge_move, _ in terms]),
        weighted_variance(judge) / kish_effective_n(judge),
    )
    raised = max(1.0, of_judge / alone) if alone > 0.0 else 1.0
    of_all = raised * weighted_variance(judged) / kish_effective_n(judged)
    covariance = (
        _variance([judge_move + other for judge_move, other in terms])
        - of_judge
        - _variance([other for _, other in terms])
    ) / 2
    whole = of_judge + of_all
    trust = min(1.0, max(0.0, covariance / whole)) if whole > 0.0 else 0.0
    rest = [other - trust * judge_move for judge_move, other in terms]
    value = trust * hajek_mean(judged) + hajek_mean(person) - trust * hajek_mean(judge)
    variance = trust * trust * of_all + _variance(rest)
    half = student_quantile((1 + confidence_level) / 2, _degrees(rest)) * math.sqrt(variance)
    lower, value, upper = (min(1.0, max(0.0, end)) for end in (value - half, value, value + half))
    return Corrected(value=value, lower=lower, upper=upper, method=method, n_labels=len(pairs), trust=trust)


def error_rates(pairs: Sequence[Pair], threshold: float, confidence_level: float = 0.95) -> ErrorRates:
    """Sensitivity and specificity of a judge over exchanges with one judgement each, as those of a stream are. A score
    above the threshold is positive. Weights play no part, since both rates are given what people said.
    """
    positive = [pair.judge > threshold for pair in pairs if pair.person > threshold]
    negative = [pair.judge <= threshold for pair in pairs if pair.person <= threshold]
    return ErrorRates(
        n_positive=len(positive),
        n_negative=len(negative),
        sensitivity=sum(positive) / len(positive) if positive else None,
        sensitivity_interval=wilson_interval(sum(positive), len(positive), confidence_level=confidence_level),
        specificity=sum(negative) / len(negative) if negative else None,
        specificity_interval=wilson_interval(sum(negative), len(negative), confidence_level=confidence_level),
    )


def _terms(pairs: Sequence[Pair], judge: float, person: float) -> list[tuple[float, float]]:
    """Return the amounts by which each cluster moves the means of judge and person, to first order."""
    total = sum(pair.weight for pair in pairs)
    by_cluster: dict[object, tuple[float, float]] = {}
    for number, pair in enumerate(pairs):
        key = number if pair.cluster is None else pair.cluster
        before, share = by_cluster.get(key, (0.0, 0.0)), pair.weight / total
        by_cluster[key] = before[0] + share * (pair.judge - judge), before[1] + share * (pair.person - person)
    return list(by_cluster.values())


def _variance(terms: Sequence[float]) -> float:
    """Return the variance of the sum of these terms of clusters, whose mean is 0."""
    n = len(terms)
    return sum(term * term for term in terms) * n / (n - 1)


def _degrees(terms: Sequence[float]) -> float:
    """Return the degrees of freedom of that variance (Satterthwaite 1946, its variance from the fourth moment)."""
    n = len(terms)
    squares = [term * term for term in terms]
    mean = sum(squares) / n
    spread = sum((square - mean) ** 2 for square in squares) / (n - 1) / n
    return n - 1.0 if spread == 0.0 else min(n - 1.0, max(_FEWEST_DEGREES, 2 * mean * mean / spread))


def _sums(pairs: Sequence[Pair], of: Callable[[Pair], float]) -> WeightedSums:
    sums = WeightedSums()
    for pair in pairs:
        sums = add_weighted(sums, of(pair), pair.weight)
    return sums
