"""Linear scales: where a number lies in a picture, and which numbers stand beside it."""

import math
from collections.abc import Iterable

import msgspec

STEPS = (1.0, 2.0, 5.0, 10.0)
"""Times a power of ten: the distance between two ticks."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers from `low` to `high` on pixels from `start` to `end`, either of which may be the larger."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Pixels. What lies beyond an end is on it."""
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return self.start + share * (self.end - self.start)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def known(value: float | None) -> float | None:
    """The number, unless it is none that can be drawn."""
    return value if value is not None and math.isfinite(value) else None


def known_of(values: Iterable[float | None]) -> list[float]:
    """Those that can be drawn."""
    return [value for value in values if value is not None and math.isfinite(value)]


def ticks(low: float, high: float, most: int = 6) -> tuple[list[float], int]:
    """Round numbers from `low` to `high`, 2 to `most` of them as far as there are any, and their decimals.

    Args:
        low: finite, below `high`.
        high: finite.
        most: 2 or more.
    """
    if not low < high or not math.isfinite(high - low):
        return [], 0
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(step * power for step in STEPS if (high - low) / (step * power) <= most - 1 or step == STEPS[-1])
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return [round(place * step, places + 2) + 0.0 for place in range(first, last + 1)], places
