"""How far apart numbers may lie of which only a range is known, as with replies that were not given."""

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_HALVINGS = 100
MOST_PARTS = 16
"""Every combination of ends is looked at: 65,536 of them."""


class Bounds(NamedTuple):
    """The least and the most that a number can be; NaN where it is undefined."""

    lowest: float
    highest: float


def variance_bounds(lows: Floats, highs: Floats) -> Bounds:
    """Population variance of numbers each of which may lie anywhere in its range.

    The least is that of the numbers drawn as near as their ranges allow to one point, which is then their mean. The
    most is taken where every number is at an end of its range, as the variance is convex in each.

    Args:
        lows: (n,) lower ends; NaN where the number is undefined, which leaves it out.
        highs: (n,) upper ends.

    Returns: bounds that are attained when the numbers move freely; NaN with fewer than two of them.
    Raises: ValueError for an end above its other end, or more than MOST_PARTS numbers.
    """
    known = ~(np.isnan(lows) | np.isnan(highs))
    low, high = lows[known], highs[known]
    if len(low) < 2:
        return Bounds(np.nan, np.nan)
    if np.any(low > high):
        raise ValueError("a range must not end below its beginning")
    if len(low) > MOST_PARTS:
        raise ValueError(f"at most {MOST_PARTS} ranges, not {len(low)}")
    corners = np.array(list(product((False, True), repeat=len(low))))
    most = np.where(corners, high, low).var(axis=1).max()
    return Bounds(float(np.clip(_meeting_point(low, high), low, high).var()), float(most))


def _meeting_point(low: Floats, high: Floats) -> float:
    """The point that is the mean of the numbers drawn towards it."""
    left, right = float(low.min()), float(high.max())
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        if float(np.clip(middle, low, high).mean()) > middle:
            left = middle
        else:
            right = middle
    return (left + right) / 2
