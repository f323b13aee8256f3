"""Clients that read streams.

`python -m tools.bench.gateway.readers URL CONNECTIONS SECONDS` prints a Reading as JSON.
"""

import asyncio
import re
import sys
import time

import msgspec
import numpy as np
import uvloop

from tools.bench.load import chat_body, request_bytes

CONNECTS_AT_ONCE = 100
LOOK_AT_EVERY = 7
"""Packets: how late an event came is read from one packet in so many."""

_LEFT = re.compile(rb'"left":([\d.]+)')


class Reading(msgspec.Struct, frozen=True):
    """What all connections together saw. `lag`: seconds from an event's leaving the upstream to its arrival."""

    events: int
    streams: int
    failures: int
    lag_p50_seconds: float
    lag_p99_seconds: float


class _Reader(asyncio.Protocol):
    """Asks for one stream after the other."""

    def __init__(self, request: bytes, lags: list[float]) -> None:
        self._request = request
        self._lags = lags
        self._packets = 0
        self._is_fresh = True
        self._is_over = False
        self.events = self.streams = self.failures = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's are not asyncio's
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._is_fresh:
            self._is_fresh = False
            self.failures += not data.startswith(b"HTTP/1.1 200")
        self.events += data.count(b"data: ")
        self._packets += 1
        if self._packets % LOOK_AT_EVERY == 0 and (left := _LEFT.search(data)):
            self._lags.append(time.monotonic() - float(left[1]))
        if data.endswith(b"0\r\n\r\n"):
            self.streams += 1
            self._is_fresh = True
            self._transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self.failures += not self._is_over

    def stop(self) -> None:
        self._is_over = True
        self._transport.abort()


async def read(url: str, connections: int, seconds: float) -> Reading:
    """Counts events for a while, from when every connection is open."""
    host, _, port = url.removeprefix("http://").partition(":")
    request = request_bytes(f"{host}:{port}", chat_body(200, stream=True))
    lags: list[float] = []
    readers = [_Reader(request, lags) for _ in range(connections)]
    loop = asyncio.get_running_loop()
    for first in range(0, connections, CONNECTS_AT_ONCE):
        some = readers[first : first + CONNECTS_AT_ONCE]
        await asyncio.gather(*(loop.create_connection(lambda one=one: one, host, int(port)) for one in some))  # type: ignore[misc]  # bound on purpose
    sys.stdout.write("open\n")
    sys.stdout.flush()
    before = sum(reader.events for reader in readers)
    lags.clear()
    await asyncio.sleep(seconds)
    events = sum(reader.events for reader in readers) - before
    sys.stdout.write("done\n")
    sys.stdout.flush()
    for reader in readers:
        reader.stop()
    p50, p99 = np.percentile(lags or [seconds], [50, 99])
    return Reading(
        events,
        sum(reader.streams for reader in readers),
        sum(reader.failures for reader in readers),
        float(p50),
        float(p99),
    )


if __name__ == "__main__":
    result = uvloop.run(read(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
    sys.stdout.buffer.write(msgspec.json.encode(result))
