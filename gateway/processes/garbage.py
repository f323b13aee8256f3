"""Keeps the garbage collector off a worker's hot path.

Python frees nearly everything the moment it is done with; the collector is for cycles, and a full collection looks at
every object there is, while all clients wait. What lives since the start is set aside (`gc.freeze`), and full
collections come when nobody is being served, or when enough has survived the smaller ones that waiting would cost
memory.
"""

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.ticks import next_tick

CHECK_SECONDS = 1.0
NEVER = 1_000_000_000
"""Collections of the middle generation before a full one by itself."""
LEAST_SINCE_FULL = 10
"""Of the middle generation, before a full one in a quiet moment: as many as Python has by itself."""
MOST_SINCE_FULL = 50
"""Before one in any moment. 7,000 objects more survived for each, so this bounds what cycles may hold: some 50 MB."""
LEAST_SECONDS_PER_SECOND = 500.0
"""Between two in quiet moments, of what the last one took: with thousands of connections open that is 80 ms."""


@asynccontextmanager
async def kept_off_the_hot_path(live: Callable[[], int]) -> AsyncIterator[None]:
    """For as long as the block; `live` says how many exchanges are in flight."""
    young, middle, old = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, NEVER)
    collecting = asyncio.create_task(_collect_when_idle(live))
    try:
        yield
    finally:
        collecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await collecting
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


async def _collect_when_idle(live: Callable[[], int]) -> None:
    not_before = 0.0
    while True:
        await next_tick(CHECK_SECONDS)
        since_full, began = gc.get_count()[2], time.perf_counter()
        is_quiet = since_full >= LEAST_SINCE_FULL and began >= not_before and not live()
        if is_quiet or since_full >= MOST_SINCE_FULL:
            gc.collect()
            ended = time.perf_counter()
            not_before = ended + LEAST_SECONDS_PER_SECOND * (ended - began)
