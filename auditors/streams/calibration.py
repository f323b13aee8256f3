"""Calibration of a judge by human labels: its error rates by group, and estimates corrected for them. Pure, no I/O.

A pair is one audited exchange with the judge's score and a person's on the same scale. The labelled exchanges must be
drawn from the audited ones by chance, with known probabilities where these differ. Then:

- `prediction_powered` corrects a mean with the mean difference between person and judge. It assumes nothing about the
  judge; a bad judge only makes the interval as wide as the labels alone would. For labels from the same traffic.
- `rogan_gladen` corrects the share of exchanges above a threshold by sensitivity and specificity. For labels from
  other traffic, in which that share differs: the judge's two error rates must then be the same in both, which is an
  assumption. Where it may fail, label the traffic at hand.

Intervals are approximate (normal), for LEAST_PAIRS labels or more; below that there is a reason and no number.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import NormalDist

import msgspec

from auditors.metrics.intervals import Interval
from auditors.metrics.shares import wilson_interval
from auditors.metrics.weighting import WeightedSums, add_weighted, hajek_mean, kish_effective_n, weighted_variance

LEAST_PAIRS = 30
"""Fewer labels give no correction."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange that a judge and a person have scored; both in [0, 1] or in the metric's own unit."""

    judge: float
    person: float
    group: str = ""
    weight: float = 1.0
    """Inverse of the probability with which it was audited and chosen for a label."""


