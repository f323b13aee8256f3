"""A suite run keeps a server full without a queue that only waits, by the server's own gauges."""

import asyncio
from collections.abc import Sequence

import pytest

from auditors.clients.pacing import Turn
from gateway.auditor.backpressure.filling import LEAST_IN_FLIGHT, FillingGate, FillingLimit
from gateway.auditor.backpressure.vllm_load import Load, LoadUnknownError
from tests.support.waiting import eventually


def settled(slots: int, *, others: int = 0, most: int = 256, start: int = 32) -> list[int]:
    """What is allowed in each of forty seconds beside a server with so many places in its batch."""
    limit, found = FillingLimit(start, most), []
    for _ in range(40):
        held = limit.allowed + others
        limit.update(Load(running=min(held, slots), waiting=max(0, held - slots)), peak=limit.allowed)
        found.append(limit.allowed)
    return found


@pytest.mark.parametrize("slots", [16, 100, 200])
def test_fills_the_batch_and_no_more(slots: int) -> None:
    """Once settled, the batch is full and at most an eighth of it waits."""
    for allowed in settled(slots)[10:]:
        assert slots <= allowed <= slots * 9 / 8


def test_grows_to_the_most_where_nothing_ever_waits() -> None:
    """A server larger than the run's connections gets all of them, within four looks; none more beside others."""
    assert settled(10_000)[3] == 256
    assert set(settled(10_000, others=5)) == {32}


def test_yields_until_little_is_left_while_others_queue() -> None:
    """Where others fill the queue by themselves the run goes down to its least, and never to none."""
    assert settled(64, others=500)[-1] == LEAST_IN_FLIGHT
    small = FillingLimit(2)
    small.on_overload()
    assert small.allowed == 2


class PlannedLoad:
    """A source of load that gives planned values, then the last of them again; it fails at the first poll."""

    def __init__(self, loads: Sequence[Load | None]) -> None:
        self._loads = list(loads)
        self.polls = 0

    async def poll(self) -> Load | None:
        self.polls += 1
        if self.polls == 1:
            raise LoadUnknownError("no")
        return self._loads[min(self.polls - 2, len(self._loads) - 1)]

    async def aclose(self) -> None:
        """Nothing is open."""


class Crowd:
    """Requests that stay in their slots until they are let go."""

    def __init__(self, gate: FillingGate, n: int) -> None:
        self.inside = self.most = 0
        self.let_go = asyncio.Event()
        self._gate = gate
        self.tasks = [asyncio.create_task(self._one()) for _ in range(n)]

    async def end(self) -> list[BaseException | None]:
        """Lets them go; what each ended with."""
        self.let_go.set()
        return await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _one(self) -> None:
        async with self._gate.slot(Turn(b"")):
            self.inside += 1
            self.most = max(self.most, self.inside)
            await self.let_go.wait()
            self.inside -= 1


def gate_of(*loads: Load | None, stop: asyncio.Event | None = None) -> FillingGate:
    stop = stop or asyncio.Event()
    return FillingGate(PlannedLoad(loads), FillingLimit(4, 16), stop, InterruptedError, poll_seconds=0.01)


async def test_the_gate_lets_more_through_as_the_server_takes_them() -> None:
    """Four at first, also after a poll that fails; sixteen, which is the most, once nothing has waited at two polls."""
    gate = gate_of(Load(running=4), Load(running=8), Load(running=16))
    crowd = Crowd(gate, 40)
    await asyncio.sleep(0)
    assert crowd.inside == 4
    await eventually(lambda: crowd.inside == 16)
    await crowd.end()
    await gate.aclose()
    assert (crowd.most, crowd.inside) == (16, 0)


async def test_what_waits_when_the_run_is_stopped_is_not_sent() -> None:
    """Stopped with four inside and two waiting: those two end with what the run is ended with."""
    stop = asyncio.Event()
    gate = gate_of(None, stop=stop)
    crowd = Crowd(gate, 6)
    await asyncio.sleep(0)
    stop.set()
    found = await crowd.end()
    await gate.aclose()
    assert [type(one) for one in found].count(InterruptedError) == 2
    assert crowd.most == 4
