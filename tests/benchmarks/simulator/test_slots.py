"""Who is answered next."""

import asyncio

import pytest

from benchmarks.simulator.engine import PrioritySemaphore


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_smallest_priority_number_goes_first() -> None:
    """Whatever arrived before it; equals go by arrival."""
    slots, order = PrioritySemaphore(1), []

    async def ask(name: str, priority: int) -> None:
        await slots.acquire(priority)
        order.append(name)
        slots.release()

    await slots.acquire(0)
    async with asyncio.TaskGroup() as group:
        for name, priority in (("late", 10), ("audit", 5), ("live", 0), ("audit 2", 5)):
            group.create_task(ask(name, priority))
        await _settle()
        slots.release()
    assert order == ["live", "audit", "audit 2", "late"]
    assert slots.free == 1


async def test_a_request_that_gives_up_waiting_takes_no_slot() -> None:
    """Its turn passes to the next, and no slot is lost."""
    slots = PrioritySemaphore(1)
    await slots.acquire(0)
    leaver, stayer = asyncio.create_task(slots.acquire(0)), asyncio.create_task(slots.acquire(1))
    await _settle()
    leaver.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaver
    slots.release()
    await stayer
    slots.release()
    assert slots.free == 1
