"""The reference of a stream that makes its own: its first audits, and more until a small change can be found.
An interval of the mean is taken after N (the window), 2 N, 4 N, ... audits, at LOOKS looks at most. The first holds
with probability 96 %, each later with 99.75 %, so all hold together with 95 %, whichever look is the last. The
reference is their intersection, so limits only close in: a drift that comes meanwhile is found as if the first window
were final, or sooner. A change within the window is not silent: `has_moved` compares its halves, and at later looks the
audits before with the new ones. After a rise without an alarm yet, a later look may lift the lower limit, so that a
return to the old level counts as a fall from the mean of both.
"""

import math

from auditors.metrics.intervals import Interval
from auditors.metrics.sequential import smallest_rise, spread_of
from auditors.metrics.weighting import WeightedSums, fixed_time_interval, hajek_mean, less, weighted_variance
from auditors.streams.drift import Detector

LOOKS = 5
FIRST_LEVEL = 0.96
LATER_LEVEL = 0.9975
HALVES_LEVEL = 0.99
"""Confidence level of the intervals of a window's halves: the mean moved when they do not overlap."""
WITHIN = 2000
"""Values (of a gap: blocks) within which a change is to be found on average."""


def first(window: WeightedSums) -> Interval:
    """Return the reference of the first look."""
    return fixed_time_interval(window, FIRST_LEVEL)


def narrowed(reference: Interval, before: WeightedSums, window: WeightedSums) -> Interval | None:
    """Return the reference after a look at `window`, with `before` that of the last look; None if the mean moved."""
    if has_moved(before, window):
        return None
    interval = fixed_time_interval(window, LATER_LEVEL)
    lower, upper = max(reference.lower, interval.lower), min(reference.upper, interval.upper)
    return Interval(lower, upper) if lower <= upper else None


def next_look(n: int, window: int) -> int:
    """Return the number of audits at the look that follows `n` audits; 0 after the last look."""
    look = window
    for _ in range(LOOKS):
        if look > n:
            return look
        look *= 2
    return 0


def has_moved(half: WeightedSums, window: WeightedSums) -> bool:
    """Return whether the mean was different in the first half of a window than in the rest."""
    early, late = (fixed_time_interval(sums, HALVES_LEVEL) for sums in (half, less(window, half)))
    return early.upper < late.lower or late.upper < early.lower


def smallest_change(
    limits: Interval, mean: float, variance: float | None, *, log_threshold: float, wanted: float
) -> float | None:
    """Return the smallest change of the mean, on [0, 1], that is found to either side within WITHIN values on average;
    None if no change is. `limits`: of the detector; `mean`, `variance`: before the change; `log_threshold`: log
    evidence for an alarm; `wanted`: a side on which the scale has no room for such a change does not count.
    """
    spread = spread_of(mean, variance)
    sides = [(1.0 - mean, limits.upper, mean), (mean, 1.0 - limits.lower, 1.0 - mean)]
    counted = [side for side in sides if side[0] >= wanted] or [max(sides)]
    rises = [smallest_rise(limit, start, spread, log_threshold, WITHIN) for _, limit, start in counted]
    known_rises = [rise for rise in rises if rise is not None]
    return max(known_rises) if len(known_rises) == len(rises) else None


def before_change(detector: Detector) -> tuple[float, float | None]:
    """Return the mean and variance before a change; without a window the middle of the reference, and None."""
    window = detector.window
    if window is None or not window.n:
        return (detector.reference.lower + detector.reference.upper) / 2.0, None
    variance = weighted_variance(window)
    return hajek_mean(window), None if math.isnan(variance) else variance
