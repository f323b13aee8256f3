"""Long work on the event loop of a process that has something better to do: in turns with everything else."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

TURN_SECONDS = 0.002
"""Seconds that live traffic may wait for a turn of ours."""

T = TypeVar("T")
R = TypeVar("R")


async def in_turns(action: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """`action` of each item, one after the other; the loop gets its turn after TURN_SECONDS each."""
    results, until = [], time.perf_counter() + TURN_SECONDS
    for item in items:
        results.append(action(item))
        if time.perf_counter() >= until:
            await asyncio.sleep(0)
            until = time.perf_counter() + TURN_SECONDS
    return results
