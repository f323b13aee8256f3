"""Slots that keys share: whoever sends much, or what takes long, waits for itself."""

import asyncio

from gateway.auditor.backpressure.fair_slots import FairSlots


class Work:
    """Tasks that hold a slot until they are let go, and the keys in the order in which they got one."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots = slots
        self.begun = list[str]()
        self.held = list[tuple[str, asyncio.Event]]()

    def begin(self, key: str) -> asyncio.Task[None]:
        return asyncio.create_task(self._hold(key))

    async def _hold(self, key: str) -> None:
        async with self.slots.slot(key):
            self.begun.append(key)
            release = asyncio.Event()
            self.held.append((key, release))
            await release.wait()

    async def let_go(self, key: str) -> None:
        place = next(place for place in self.held if place[0] == key)
        self.held.remove(place)
        place[1].set()
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_slow_exchanges_of_one_key_leave_a_slot_to_another() -> None:
    """However many of them wait, and were there first; then they take turns."""
    work = Work(FairSlots(3, are_shared=True))
    tasks = [work.begin("slow") for _ in range(9)]
    await settle()
    assert work.begun == ["slow"] * 2
    tasks += [work.begin("other") for _ in range(2)]
    await settle()
    assert work.begun == ["slow"] * 2 + ["other"]
    await work.let_go("slow")
    await work.let_go("slow")
    assert work.begun[3:] == ["slow", "other"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_cancelled_ones_leave_no_slot_behind() -> None:
    """While they wait, in the step in which they get their slot, and while they hold it."""
    slots = FairSlots(1, are_shared=True)
    for n_steps in range(6):
        holder, waiting = Work(slots), Work(slots)
        first, second = holder.begin("a"), waiting.begin("b")
        await settle()
        first.cancel()
        for _ in range(n_steps):
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        async with asyncio.timeout(5.0), slots.slot("c"):
            pass
