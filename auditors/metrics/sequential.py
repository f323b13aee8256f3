"""Bounds for streams of values in [0, 1]: a fixed-time interval, and evidence of change with a known false-alarm rate.

Plain floats only: one step costs a few microseconds, and the gateway reads the state without numpy.
"""

import math
from collections.abc import Sequence

from auditors.metrics.intervals import Interval

BETS: tuple[float, ...] = tuple(0.02 * 45.0 ** (i / 7) for i in range(8))
"""Fixed mixture of bets: eight values from 0.02 to 0.9 in geometric steps."""


def empirical_bernstein_interval(mean: float, variance: float, n: float, confidence_level: float) -> Interval:
    """Empirical-Bernstein interval: mean +- (sqrt(2 V ln(4/a) / n) + 7 ln(4/a) / (3 (n - 1))), a = 1 - level.

    Args:
        mean: sample mean of values in [0, 1].
        variance: their sample variance V (n - 1 form); NaN when undefined.
        n: number of values, or an effective number (real, >= 0).
        confidence_level: two-sided, in (0, 1).

    Returns: bounds clipped to [0, 1]; exactly [0, 1] when n <= 1 or V is NaN (nothing is known, not "no spread").
        Holds at one fixed n for independent values with a common mean; it is not anytime-valid. With an effective
        n from unequal weights it is an approximation.
    Raises: ValueError if confidence_level is outside (0, 1) or V is negative.
    Source: Maurer & Pontil 2009, arXiv:0907.3740, theorem 4, a/2 spent on each side. Deviation: none for integer n.
    """
    if not 0.0 < confidence_level < 1.0:
        raise ValueError(f"confidence level {confidence_level} is outside (0, 1)")
    if variance < 0.0:
        raise ValueError(f"variance {variance} is negative")
    if n <= 1.0 or math.isnan(variance) or math.isnan(mean):
        return Interval(0.0, 1.0)
    log_term = math.log(4.0 / (1.0 - confidence_level))
    width = math.sqrt(2.0 * variance * log_term / n) + 7.0 * log_term / (3.0 * (n - 1.0))
    return Interval(max(0.0, mean - width), min(1.0, mean + width))


def shiryaev_roberts_step(
    evidence: Sequence[float], y: float, limit: float, weight: float = 1.0, starts: int = 1
) -> list[float]:
    """One step of the Shiryaev-Roberts e-detector: R <- (starts + R) * L with L = 1 + bet * weight * (y / limit - 1).

    Args:
        evidence: (len(BETS),) values of log(1 + R), one per bet; zeros at the start (R = 0).
        y: new value in [0, 1].
        limit: upper limit m of the mean under the null hypothesis, in (0, 1].
        weight: p_min / p_i in (0, 1] for a value sampled with probability p_i >= p_min.
        starts: audits that the value is made of, all of them later than the value before it. A test begins with each
            of them, so that run lengths count audits: the mean of R grows by `starts` at most.

    Returns: (len(BETS),) the new log(1 + R). L >= 0.1, so the logarithm is always finite, and the log scale
        cannot overflow.
    Raises: ValueError if y, limit, weight or starts is out of range.
    Source: Shin, Ramdas & Rinaldo 2023, arXiv:2203.03532 (e-detectors). Deviation: the bets are a fixed mixture.
    """
    if not (0.0 <= y <= 1.0 and 0.0 < limit <= 1.0 and 0.0 < weight <= 1.0):
        raise ValueError(f"y {y} must be in [0, 1], limit {limit} and weight {weight} in (0, 1]")
    if starts < 1:
        raise ValueError(f"a value is made of one audit or more, not of {starts}")
    gain = weight * (y / limit - 1.0)
    begun = evidence if starts == 1 else [s + math.log1p((starts - 1) * math.exp(-s)) for s in evidence]
    return [_log1p_exp(s + math.log1p(bet * gain)) for s, bet in zip(begun, BETS, strict=True)]


def log_mean_evidence(*sides: Sequence[float]) -> float:
    """Logarithm of the mean of R over all bets of all sides, from their log(1 + R).

    Returns: dimensionless; -inf at the start, when every R is 0. An alarm at log(A) has a mean run length of at
        least A under the null hypothesis, because mean(R) - n is a supermartingale; independence is not needed.
    Source: Shin, Ramdas & Rinaldo 2023, arXiv:2203.03532, theorem 2.4. Deviation: none.
    """
    logs = [_log_expm1(s) for side in sides for s in side]
    return log_sum(logs) - math.log(len(logs))


def log_sum(logs: Sequence[float]) -> float:
    """log(sum of e^x) without overflow; -inf when every x is -inf, or there is none."""
    top = max(logs, default=-math.inf)
    if top == -math.inf:
        return top
    return top + math.log(sum(math.exp(value - top) for value in logs))


def _log1p_exp(x: float) -> float:
    """log(1 + e^x) without overflow."""
    return x + math.log1p(math.exp(-x)) if x > 0.0 else math.log1p(math.exp(x))


def _log_expm1(s: float) -> float:
    """log(e^s - 1) for s >= 0; -inf at 0."""
    if s <= 0.0:
        return -math.inf
    return s + math.log(-math.expm1(-s))
