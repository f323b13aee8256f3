"""Watches an event loop: how late it comes to a timer is what a long step costs everybody else."""

from collections.abc import Callable
from typing import NoReturn

from gateway.ticks import every

INTERVAL_SECONDS = 0.05
"""Between two timers, at most: of a longer step what comes after a timer was due is always seen."""


async def watch_lag(observe: Callable[[float], None]) -> NoReturn:
    """Tells again and again by how many seconds the loop was late; until it is cancelled."""
    await every(INTERVAL_SECONDS, observe)
