"""Open loop: requests leave at a given rate whether the last was answered or not; latency counts from when one was due.

As a program: `python -m tools.bench.gateway.paced URL RATE SECONDS` prints a Load as JSON.
"""

import asyncio
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence

import httptools
import msgspec
import numpy as np
import uvloop

from tools.bench.gateway.arena import OTHER_CORE, Figure, Runner, figure, pinned, take_turns
from tools.bench.load import Load, chat_body, request_bytes

GRACE_SECONDS = 5.0
"""For the last answers."""


def figures(runners: Sequence[Runner], rates: Sequence[int], rounds: int, seconds: float) -> list[Figure]:
    """Latency at each rate; a rate that is not held shows in the failures and the latency."""
    taken: dict[tuple[int, str], list[Load]] = {}

    def one(runner: Runner) -> None:
        for rate in rates:
            argv = [*pinned(OTHER_CORE), sys.executable, "-m", "tools.bench.gateway.paced"]
            done = subprocess.run(
                [*argv, runner.url, str(rate), str(seconds)], capture_output=True, check=True, text=True
            )
            taken.setdefault((rate, runner.name), []).append(msgspec.json.decode(done.stdout, type=Load))

    take_turns(runners, rounds, one)
    return [
        figure("open loop", f"{rate} requests/s", name, what, "ms", values, sum(load.failures for load in loads))
        for (rate, name), loads in taken.items()
        for what, values in (
            ("p50", [1e3 * load.p50_seconds for load in loads]),
            ("p99", [1e3 * load.p99_seconds for load in loads]),
        )
    ]


class _Connection(asyncio.Protocol):
    """One kept-alive connection; asks once at a time."""

    def __init__(self, pace: "_Pace") -> None:
        self._pace = pace
        self._due = 0.0
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's are not asyncio's

    def ask(self, due: float) -> None:
        self._due = due
        self._transport.write(self._pace.request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self._pace.answered(self, self._due, 200 <= self._parser.get_status_code() < 300)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pace.lost()


class _Pace:
    def __init__(self, host: str, port: int, request: bytes) -> None:
        self._address = (host, port)
        self.request = request
        self.latencies: list[float] = []
        self.failures = self.asked = 0
        self._free: deque[_Connection] = deque()
        self._waiting: deque[float] = deque()
        self._is_over = False

    async def run(self, rate: int, seconds: float, connections: int) -> float:
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            _, connection = await loop.create_connection(lambda: _Connection(self), *self._address)
            self._free.append(connection)
        started = time.monotonic()
        while (now := time.monotonic() - started) < seconds:
            while self.asked / rate <= now:
                self._ask(started + self.asked / rate)
                self.asked += 1
            await asyncio.sleep(max(0.0, self.asked / rate - (time.monotonic() - started)))
        deadline = time.monotonic() + GRACE_SECONDS
        while len(self.latencies) + self.failures < self.asked and time.monotonic() < deadline:  # noqa: ASYNC110 - once
            await asyncio.sleep(0.01)
        self._is_over = True
        return time.monotonic() - started

    def _ask(self, due: float) -> None:
        if self._free:
            self._free.popleft().ask(due)
        else:
            self._waiting.append(due)

    def answered(self, connection: _Connection, due: float, is_good: bool) -> None:
        if is_good:
            self.latencies.append(time.monotonic() - due)
        else:
            self.failures += 1
        if self._waiting:
            # Not from within the parser.
            asyncio.get_running_loop().call_soon(connection.ask, self._waiting.popleft())
        else:
            self._free.append(connection)

    def lost(self) -> None:
        self.failures += not self._is_over


async def _paced(url: str, rate: int, seconds: float) -> Load:
    host, _, port = url.removeprefix("http://").partition(":")
    pace = _Pace(host, int(port), request_bytes(f"{host}:{port}", chat_body(200)))
    elapsed = await pace.run(rate, seconds, connections=64)
    p50, p99 = np.percentile(pace.latencies or [seconds], [50, 99])
    missing = pace.asked - len(pace.latencies)
    return Load(len(pace.latencies) / elapsed, float(p50), float(p99), pace.asked, missing)


if __name__ == "__main__":
    result = uvloop.run(_paced(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
    sys.stdout.buffer.write(msgspec.json.encode(result))
