"""Bounds and evidence for streams of values in [0, 1], in plain floats: the gateway reads the states without numpy.
The confidence sequence is the predictable plug-in empirical-Bernstein sequence, holding however often it is read. A
value y sampled with probability p has weight w = p_min / p, p_min known beforehand. E[w (y - m)] = 0 at the mean m, so
the theorem is applied to w (y - m) in [-m, 1 - m] for every m at once; the prediction a - m b uses the running means a
of w y and b of w, so bounds are roots of quadratics. A moving mean makes it cover a weighted average of the past (bets
fall like 1 / sqrt(t log t)), so it is never intersected with its past.
The detectable change is approximate. Evidence against "the mean is `limit` at most" grows by E[log(1 + bet * (y / limit
- 1))] a value, so a detector needs log_threshold / growth values, usually somewhat more. Values are taken to be 0 or 1
with probability `spread`, else the mean, which has the variance that was seen.
"""

import math
from collections.abc import Sequence

import msgspec

from auditors.metrics.intervals import Interval, require_finite

BETS: tuple[float, ...] = tuple(0.02 * 45.0 ** (i / 7) for i in range(8))
"""Fixed mixture of bets: eight values from 0.02 to 0.9 in geometric steps."""


def empirical_bernstein_interval(mean: float, variance: float, n: float, confidence_level: float) -> Interval:
    """Mean +- (sqrt(2 V ln(4/a) / n) + 7 ln(4/a) / (3 (n - 1))), clipped to [0, 1]; all of it when n <= 1 or V is NaN.
    V: variance, n - 1 form; holds at one fixed n, approximately for an effective n, and is not anytime-valid. Raises
    ValueError for a level or V out of range. Source: Maurer & Pontil 2009, arXiv:0907.3740, theorem 4, a/2 a side.
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
    """R <- (starts + R) * L with L = 1 + bet * weight * (y / limit - 1) >= 0.1; `evidence` is log(1 + R) of each of
    BETS. y in [0, 1]; limit: of the mean, in (0, 1]; weight: p_min / p_i in (0, 1]; starts: audits that the value is
    made of, each beginning a test, so that run lengths count audits. Raises ValueError for a value out of range.
    Source: Shin, Ramdas & Rinaldo 2023, arXiv:2203.03532; the bets are a fixed mixture.
    """
    if not (0.0 <= y <= 1.0 and 0.0 < limit <= 1.0 and 0.0 < weight <= 1.0):
        raise ValueError(f"y {y} must be in [0, 1], limit {limit} and weight {weight} in (0, 1]")
    if starts < 1:
        raise ValueError(f"a value is made of one audit or more, not of {starts}")
    gain = weight * (y / limit - 1.0)
    begun = evidence if starts == 1 else [s + math.log1p((starts - 1) * math.exp(-s)) for s in evidence]
    return [_log1p_exp(s + math.log1p(bet * gain)) for s, bet in zip(begun, BETS, strict=True)]


def log_mean_evidence(*sides: Sequence[float]) -> float:
    """Log of the mean of R over bets and sides; -inf at the start. Theorem 2.4 of arXiv:2203.03532: an alarm at log(A)
    has a mean run length of at least A under the null hypothesis, without independence.
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
    return x + math.log1p(math.exp(-x)) if x > 0.0 else math.log1p(math.exp(x))


def _log_expm1(s: float) -> float:
    """log(e^s - 1) for s >= 0; -inf at 0."""
    if s <= 0.0:
        return -math.inf
    return s + math.log(-math.expm1(-s))


# A confidence sequence for a mean.


LARGEST_BET = 0.75
"""Cap of the bets; the source recommends 1/2 or 3/4."""
BET_LEVEL = 0.95
"""Confidence level that the bets are tuned for. They are predictable, so the bounds hold at every level."""
EVERY_VALUE_UNTIL = 32
"""The bet is renewed with each value up to here, later with each BET_PERIOD-th: it hardly moves and costs most."""
BET_PERIOD = 8

_LOG_TERM = math.log(2.0 / (1.0 - BET_LEVEL))


class ConfidenceSums(msgspec.Struct, frozen=True, array_like=True):
    """Everything a confidence sequence remembers of its n values; raises NotFiniteError for what is not finite."""

    n: int = 0
    w: float = 0.0
    wy: float = 0.0
    ww: float = 0.0
    """Sum of w^2; this and the next two give the spread, which sets the bet."""
    wwy: float = 0.0
    """Sum of w^2 y."""
    wwyy: float = 0.0
    """Sum of (w y)^2."""
    bet_w: float = 0.0
    bet_wy: float = 0.0
    aa: float = 0.0
    """Sum of phi * A^2 with A = w y - a, B = w - b and phi = -log(1 - bet) - bet."""
    ab: float = 0.0
    """Sum of phi * A B."""
    bb: float = 0.0
    """Sum of phi * B^2."""
    bet: float = LARGEST_BET
    """Bet for the next value."""

    def __post_init__(self) -> None:
        spread = self.w * self.w + self.wy + self.ww + self.wwy + self.wwyy
        bets = self.bet_w * self.bet_w + self.bet_wy + self.aa + self.ab + self.bb * self.bb + self.bet
        require_finite(self, spread + bets)


