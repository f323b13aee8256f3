"""How long /livez takes while streams run and large bodies arrive.

As a program: `python -m tools.bench.gateway.liveness URL SECONDS` sends large bodies and prints "DONE FAILURES".
"""

import asyncio
import http.client
import subprocess
import sys
import time

import httptools
import numpy as np
import uvloop

from tools.bench.gateway.arena import OTHER_CORE, Figure, Runner, figure, pinned
from tools.bench.load import chat_body, request_bytes

STREAMS = 2000
INTERVAL_SECONDS = 0.5
"""Between two events of one stream: many streams run at a time because each is slow."""
BODY_BYTES = 10_000_000
UPLOADS_AT_ONCE = 2
PROBE_EVERY_SECONDS = 0.02
SETTLING_SECONDS = 2.0


def figures(runner: Runner, seconds: float, streams: int = STREAMS) -> list[Figure]:
    """`runner` stands in front of a streaming upstream whose events come at that interval."""
    readers = [*pinned(OTHER_CORE), sys.executable, "-m", "tools.bench.gateway.readers", runner.url, str(streams)]
    uploads = [*pinned(OTHER_CORE), sys.executable, "-m", "tools.bench.gateway.liveness", runner.url, str(seconds)]
    with (
        runner.turn(),
        subprocess.Popen([*readers, str(seconds + 2 * SETTLING_SECONDS)], stdout=subprocess.PIPE) as reading,
    ):
        assert reading.stdout is not None
        assert reading.stdout.readline() == b"open\n"
        time.sleep(SETTLING_SECONDS)
        with subprocess.Popen(uploads, stdout=subprocess.PIPE) as uploading:
            latencies, failures = _probe(runner.url, seconds)
            done, broken = map(int, uploading.communicate()[0].split())
        reading.stdout.read()
    case = f"{streams:,} streams, {UPLOADS_AT_ONCE} bodies of {BODY_BYTES // 1_000_000} MB at a time"
    p50, p99 = np.percentile(latencies, [50, 99])
    return [
        figure("/livez", case, runner.name, what, unit, [value], failures + broken)
        for what, unit, value in (
            ("p50", "ms", 1e3 * float(p50)),
            ("p99", "ms", 1e3 * float(p99)),
            ("bodies", "1/s", done / seconds),
        )
    ]


def _probe(url: str, seconds: float) -> tuple[list[float], int]:
    """(latency of each probe in seconds, how many were not answered 200)."""
    latencies: list[float] = []
    failures = 0
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        started = time.perf_counter()
        connection.request("GET", "/livez")
        answer = connection.getresponse()
        answer.read()
        latencies.append(time.perf_counter() - started)
        failures += answer.status != 200
        time.sleep(PROBE_EVERY_SECONDS)
    connection.close()
    return latencies, failures


class _Uploader(asyncio.Protocol):
    """Sends its request again and again."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._parser = httptools.HttpResponseParser(self)
        self._is_over = False
        self.done = self.failures = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's are not asyncio's
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.done += 1
        self.failures += not 200 <= self._parser.get_status_code() < 300
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self._transport.write, self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self.failures += not self._is_over

    def stop(self) -> None:
        self._is_over = True
        self._transport.abort()


async def _upload(url: str, seconds: float) -> str:
    host, _, port = url.removeprefix("http://").partition(":")
    request = request_bytes(url, chat_body(BODY_BYTES))
    uploaders = [_Uploader(request) for _ in range(UPLOADS_AT_ONCE)]
    for uploader in uploaders:
        await asyncio.get_running_loop().create_connection(lambda one=uploader: one, host, int(port))  # type: ignore[misc]  # bound on purpose
    await asyncio.sleep(seconds)
    for uploader in uploaders:
        uploader.stop()
    return f"{sum(uploader.done for uploader in uploaders)} {sum(uploader.failures for uploader in uploaders)}"


if __name__ == "__main__":
    sys.stdout.write(uvloop.run(_upload(sys.argv[1], float(sys.argv[2]))))
