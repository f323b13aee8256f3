"""Watches an event loop: how late it comes to a timer is what a long step costs everybody else."""

import asyncio
import time
from collections.abc import Callable
from typing import NoReturn

INTERVAL_SECONDS = 0.05
"""Between two timers: a step that is longer than this is always seen, by the part of it after a timer was due."""


async def watch_lag(observe: Callable[[float], None]) -> NoReturn:
    """Tells again and again by how many seconds the loop was late; until it is cancelled."""
    while True:
        due = time.monotonic() + INTERVAL_SECONDS
        await asyncio.sleep(INTERVAL_SECONDS)
        observe(max(time.monotonic() - due, 0.0))
