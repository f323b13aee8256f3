"""How large a change an e-detector finds within a given number of values: an approximation, for people to plan with.

Evidence against "the mean is `limit` at most" grows by E[log(1 + bet * (y / limit - 1))] a value once the mean is
beyond the limit, so that log_threshold / growth values are needed, with the best of the fixed bets. That is about the
mean delay of the detector, and usually somewhat more: evidence does not begin at nothing. Values are taken to be 0 or 1
with probability `spread`, the mean itself else, which has the variance that was seen.
"""

import math

from auditors.metrics.sequential import BETS

STEPS = 14
"""Halvings of the interval in which the smallest change lies: 1 / 2^14 of the scale."""


def spread_of(mean: float, variance: float | None) -> float:
    """Variance in parts of the largest that values in [0, 1] with this mean can have: 0..1; 1 where it is unknown."""
    largest = mean * (1.0 - mean)
    return min(1.0, variance / largest) if largest > 0.0 and variance is not None else 1.0


def growth(limit: float, mean: float, spread: float) -> float:
    """Log evidence that a value adds on average, with the best bet, when values have this mean.

    Args:
        limit: of the null hypothesis "the mean is this at most", in (0, 1].
        mean: of the values, in [0, 1].
        spread: see `spread_of`.

    Returns: 0 or more; 0 where the mean is within the limit.
    """
    excess = mean / limit - 1.0
    if excess <= 0.0:
        return 0.0
    high = 1.0 / limit - 1.0
    square = spread * (mean * high * high + 1.0 - mean) + (1.0 - spread) * excess * excess
    nearest = round(math.log(min(BETS[-1], max(BETS[0], excess / square)) / BETS[0]) / math.log(BETS[1] / BETS[0]))
    found = 0.0
    for bet in BETS[max(0, nearest - 1) : nearest + 2]:
        wild = mean * math.log1p(bet * high) + (1.0 - mean) * math.log1p(-bet)
        found = max(found, spread * wild + (1.0 - spread) * math.log1p(bet * excess))
    return found


def smallest_rise(limit: float, mean: float, spread: float, log_threshold: float, values: float) -> float | None:
    """Smallest rise of the mean that is found within so many values on average.

    Args:
        limit: upper limit of the detector.
        mean: before the rise, in [0, 1]; a fall is the same with 1 - mean and 1 - lower limit.
        spread: see `spread_of`; taken to stay as it is.
        log_threshold: log evidence at which the detector alarms.
        values: how many.

    Returns: in (0, 1 - mean]; None where not even a rise to 1 is found.
    """
    needed = log_threshold / values
    if growth(limit, 1.0, spread) < needed:
        return None
    low, high = min(limit, 1.0), 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if growth(limit, middle, spread) >= needed else (middle, high)
    return max(0.0, high - mean)
