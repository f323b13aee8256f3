"""A time limit for an audit that does not count the time in which its requests were held back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

SHORTEST_CHECK_SECONDS = 0.05


@asynccontextmanager
async def time_limit(seconds: float, held_seconds: Callable[[], float]) -> AsyncIterator[None]:
    """Limit a block's seconds, without those that the total `held_seconds()` counts meanwhile; raise TimeoutError."""
    loop = asyncio.get_running_loop()
    began, held_before = loop.time(), held_seconds()

    checking: asyncio.TimerHandle

    def check() -> None:
        nonlocal checking
        left = began + seconds + held_seconds() - held_before - loop.time()
        if left <= 0:
            limit.reschedule(loop.time())
        else:
            checking = loop.call_later(max(left, SHORTEST_CHECK_SECONDS), check)

    checking = loop.call_later(seconds, check)
    try:
        async with asyncio.timeout(None) as limit:
            yield
    finally:
        checking.cancel()
