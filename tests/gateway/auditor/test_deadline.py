"""A time limit that leaves out the time in which its block was held back."""

import asyncio
import contextlib

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


async def test_a_block_in_time_is_let_be() -> None:
    """No trace of the limit remains, also when the block raises or is cancelled by someone else."""
    async with time_limit(0.05, float):
        pass
    with pytest.raises(ValueError, match="mine"):
        async with time_limit(0.05, float):
            raise ValueError("mine")
    await asyncio.sleep(0.1)

    async def limited() -> None:
        async with time_limit(5, float):
            await asyncio.sleep(5)

    task = asyncio.create_task(limited())
    await asyncio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