class Corrected(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate corrected for a judge's errors; without a value it says why."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    method: str
    n_labels: int
    reason: str | None = None
    trust: float | None = None
    """How much of the judge's mean is used, 0..1: 0 means that the labels alone say more."""


class ErrorRates(msgspec.Struct, frozen=True, kw_only=True):
    """A judge against people, over exchanges that are above a threshold or not."""

    group: str
    n_positive: int
    """Exchanges above it according to people."""
    n_negative: int
    sensitivity: float | None
    """Share of the positive ones that the judge puts above it; None without any."""
    sensitivity_interval: Interval | None
    specificity: float | None
    """Share of the negative ones that the judge does not."""
    specificity_interval: Interval | None


def prediction_powered(
    judged: WeightedSums, pairs: Sequence[Pair], confidence_level: float = 0.95, *, low: float = 0.0, high: float = 1.0
) -> Corrected:
    """Prediction-powered mean: trust * (mean of all judged) + mean of (person - trust * judge) over the labelled.

    Args:
        judged: sums of the judge's scores over all audited exchanges, the labelled ones among them.
        pairs: the labelled ones, on the same scale.
        confidence_level: two-sided, in (0, 1).
        low: smallest value there is.
        high: largest one; the result is clipped to them.

    Returns: the estimate, in the unit of the scores. `trust` is chosen to make the variance least; that the labelled
        are few among the judged is assumed, and where they are many the interval is a little too wide.
    Source: Angelopoulos et al. 2023, arXiv:2301.09633; trust: Angelopoulos, Duchi & Zrnic 2023, arXiv:2311.01453.
        Deviation: weights, by Hajek means and Kish's effective numbers.
    """
    method = "prediction-powered, normal"
    if len(pairs) < LEAST_PAIRS or judged.n < LEAST_PAIRS:
        return Corrected(value=None, method=method, n_labels=len(pairs), reason=_too_few(len(pairs)))
    judge, person = _sums(pairs, lambda one: one.judge), _sums(pairs, lambda one: one.person)
    both = _sums(pairs, lambda one: one.judge + one.person)
    n_labels, n_judged = kish_effective_n(judge), kish_effective_n(judged)
    spread, spread_all = weighted_variance(judge), weighted_variance(judged)
    covariance = (weighted_variance(both) - spread - weighted_variance(person)) / 2.0
    whole = spread / n_labels + spread_all / n_judged
    trust = min(1.0, max(0.0, covariance / n_labels / whole)) if whole > 0.0 else 0.0
    rest = _sums(pairs, lambda one: one.person - trust * one.judge)
    value = trust * hajek_mean(judged) + hajek_mean(rest)
    error = math.sqrt(trust * trust * spread_all / n_judged + weighted_variance(rest) / n_labels)
    half = _quantile(confidence_level) * error
    lower, value, upper = (min(high, max(low, one)) for one in (value - half, value, value + half))
    return Corrected(value=value, lower=lower, upper=upper, method=method, n_labels=len(pairs), trust=trust)


def error_rates(pairs: Iterable[Pair], threshold: float, confidence_level: float = 0.95) -> list[ErrorRates]:
    """Sensitivity and specificity of a judge, over all (group "") and by group, in the order of their names.

    Args:
        pairs: labelled exchanges; weights play no part, since both rates are given what people said.
        threshold: a score above it is positive.
        confidence_level: of Wilson's intervals.
    """
    by_group: dict[str, list[Pair]] = {"": []}
    for one in pairs:
        by_group[""].append(one)
        if one.group:
            by_group.setdefault(one.group, []).append(one)
    return [_rates(group, found, threshold, confidence_level) for group, found in sorted(by_group.items())]


def rogan_gladen(
    n_positive: int, n: int, pairs: Sequence[Pair], threshold: float, confidence_level: float = 0.95
) -> Corrected:
    """Share of exchanges above a threshold, corrected for the judge's errors: (q + sp - 1) / (se + sp - 1).

    Args:
        n_positive: exchanges that the judge puts above the threshold.
        n: all exchanges it scored.
        pairs: labelled exchanges, not among those; their own share may be another.
        threshold: a score above it is positive.
        confidence_level: two-sided, in (0, 1).

    Returns: in [0, 1]; no value with fewer than LEAST_PAIRS labels, labels of one kind only, or a judge whose
        sensitivity and specificity, each with its interval, could be no better than chance.
    Source: Rogan & Gladen 1978, doi:10.1093/oxfordjournals.aje.a112510; interval: Lang & Reiczigel 2014,
        doi:10.1016/j.prevetmed.2013.09.015. Deviation: none.
    """
    method = "rogan-gladen, lang-reiczigel"
    [rates] = error_rates([msgspec.structs.replace(one, group="") for one in pairs], threshold, confidence_level)
    if not 0 <= n_positive <= n or n < 1:
        raise ValueError(f"a share needs 0 <= positive <= n and an n of 1 or more, not {n_positive} of {n}")
    if rates.sensitivity is None or rates.specificity is None or len(pairs) < LEAST_PAIRS:
        reason = _too_few(len(pairs), rates.n_positive, rates.n_negative)
        return Corrected(value=None, method=method, n_labels=len(pairs), reason=reason)
    ends = rates.sensitivity_interval, rates.specificity_interval
    if sum(end.lower for end in ends if end is not None) <= 1.0:
        reason = f"the judge may be no better than chance: sensitivity {rates.sensitivity:.2f}, "
        reason += f"specificity {rates.specificity:.2f} over {len(pairs)} labels"
        return Corrected(value=None, method=method, n_labels=len(pairs), reason=reason)
    share = _corrected_share(n_positive / n, rates.sensitivity, rates.specificity)
    centre, half = _lang_reiczigel(n_positive, n, rates, _quantile(confidence_level))
    lower, upper = min(max(0.0, centre - half), 1.0), max(min(1.0, centre + half), 0.0)
    return Corrected(value=min(1.0, max(0.0, share)), lower=lower, upper=upper, method=method, n_labels=len(pairs))


def _lang_reiczigel(n_positive: int, n: int, rates: ErrorRates, z: float) -> tuple[float, float]:
    n_pos, n_neg = rates.n_positive + 2, rates.n_negative + 2
    se = ((rates.sensitivity or 0.0) * rates.n_positive + 1) / n_pos
    sp = ((rates.specificity or 0.0) * rates.n_negative + 1) / n_neg
    n_all = n + z * z
    q = (n_positive + z * z / 2) / n_all
    youden = se + sp - 1
    share = (q + sp - 1) / youden
    shift = 2 * z * z * (share * se * (1 - se) / n_pos - (1 - share) * sp * (1 - sp) / n_neg)
    variance = q * (1 - q) / n_all + share**2 * se * (1 - se) / n_pos + (1 - share) ** 2 * sp * (1 - sp) / n_neg
    return share + shift, z * math.sqrt(variance) / youden


def _corrected_share(q: float, sensitivity: float, specificity: float) -> float:
    return (q + specificity - 1) / (sensitivity + specificity - 1)


def _rates(group: str, pairs: Sequence[Pair], threshold: float, confidence_level: float) -> ErrorRates:
    positive = [one.judge > threshold for one in pairs if one.person > threshold]
    negative = [one.judge <= threshold for one in pairs if one.person <= threshold]
    return ErrorRates(
        group=group,
        n_positive=len(positive),
        n_negative=len(negative),
        sensitivity=sum(positive) / len(positive) if positive else None,
        sensitivity_interval=wilson_interval(sum(positive), len(positive), confidence_level=confidence_level),
        specificity=sum(negative) / len(negative) if negative else None,
        specificity_interval=wilson_interval(sum(negative), len(negative), confidence_level=confidence_level),
    )


def _sums(pairs: Sequence[Pair], of: Callable[[Pair], float]) -> WeightedSums:
    sums = WeightedSums()
    for one in pairs:
        sums = add_weighted(sums, of(one), one.weight)
    return sums


def _quantile(confidence_level: float) -> float:
    return NormalDist().inv_cdf((1 + confidence_level) / 2)


def _too_few(n: int, n_positive: int | None = None, n_negative: int | None = None) -> str:
    kinds = "" if n_positive is None else f", {n_positive} of them positive and {n_negative} negative"
    return f"{n} labels{kinds}: {LEAST_PAIRS} or more are needed" + (", of both kinds" if kinds else "")
