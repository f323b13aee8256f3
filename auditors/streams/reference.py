"""The reference of a stream that makes its own: its first audits, and more until a small change can be found.
It is looked at at N (the window), 2 N, 4 N, ... audits, LOOKS times at most, with 96 % at first and 99.75 % later, so
all intervals hold together with 95 %. The reference is their intersection, so limits only close in. `has_moved`
compares the halves of the window, and later the audits before with the new ones; after a rise without alarm a look may
lift the lower limit, so that a return counts as a fall.
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
    return fixed_time_interval(window, FIRST_LEVEL)


def narrowed(reference: Interval, before: WeightedSums, window: WeightedSums) -> Interval | None:
    """The reference after a later look, whose window has the audits before and since; None when the mean moved."""
    if has_moved(before, window):
        return None
    interval = fixed_time_interval(window, LATER_LEVEL)
    lower, upper = max(reference.lower, interval.lower), min(reference.upper, interval.upper)
    return Interval(lower, upper) if lower <= upper else None


def next_look(n: int, window: int) -> int:
    """The number of audits of the look that comes after n of them; 0 after the last one."""
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
    """Smallest change of the mean on [0, 1] that is found WITHIN so many values on average; None if there is none.
    `log_threshold`: of an alarm; `wanted`: a side without room for it on the scale does not count.
    """
    spread = spread_of(mean, variance)
    sides = [(1.0 - mean, limits.upper, mean), (mean, 1.0 - limits.lower, 1.0 - mean)]
    counted = [side for side in sides if side[0] >= wanted] or [max(sides)]
    rises = [smallest_rise(limit, start, spread, log_threshold, WITHIN) for _, limit, start in counted]
    known_rises = [rise for rise in rises if rise is not None]
    return max(known_rises) if len(known_rises) == len(rises) else None


def before_change(detector: Detector) -> tuple[float, float | None]:
    """Mean and variance before a change; of a reference from elsewhere its middle, and no variance."""
    window = detector.window
    if window is None or not window.n:
        return (detector.reference.lower + detector.reference.upper) / 2.0, None
    variance = weighted_variance(window)
    return hajek_mean(window), None if math.isnan(variance) else variance
