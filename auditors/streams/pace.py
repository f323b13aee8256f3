"""Measures the pace at which a stream gets values, by a mean that forgets within a day or so."""

import math

import msgspec

from auditors.metrics.intervals import require_finite

DAY = 86400.0
LEAST_SECONDS = 60.0
"""Over less time nothing can be said about a day."""


class Pace(msgspec.Struct, frozen=True, array_like=True):
    """Times of the first and the newest value, Unix seconds, and how many there were, older ones counted as less."""

    first: float
    last: float
    weight: float
    """Sum over the values after the first of exp(-age in days)."""

    def __post_init__(self) -> None:
        require_finite(self, self.first + self.last + self.weight)


def add(pace: Pace | None, at: float) -> Pace:
    """Return the pace after a value of this time; a late value counts as if it were the newest."""
    if pace is None:
        return Pace(at, at, 0.0)
    last = max(pace.last, at)
    return Pace(min(pace.first, at), last, pace.weight * math.exp((pace.last - last) / DAY) + 1.0)


def per_day(pace: Pace | None) -> float | None:
    """Values a day at the traffic up to the newest one; None where too little of it has been seen."""
    if pace is None or pace.last - pace.first < LEAST_SECONDS:
        return None
    return pace.weight / -math.expm1((pace.first - pace.last) / DAY)
