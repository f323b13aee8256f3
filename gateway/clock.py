"""Detects jumps of the wall clock (it was set, or the machine was suspended). Times that several processes compare, or
that outlive one, are wall times. Code that deletes for age asks first whether to trust the clock.
"""

import logging
import math
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

DISTRUST_SECONDS = 3600.0
TOLERANCE_SECONDS = 5.0
"""Smaller jumps change nothing that is decided by wall time here."""


class WallClock:
    """Compares the wall clock with the monotonic one from call to call."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._offset = wall() - steady()

    def jump(self) -> float:
        """Return by how many seconds the wall clock jumped since the last call, negative backwards; else 0.0."""
        offset = self._wall() - self._steady()
        jump = offset - self._offset
        if abs(jump) <= TOLERANCE_SECONDS:  # what drifts slowly does not add up to a jump
            self._offset = offset
            return 0.0
        self._offset = offset
        return jump


class TrustedClock:
    """Tells whether the wall clock may decide what is deleted or given up."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._steady = WallClock(wall, steady), steady
        self._trusted_from = -math.inf

    def is_trusted(self) -> bool:
        """Return False for DISTRUST_SECONDS after the clock jumped forwards: time enough to set it right."""
        if (jump := self._clock.jump()) > 0:
            self._trusted_from = self._steady() + DISTRUST_SECONDS
            logger.warning(
                "the clock of this machine jumped %.0f s forwards: nothing is deleted or given up for its age in the "
                "next %.0f s",
                *(jump, DISTRUST_SECONDS),
            )
        elif jump < 0:
            self._trusted_from = -math.inf
        return self._steady() >= self._trusted_from
