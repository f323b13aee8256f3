"""A time limit that leaves out the time in which its block was held back."""

import asyncio

import pytest

from gateway.auditor.backpressure.deadline import time_limit


async def test_held_time_is_left_out() -> None:
    """A block that was held back for 0.3 s has 0.3 s longer."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    def held() -> float:
        return min(loop.time() - began, 0.3)

    with pytest.raises(TimeoutError):
        async with time_limit(0.2, held):
            await asyncio.sleep(5)
    assert loop.time() - began >= 0.5
