"""How soon an upstream learns that a client has left: every endpoint, streaming or not, at three moments.

The gateway is a process of its own; client and upstream share this one and its monotonic clock. Beside it the same
client and upstream without a gateway, which is what the measurement itself costs.

Example:
  python -m tools.bench.ends --times 100
"""

import argparse
import asyncio
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

import msgspec

from tests.support.integration.endings import ENDPOINTS, Moment, begun, body_of, waiting
from tests.support.integration.scripted_upstream import ScriptedUpstream, scripted_upstream
from tools.bench.fleet import Behind, gateway_in_front

OUTPUT = Path("bench-out")
AIM_SECONDS = 0.25
OUTCOME = 'outcome="client_disconnected"'


class Row(msgspec.Struct, frozen=True):
    """Seconds from the client's close to the upstream's end of file, over all repetitions."""

    endpoint: str
    stream: bool
    moment: Moment
    times: int
    median_seconds: float
    p99_seconds: float
    max_seconds: float


class Report(msgspec.Struct, frozen=True):
    """bench-out/ends.json."""

    gateway: list[Row]
    direct: list[Row]
    counted: int
    """client_disconnected in the gateway's own metrics."""
    counted_otherwise: int
    """Requests that its metrics say ended in any other way."""


async def seconds_until_heard(port: int, upstream: ScriptedUpstream, path: str, moment: Moment, stream: bool) -> float:
    """Asks, reads as far as the moment says, closes, and waits for the upstream to see it."""
    body, asked = body_of(path, stream=stream), len(upstream.requests)
    upstream.closed.clear()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST %b HTTP/1.1\r\nHost: g\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body))
    while len(upstream.requests) == asked:  # noqa: ASYNC110 - the wait is not what is measured
        await asyncio.sleep(0.0005)
    if last_read := begun(moment, stream=stream)[1]:
        await reader.readuntil(last_read)
    left_at = time.monotonic()
    writer.close()
    await asyncio.wait_for(upstream.closed.wait(), 30)
    return time.monotonic() - left_at


async def rows(port: int, upstream: ScriptedUpstream, times: int) -> list[Row]:
    """One row a cell of the matrix."""
    found = []
    for path in ENDPOINTS:
        for stream in (True, False):
            for moment in get_args(Moment):
                upstream.default = waiting(moment, stream=stream)
                seconds = sorted(
                    [await seconds_until_heard(port, upstream, path, moment, stream) for _ in range(times)]
                )
                p99 = seconds[math.ceil(0.99 * len(seconds)) - 1]
                found.append(Row(path, stream, moment, times, statistics.median(seconds), p99, seconds[-1]))
    return found


async def measure(times: int, home: Path) -> Report:
    """Gateway, then direct."""
    async with scripted_upstream() as upstream:
        starting = gateway_in_front([Behind("up", upstream.base_url, model="m")], home)
        port = await asyncio.to_thread(starting.__enter__)
        try:
            gateway = await rows(port, upstream, times)
            ends = await _ends(port)
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)
        direct = await rows(upstream.port, upstream, times)
    left = sum(count for labels, count in ends if OUTCOME in labels)
    return Report(gateway, direct, left, sum(count for _, count in ends) - left)


async def _ends(port: int) -> list[tuple[str, int]]:
    """Labels and value of each series of biasgate_requests_total."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith("biasgate_requests_total{")]
    return [(labels, int(float(value))) for labels, _, value in lines]


def text(report: Report) -> str:
    """The report for a terminal."""
    lines = [f"{'milliseconds':24}{'':8}{'moment':>8}{'median':>9}{'p99':>9}{'max':>9}{'direct median':>15}"]
    for row, direct in zip(report.gateway, report.direct, strict=True):
        times = "".join(f"{1000 * t:>9.2f}" for t in (row.median_seconds, row.p99_seconds, row.max_seconds))
        kind = "stream" if row.stream else "whole"
        lines.append(f"{row.endpoint:24}{kind:8}{row.moment:>8}{times}{1000 * direct.median_seconds:>15.2f}")
    asked = sum(row.times for row in report.gateway)
    lines.append(f"{asked} aborts; counted client_disconnected {report.counted}, otherwise {report.counted_otherwise}")
    lines.append(
        f"slowest {1000 * max(row.max_seconds for row in report.gateway):.2f} ms (aim: {1000 * AIM_SECONDS:g})"
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.ends", description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="for each endpoint, kind and moment")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="biasgate-ends-") as scratch:
        report = asyncio.run(measure(arguments.times, Path(scratch)))
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "ends.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    (OUTPUT / "ends.txt").write_text(text(report) + "\n")
    sys.stdout.write(text(report) + "\n")
    asked = sum(row.times for row in report.gateway)
    in_time = all(row.max_seconds <= AIM_SECONDS for row in report.gateway)
    return 0 if in_time and (report.counted, report.counted_otherwise) == (asked, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
