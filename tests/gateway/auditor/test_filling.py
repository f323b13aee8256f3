"""A suite run keeps a server full without a queue that only waits, by the server's own gauges."""

import asyncio
import time
from collections.abc import Sequence
from statistics import quantiles

import pytest

from auditors.clients.pacing import Turn
from auditors.types import CompletionRequest, Message
from benchmarks.run.client import SuiteClient, open_client
from gateway.auditor.backpressure.filling import LEAST_IN_FLIGHT, FillingGate, FillingLimit
from gateway.auditor.backpressure.vllm_load import Load, LoadReader, LoadUnknownError
from tests.support.processor_time import TRIES
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


REQUEST = CompletionRequest(model="m", messages=[Message("user", "hi")], max_tokens=3)
CHAT = b'{"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}'
SLOTS, SERVICE_SECONDS = 8, 0.1


class SlottedServer:
    """An HTTP server that answers so many requests at a time, in their order, and has no gauges."""

    def __init__(self) -> None:
        self.ended_at = list[float]()
        self._slots = asyncio.Semaphore(SLOTS)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                _, _, length = head.partition("content-length:")
                status, body = (200, CHAT) if length else (404, b"{}")
                if length:
                    await reader.readexactly(int(length.split("\r\n")[0]))
                    async with self._slots:
                        await asyncio.sleep(SERVICE_SECONDS)
                    self.ended_at.append(time.monotonic())
                writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()


async def slowest_of_most(client: SuiteClient, seconds: float) -> float:
    """The 95th percentile of the seconds of requests sent at even distances."""
    taken, until = list[float](), time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        await client.complete(REQUEST)
        taken.append(time.monotonic() - began)
        await asyncio.sleep(SERVICE_SECONDS)
    return quantiles(taken, n=20)[-1]


async def beside_a_run() -> tuple[float, float, float]:
    """The foreign client's time alone and beside a run, and the requests that the server ended a second meanwhile."""
    server = SlottedServer()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    stop = asyncio.Event()
    gate = FillingGate(LoadReader(origin), FillingLimit(), stop, InterruptedError, poll_seconds=0.2)
    run, foreign = open_client(origin, concurrency=256, gate=gate), open_client(origin)

    async def ask_on() -> None:
        while not stop.is_set():
            await run.complete(REQUEST)

    try:
        alone = await slowest_of_most(foreign, 20 * SERVICE_SECONDS)
        asking = [asyncio.create_task(ask_on()) for _ in range(64)]
        await asyncio.sleep(30 * SERVICE_SECONDS)  # to settle
        began = time.monotonic()
        beside = await slowest_of_most(foreign, 60 * SERVICE_SECONDS)
        rate = sum(ended >= began for ended in server.ended_at) / (time.monotonic() - began)
        stop.set()
        await asyncio.gather(*asking, return_exceptions=True)
    finally:
        await run.aclose()
        await foreign.aclose()
        await gate.aclose()
        listener.close()
    return alone, beside, rate


async def test_a_run_fills_a_server_without_gauges_and_leaves_room_for_others() -> None:
    """A foreign client waits at most twice as long while the server does 80 % of its work; busy machines repeat."""
    for _ in range(TRIES):
        alone, beside, rate = await beside_a_run()
        if beside <= 2 * alone and rate >= 0.8 * SLOTS / SERVICE_SECONDS:
            return
    pytest.fail(f"alone {alone:.3f} s, beside a run {beside:.3f} s, {rate:.1f} requests a second")
