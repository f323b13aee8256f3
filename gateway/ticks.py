"""A common beat for all clocks of a process: those that tick together wake it once, as being woken up is most of what
an idle process costs. The beat begins with the process, so that processes of a machine do not all wake at once.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NoReturn

logger = logging.getLogger(__name__)

EARLY_SECONDS = 0.002
"""Seconds by which a timer may go off too soon, as uvloop counts in milliseconds: that tick is not made twice."""
_BEGAN = time.monotonic()


def until_tick(seconds: float) -> float:
    """Seconds until the next whole multiple of this interval on the process's beat, at most EARLY_SECONDS more."""
    left = seconds - (time.monotonic() - _BEGAN) % seconds
    return left if left > EARLY_SECONDS else left + seconds


async def next_tick(seconds: float) -> None:
    await asyncio.sleep(until_tick(seconds))


async def every(seconds: float, work: Callable[[float], None]) -> NoReturn:
    """Call `work` at each tick with the seconds that it comes late, until cancelled; errors of `work` are logged."""
    loop, has_failed = asyncio.get_running_loop(), False
    timer: asyncio.TimerHandle | None = None

    def begin() -> None:
        nonlocal timer
        left = until_tick(seconds)
        timer = loop.call_later(left, tick, time.monotonic() + left)

    def tick(due: float) -> None:
        nonlocal has_failed
        late = max(time.monotonic() - due, 0.0)
        begin()
        try:
            work(late)
            has_failed = False
        except Exception:
            if not has_failed:
                logger.exception("what is done every %g s failed", seconds)
            has_failed = True

    begin()
    try:
        await loop.create_future()
    finally:
        if timer is not None:
            timer.cancel()
    raise AssertionError("this future is never completed")
