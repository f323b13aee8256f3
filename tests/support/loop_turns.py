"""Whether others have their turns on the event loop while something takes long."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def with_turns(work: Awaitable[T]) -> tuple[T, int]:
    """The result of the work, and how many turns another task had meanwhile."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    running = asyncio.create_task(others())
    try:
        return await work, turns
    finally:
        running.cancel()
