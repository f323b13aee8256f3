"""How long the steps of the present event loop are, as a bystander on it sees them."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass
class Steps:
    longest_seconds: float = 0.0


@asynccontextmanager
async def watched() -> AsyncIterator[Steps]:
    """Notes the longest time that this thread's processor spent between two turns of a bystander."""
    steps = Steps()

    async def stand_by() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            steps.longest_seconds = max(steps.longest_seconds, time.thread_time() - before)

    gc.disable()  # a collection takes a second in a process that has run thousands of tests
    task = asyncio.create_task(stand_by())
    try:
        yield steps
    finally:
        gc.enable()
        task.cancel()
