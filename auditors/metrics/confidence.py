"""A confidence sequence for a mean: an interval that may be looked at after every value, as often as one likes.

Predictable plug-in empirical-Bernstein, for values sampled with known, unequal probabilities. Plain floats and a state
of fixed size: one step costs a few microseconds, and the gateway reads the state without numpy.

Construction. A value y in [0, 1] that was sampled with probability p enters with weight w = p_min / p in (0, 1], where
p_min is known beforehand. In the sampled stream E[w (y - m)] = 0 holds exactly at m = the mean over all that could have
been sampled, so the bounded score u(m) = w (y - m), which lies in [-m, 1 - m], is what the theorem is applied to, for
every m at once. Its prediction a - m b uses the running means a of w y and b of w, so the accumulated deviations are a
quadratic in m with three sums, and the bounds are roots of two quadratics. With equal probabilities w = b = 1 and the
bounds are those of the theorem itself.

While the mean moves, the sequence covers the average of the conditional means weighted by bet and weight, which leans
to the past (bets fall like 1 / sqrt(t log t)). It is therefore never intersected with its past: a running intersection
would be narrower, and wrong as soon as the mean has moved.
"""

import math

import msgspec

from auditors.metrics.finite import require_finite
from auditors.metrics.intervals import Interval

LARGEST_BET = 0.75
"""Cap of the bets; the source recommends 1/2 or 3/4."""
BET_LEVEL = 0.95
"""Confidence level that the bets are tuned for. They are predictable, so the bounds hold at every level."""
EVERY_VALUE_UNTIL = 32
"""From here on the bet is renewed with every BET_PERIOD-th value only: it hardly moves, and costs most of a step."""
BET_PERIOD = 8

_LOG_TERM = math.log(2.0 / (1.0 - BET_LEVEL))


class ConfidenceSums(msgspec.Struct, frozen=True, array_like=True):
    """Everything a confidence sequence remembers of its n values; raises NotFiniteError for what is not finite."""

    n: int = 0
    w: float = 0.0
    """Sum of w."""
    wy: float = 0.0
    """Sum of w y."""
    ww: float = 0.0
    """Sum of w^2; this and the next two give the spread, which sets the bet."""
    wwy: float = 0.0
    """Sum of w^2 y."""
    wwyy: float = 0.0
    """Sum of (w y)^2."""
    bet_w: float = 0.0
    """Sum of bet * w."""
    bet_wy: float = 0.0
    """Sum of bet * w y."""
    aa: float = 0.0
    """Sum of phi * A^2 with A = w y - a, B = w - b and phi = -log(1 - bet) - bet."""
    ab: float = 0.0
    """Sum of phi * A B."""
    bb: float = 0.0
    """Sum of phi * B^2."""
    bet: float = LARGEST_BET
    """Of the next value."""

    def __post_init__(self) -> None:
        spread = self.w * self.w + self.wy + self.ww + self.wwy + self.wwyy
        bets = self.bet_w * self.bet_w + self.bet_wy + self.aa + self.ab + self.bb * self.bb + self.bet
        require_finite(self, spread + bets)


def add(sums: ConfidenceSums, y: float, weight: float = 1.0) -> ConfidenceSums:
    """The sums with one more value.

    Args:
        sums: of the values before it.
        y: value in [0, 1].
        weight: p_min / p in (0, 1], p_min being known before this value.

    Raises: ValueError if y or weight is out of range.
    """
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
    """min(3/4, sqrt(2 log(2 / alpha) / (V t log(1 + t)))), t = n + 1, from the sums of n values.

    V is the mean squared deviation of the scores w (y - m) at the mean m so far, with one prior value: 1/4 of the mean
    weight squared, the largest variance there is.
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
    """Both bounds of the mean; they hold at all times at once with probability `confidence_level` or more.

    Args:
        sums: of all values so far.
        confidence_level: two-sided, in (0, 1).

    Returns: in [0, 1]; exactly [0, 1] before the first value. Needs no independence: only that each value has the same
        mean given everything before it. Should that fail so badly that the bounds cross, they meet in the middle.
    Raises: ValueError if confidence_level is outside (0, 1).
    Source: Waudby-Smith & Ramdas 2023, arXiv:2010.09686, theorem 2 (bets: equation 26). Deviation: none for equal
        weights but for the bets, which any rule may choose that looks back only: see `next_bet` and BET_PERIOD.
        Unequal weights as in the module's docstring.
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
