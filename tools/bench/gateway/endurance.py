"""Memory over many requests of which a tenth is broken off by the client.

As a program: `python -m tools.bench.gateway.endurance URL REQUESTS` drives them and prints the number of failures; it
says every so many on a line of its own how far it is.
"""

import asyncio
import random
import subprocess
import sys

import httptools
import numpy as np
import uvloop

from tools.bench.gateway.arena import OTHER_CORE, Figure, Runner, figure, pinned, resident_bytes, say, tree
from tools.bench.load import chat_body, request_bytes

ABORTS = 0.1
CONNECTIONS = 64
SAMPLES = 50
WARM_UP = 0.2
"""Part of the requests after which memory should have stopped growing."""


def figures(runner: Runner, requests: int) -> list[Figure]:
    """Resident memory in the end, of the worker and of its writer, and the worker's slope after the warm-up."""
    assert runner.pid is not None
    argv = [*pinned(OTHER_CORE), sys.executable, "-m", "tools.bench.gateway.endurance", runner.url, str(requests)]
    samples: list[tuple[int, int]] = []
    failures = 0
    with runner.turn(), subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            word, number = line.split()
            if word == "failures":
                failures = int(number)
            else:
                samples.append((int(number), resident_bytes(runner.pid)))
                say(f"  {runner.name}: {samples[-1][0]:,} requests, {samples[-1][1] / 1e6:.1f} MB")
    writer = sum(resident_bytes(pid) for pid in tree(runner.pid)[1:])
    kept = [(done, size) for done, size in samples if done >= WARM_UP * requests]
    slope = float(np.polyfit([done for done, _ in kept], [size for _, size in kept], 1)[0])
    case = f"{requests:,} requests, {ABORTS:.0%} aborted"
    return [
        figure("endurance", case, runner.name, "resident", "MB", [kept[-1][1] / 1e6], failures),
        figure("endurance", case, runner.name, "writer", "MB", [writer / 1e6], failures),
        figure("endurance", case, runner.name, "slope", "bytes/request", [slope], failures),
    ]


class _Driver:
    def __init__(self, url: str, requests: int) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self.address = (host, int(port))
        self.requests = requests
        self.done = self.failures = 0
        self.rng = random.Random(0)
        self.bodies = [request_bytes(url, chat_body(size)) for size in range(100, 2100, 100)]
        self.over = asyncio.Event()

    def count(self, *, is_good: bool = True) -> None:
        self.done += 1
        self.failures += not is_good
        if self.done % max(1, self.requests // SAMPLES) == 0:
            print("done", self.done, flush=True)
        if self.done >= self.requests:
            self.over.set()

    async def run(self) -> None:
        for _ in range(CONNECTIONS):
            await self.connect()
        await self.over.wait()

    async def connect(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: _Client(self), *self.address)


class _Client(asyncio.Protocol):
    """Asks until it breaks off, and is then replaced by a new one."""

    def __init__(self, driver: _Driver) -> None:
        self._driver = driver
        self._parser = httptools.HttpResponseParser(self)
        self._aborts = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's are not asyncio's
        self._ask()

    def _ask(self) -> None:
        driver = self._driver
        if driver.over.is_set():
            self._transport.close()
            return
        request = driver.rng.choice(driver.bodies)
        self._aborts = driver.rng.random() < ABORTS
        if not self._aborts:
            self._transport.write(request)
            return
        # Some leave in the middle of their request, some while it is being answered.
        self._transport.write(request[: driver.rng.randint(1, len(request))] if driver.rng.random() < 0.5 else request)
        asyncio.get_running_loop().call_later(driver.rng.random() * 0.002, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._aborts:
            return
        self._driver.count(is_good=200 <= self._parser.get_status_code() < 300)
        asyncio.get_running_loop().call_soon(self._ask)

    def connection_lost(self, exc: Exception | None) -> None:
        driver = self._driver
        if not driver.over.is_set():
            driver.count(is_good=self._aborts)
            self.replacement = asyncio.ensure_future(driver.connect())


async def _drive(url: str, requests: int) -> None:
    driver = _Driver(url, requests)
    await driver.run()
    print("failures", driver.failures, flush=True)


if __name__ == "__main__":
    uvloop.run(_drive(sys.argv[1], int(sys.argv[2])))
