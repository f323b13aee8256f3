"""A worker's garbage collector: out of the way while clients are served, and cycles are freed all the same."""

import asyncio
import gc
import weakref

import pytest

from gateway.processes import worker
from tests.support.waiting import eventually


class Node:
    """One half of a cycle."""

    def __init__(self) -> None:
        self.other: Node | None = None


def cycle() -> "weakref.ref[Node]":
    """Two objects that hold each other and nobody else holds."""
    one, other = Node(), Node()
    one.other, other.other = other, one
    return weakref.ref(one)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "CHECK_SECONDS", 0.02)


async def test_no_full_collection_while_somebody_is_served() -> None:
    """However many small ones there are; the collector is as before afterwards."""
    before, full = gc.get_threshold(), []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            full.append(info)

    async with worker.defer_garbage_collection(lambda: 1):
        gc.callbacks.append(note)
        try:
            kept: list[list[int]] = [[] for _ in range(10 * 700 * (worker.LEAST_SINCE_FULL))]
            assert gc.get_count()[2] > 0
            assert full == []
            del kept
        finally:
            gc.callbacks.remove(note)
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


async def test_cycles_are_freed_when_nobody_is_served() -> None:
    """Not while somebody is, unless many have grown old; soon after that."""
    live = 1
    async with worker.defer_garbage_collection(lambda: live):
        old = cycle()
        keeping = old()
        for _ in range(worker.LEAST_SINCE_FULL):
            gc.collect(1)
        del keeping
        await asyncio.sleep(5 * worker.CHECK_SECONDS)
        assert old() is not None
        live = 0
        await eventually(lambda: old() is None, within_seconds=5)


async def test_memory_is_bounded_where_somebody_always_is() -> None:
    """Old cycles never come to more than what MOST_SINCE_FULL collections leave."""
    most, alive = 0, []
    async with worker.defer_garbage_collection(lambda: 1):
        for _ in range(3 * worker.MOST_SINCE_FULL):
            fresh = [cycle() for _ in range(200)]
            holding = [one() for one in fresh]
            gc.collect(1)  # they are old from here on
            del holding
            alive += fresh
            await eventually(lambda: gc.get_count()[2] < 2 * worker.MOST_SINCE_FULL, within_seconds=5)
            alive = [one for one in alive if one() is not None]
            most = max(most, len(alive))
    assert most <= 200 * 2 * worker.MOST_SINCE_FULL