def add(sums: ConfidenceSums, y: float, weight: float = 1.0) -> ConfidenceSums:
    """The sums with one more value y in [0, 1] of weight p_min / p in (0, 1]; raises ValueError for others."""
    if not (0.0 <= y <= 1.0 and 0.0 < weight <= 1.0):
        raise ValueError(f"y {y} must be in [0, 1] and weight {weight} in (0, 1]")
    t, bet, value = sums.n + 1, sums.bet, weight * y
    off_a, off_b = value - (0.5 + sums.wy) / t, weight - (1.0 + sums.w) / t
    phi = -math.log1p(-bet) - bet
    w, wy = sums.w + weight, sums.wy + value
    ww, wwy, wwyy = sums.ww + weight * weight, sums.wwy + weight * value, sums.wwyy + value * value
    if t < EVERY_VALUE_UNTIL or t % BET_PERIOD == 0:
        bet = next_bet(t, w, wy, ww, wwy, wwyy)
    return ConfidenceSums(
        t,
        w,
        wy,
        ww,
        wwy,
        wwyy,
        sums.bet_w + sums.bet * weight,
        sums.bet_wy + sums.bet * value,
        sums.aa + phi * off_a * off_a,
        sums.ab + phi * off_a * off_b,
        sums.bb + phi * off_b * off_b,
        bet,
    )


def next_bet(n: int, w: float, wy: float, ww: float, wwy: float, wwyy: float) -> float:
    """min(3/4, sqrt(2 log(2 / alpha) / (V t log(1 + t)))), t = n + 1. V: mean squared deviation of w (y - m) at the
    mean m so far, with a prior value of 1/4 of the mean weight squared, the largest variance there is.
    """
    mean, mean_weight = (0.5 + wy) / (1.0 + w), (1.0 + w) / (n + 1)
    spread = 0.25 * mean_weight * mean_weight + max(0.0, wwyy - mean * (2.0 * wwy - mean * ww))
    return min(LARGEST_BET, math.sqrt(2.0 * _LOG_TERM / (spread * math.log(n + 2))))


def lower_bound(sums: ConfidenceSums, confidence_level: float = 0.95) -> float:
    """Below the mean at all times at once with probability 1 - (1 - confidence_level) / 2 or more; see `interval`."""
    constant = _log_term(confidence_level) + sums.aa - sums.bet_wy
    return min(1.0, _positive_root(sums.bb, sums.bet_w - 2.0 * sums.ab, constant))


def upper_bound(sums: ConfidenceSums, confidence_level: float = 0.95) -> float:
    """Above the mean at all times at once with probability 1 - (1 - confidence_level) / 2 or more; see `interval`."""
    constant = _log_term(confidence_level) + sums.aa + sums.bet_wy - (sums.bet_w + 2.0 * sums.ab) + sums.bb
    return max(0.0, 1.0 - _positive_root(sums.bb, sums.bet_w + 2.0 * sums.ab - 2.0 * sums.bb, constant))


def interval(sums: ConfidenceSums, confidence_level: float = 0.95) -> Interval:
    """Two-sided bounds that hold at all times at once; [0, 1] before the first value. Bounds that cross meet in the
    middle. Needs only that each value has the same mean given the past. Raises ValueError for a level outside (0, 1).
    Source: Waudby-Smith & Ramdas 2023, arXiv:2010.09686, theorem 2 (bets: equation 26, see `next_bet` and BET_PERIOD).
    """
    lower, upper = lower_bound(sums, confidence_level), upper_bound(sums, confidence_level)
    return Interval(lower, upper) if lower <= upper else Interval((lower + upper) / 2, (lower + upper) / 2)


def _positive_root(square: float, linear: float, constant: float) -> float:
    """Smallest m >= 0 from which on square m^2 + linear m + constant >= 0, with square >= 0; inf if there is none."""
    if constant >= 0.0:
        return 0.0
    denominator = linear + math.sqrt(linear * linear - 4.0 * square * constant)
    return -2.0 * constant / denominator if denominator > 0.0 else math.inf


def _log_term(confidence_level: float) -> float:
    if not 0.0 < confidence_level < 1.0:
        raise ValueError(f"confidence level {confidence_level} is outside (0, 1)")
    return math.log(2.0 / (1.0 - confidence_level))


# The change that an e-detector finds within a given number of values.


STEPS = 14
"""Halvings of the interval in which the smallest change lies: 1 / 2^14 of the scale."""


def spread_of(mean: float, variance: float | None) -> float:
    """Variance in parts of the largest that values in [0, 1] with this mean can have: 0..1; 1 where it is unknown."""
    largest = mean * (1.0 - mean)
    return min(1.0, variance / largest) if largest > 0.0 and variance is not None else 1.0


def growth(limit: float, mean: float, spread: float) -> float:
    """Log evidence that a value adds on average, by the best bet; 0 for a `mean` within `limit`."""
    excess = mean / limit - 1.0
    if excess <= 0.0:
        return 0.0
    high = 1.0 / limit - 1.0
    square = spread * (mean * high * high + 1.0 - mean) + (1.0 - spread) * excess * excess
    nearest = round(math.log(min(BETS[-1], max(BETS[0], excess / square)) / BETS[0]) / math.log(BETS[1] / BETS[0]))
    best = 0.0
    for bet in BETS[max(0, nearest - 1) : nearest + 2]:
        wild = mean * math.log1p(bet * high) + (1.0 - mean) * math.log1p(-bet)
        best = max(best, spread * wild + (1.0 - spread) * math.log1p(bet * excess))
    return best


def smallest_rise(limit: float, mean: float, spread: float, log_threshold: float, values: float) -> float | None:
    """Smallest rise that `limit`'s detector finds within so many values on average; None if there is none."""
    needed = log_threshold / values
    if growth(limit, 1.0, spread) < needed:
        return None
    low, high = min(limit, 1.0), 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if growth(limit, middle, spread) >= needed else (middle, high)
    return max(0.0, high - mean)
