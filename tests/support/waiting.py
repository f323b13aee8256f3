"""Waiting for what other tasks and processes bring about."""

import asyncio
import time
from collections.abc import Callable


async def eventually(condition: Callable[[], bool], *, within_seconds: float = 60.0) -> None:
    """Returns once a condition holds; fails the test when it does not in time."""
    deadline = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.02)
