"""Intervals in plain floats, which the gateway reads without numpy: Wilson, Student's quantile, Rogan and Gladen."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import msgspec


@dataclass(frozen=True)
class Interval:
    """Lower and upper end, in the unit of the number they belong to; lower <= upper."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Agreement:
    """One number of agreement; without a value or an interval `reason` says why."""

    name: str
    value: float | None
    interval: Interval | None
    n_items: int
    """Items with two ratings or more."""
    n_clusters: int
    reason: str | None = None


class NotFiniteError(ValueError):
    """A number that is kept would be infinite, or not a number."""


def require_finite(owner: object, total: float) -> None:
    """Raise NotFiniteError unless `total` is finite: a sum or product that is not if a number of its owner is not."""
    if not math.isfinite(total):
        raise NotFiniteError(f"{type(owner).__name__} would hold a number that is not finite: {owner}")


def wilson_interval(n_successes: float, n_trials: float, *, confidence_level: float = 0.95) -> Interval | None:
    """Wilson 1927, doi:10.1080/01621459.1927.10502953; None without trials, ValueError if out of range."""
    if not 0 <= n_successes <= n_trials:
        raise ValueError(f"a share needs 0 <= numerator <= denominator, not {n_successes} of {n_trials}")
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must lie strictly between 0 and 1, not {confidence_level}")
    if n_trials == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence_level) / 2)
    share = n_successes / n_trials
    shrink = 1 + z * z / n_trials
    centre = (share + z * z / (2 * n_trials)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n_trials + z * z / (4 * n_trials * n_trials))
    lower = 0.0 if n_successes == 0 else max(0.0, centre - half)
    upper = 1.0 if n_successes == n_trials else min(1.0, centre + half)
    return Interval(lower, upper)


def student_quantile(probability: float, degrees: float) -> float:
    """Student's t quantile (Abramowitz and Stegun 1964, 26.7.5), from 2 degrees; within 0.8 % at 2, 0.02 % at 5."""
    if degrees < 2:
        raise ValueError(f"the expansion holds from 2 degrees of freedom on, not {degrees}")
    z = NormalDist().inv_cdf(probability)
    square = z * z
    terms = (
        z * (square + 1) / 4,
        z * ((5 * square + 16) * square + 3) / 96,
        z * (((3 * square + 19) * square + 17) * square - 15) / 384,
        z * ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))


# Shares of judgements, corrected for a judge's error rates.


_FEWEST_DEGREES = 2.0


class KnownShare(msgspec.Struct, frozen=True, kw_only=True):
    """A share and how well it is known."""

    value: float
    """Value in [0, 1]."""
    effective_n: float
    """Independent trials that would say as much."""
    degrees: float | None = None
    """Degrees of freedom of its variance; None if the variance follows from the share itself."""


class KnownRates(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's two error rates as a correction needs them; where `reason` is not None they correct nothing."""

    n_positive: int
    """Labels by which people put a judgement above the threshold."""
    n_negative: int
    sensitivity: KnownShare | None = None
    specificity: KnownShare | None = None
    covariance: float = 0.0
    """Covariance of the two rates between clusters."""
    reason: str | None = None


class CorrectedShare(NamedTuple):
    """A share of judgements above a threshold; without a value `reason` says why."""

    value: float | None
    interval: Interval | None
    reason: str | None = None


def corrected_share(judged: KnownShare, rates: KnownRates, *, confidence_level: float = 0.95) -> CorrectedShare:
    """(q + sp - 1) / (se + sp - 1) in [0, 1], q the judge's share, none of it labelled; no value if rates correct
    nothing. Source: Rogan & Gladen 1978, doi:10.1093/oxfordjournals.aje.a112510; interval: Lang & Reiczigel 2014,
    doi:10.1016/j.prevetmed.2013.09.015, by effective numbers of clusters, with the rates' covariance and Student's t.
    """
    se, sp = rates.sensitivity, rates.specificity
    if rates.reason is not None or se is None or sp is None:
        return CorrectedShare(None, None, rates.reason or "no error rates are known")
    share = (judged.value + sp.value - 1) / (se.value + sp.value - 1)
    centre, half = _lang_reiczigel(judged, se, sp, rates.covariance, (1 + confidence_level) / 2)
    ends = Interval(min(max(0.0, centre - half), 1.0), max(min(1.0, centre + half), 0.0))
    return CorrectedShare(min(1.0, max(0.0, share)), ends)


def _lang_reiczigel(
    judged: KnownShare, sensitivity: KnownShare, specificity: KnownShare, covariance: float, tail: float
) -> tuple[float, float]:
    z = NormalDist().inv_cdf(tail)
    n_pos, n_neg, n_all = sensitivity.effective_n + 2, specificity.effective_n + 2, judged.effective_n + z * z
    se = (sensitivity.value * sensitivity.effective_n + 1) / n_pos
    sp = (specificity.value * specificity.effective_n + 1) / n_neg
    q = (judged.value * judged.effective_n + z * z / 2) / n_all
    youden = se + sp - 1
    share = (q + sp - 1) / youden
    of_q, of_se, of_sp = q * (1 - q) / n_all, share**2 * se * (1 - se) / n_pos, (1 - share) ** 2 * sp * (1 - sp) / n_neg
    both = -2 * share * (1 - share) * covariance
    variance = max(of_q + of_se + of_sp + both, of_q)
    parts = ((of_q, judged), (of_se, sensitivity), (of_sp, specificity))
    uncertain = sum(of**2 / rate.degrees for of, rate in parts if rate.degrees is not None)
    quantile = student_quantile(tail, max(_FEWEST_DEGREES, variance**2 / uncertain)) if uncertain > 0 else z
    shift = 2 * z * z * (share * se * (1 - se) / n_pos - (1 - share) * sp * (1 - sp) / n_neg)
    return share + shift, quantile * math.sqrt(variance) / youden
