"""The event loop's lag is measured, added up over workers, and exposed."""

import asyncio
import time

from gateway.telemetry.event_loop import watch_lag
from tests.support.waiting import eventually


async def test_a_long_step_is_seen() -> None:
    """A step of 0.3 s makes the next timer late by most of it."""
    seen: list[float] = []
    watching = asyncio.create_task(watch_lag(seen.append))
    await eventually(lambda: len(seen) >= 2)
    time.sleep(0.3)  # noqa: ASYNC251 - the very thing that is to be noticed
    before = len(seen)
    await eventually(lambda: len(seen) > before)
    watching.cancel()
    assert 0.2 < max(seen) < 5
