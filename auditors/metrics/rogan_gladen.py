"""A share of judgements corrected for a judge's error rates, in plain floats: the gateway needs it without numpy."""

import math
from statistics import NormalDist
from typing import NamedTuple

import msgspec

from auditors.metrics.intervals import Interval
from auditors.metrics.student import student_quantile

_FEWEST_DEGREES = 2.0


class KnownShare(msgspec.Struct, frozen=True, kw_only=True):
    """A share and how well it is known."""

    value: float
    """In [0, 1]."""
    effective_n: float
    """Independent trials that would say as much."""
    degrees: float | None = None
    """Of freedom of its variance; None where that follows from the share itself."""


class KnownRates(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's two error rates as a correction needs them; where `reason` is not None they correct nothing."""

    n_positive: int
    """Labels by which people put a judgement above the threshold."""
    n_negative: int
    sensitivity: KnownShare | None = None
    specificity: KnownShare | None = None
    covariance: float = 0.0
    """Of the two between clusters."""
    reason: str | None = None


class CorrectedShare(NamedTuple):
    """A share of judgements above a threshold; without a value `reason` says why."""

    value: float | None
    interval: Interval | None
    reason: str | None = None


def corrected_share(judged: KnownShare, rates: KnownRates, *, confidence_level: float = 0.95) -> CorrectedShare:
    """(q + sp - 1) / (se + sp - 1), with the uncertainty of all three.

    Args:
        judged: the share q that the judge puts above the threshold, none of it labelled.
        rates: from labels.
        confidence_level: two-sided, in (0, 1).

    Returns: in [0, 1]; no value for rates that correct nothing.
    Source: Rogan & Gladen 1978, doi:10.1093/oxfordjournals.aje.a112510; interval: Lang & Reiczigel 2014,
        doi:10.1016/j.prevetmed.2013.09.015. Deviation: what comes in clusters counts as many as its effective number,
        the covariance of both rates is in the variance, and the quantile is Student's with the degrees of all three
        (Satterthwaite 1946). With clusters of one it is theirs.
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
    """Centre and half of the width."""
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
    uncertain = sum(of**2 / known.degrees for of, known in parts if known.degrees is not None)
    quantile = student_quantile(tail, max(_FEWEST_DEGREES, variance**2 / uncertain)) if uncertain > 0 else z
    shift = 2 * z * z * (share * se * (1 - se) / n_pos - (1 - share) * sp * (1 - sp) / n_neg)
    return share + shift, quantile * math.sqrt(variance) / youden
