"""Closed-loop load: N connections, each sends its next request when the reply is there. wrk, or asyncio without wrk."""

import asyncio
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httptools
import msgspec
import numpy as np
import uvloop

from tools.bench.upstream import MODEL

PATH = "/v1/chat/completions"
_QUESTION = "Which of the two is the better one? "
WRK_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


class Load(msgspec.Struct, frozen=True):
    """One measurement. Failures are replies other than 2xx, and broken connections."""

    requests_per_second: float
    p50_seconds: float
    p99_seconds: float
    requests: int
    failures: int


def chat_body(size: int, **more: object) -> bytes:
    """A chat request of about that many bytes."""
    content = (_QUESTION * (1 + size // len(_QUESTION)))[: max(1, size - 90)]
    message = {"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": 16}
    return msgspec.json.encode({**message, **more})


BODY = chat_body(130)


def request_bytes(host: str, body: bytes) -> bytes:
    """One keep-alive request."""
    head = f"POST {PATH} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\nauthorization: Bearer bench\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def generator() -> str:
    """Which load generator this machine has."""
    return "wrk" if shutil.which("wrk") else "asyncio"


def measure(
    url: str, *, connections: int, seconds: float, pinned: Sequence[str], home: Path, body: bytes = BODY
) -> Load:
    """Loads `url` from the given core for a while."""
    if generator() == "wrk":
        return _wrk(url, connections, seconds, pinned, home, body)
    argv = [*pinned, sys.executable, "-m", "tools.bench.load", url, str(connections), str(seconds), str(len(body))]
    done = subprocess.run(argv, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Load)


def _wrk(url: str, connections: int, seconds: float, pinned: Sequence[str], home: Path, body: bytes) -> Load:
    script = home / "post.lua"
    quoted = body.decode().replace("'", "\\'")
    script.write_text(
        f"wrk.method = 'POST'\nwrk.body = '{quoted}'\nwrk.headers['content-type'] = 'application/json'\n"
        "wrk.headers['authorization'] = 'Bearer bench'\n"
    )
    duration = max(1, round(seconds))
    argv = [*pinned, "wrk", "-t1", f"-c{connections}", f"-d{duration}s", "--timeout", "30s", "--latency"]
    done = subprocess.run([*argv, "-s", str(script), url + PATH], capture_output=True, text=True, check=True)
    return parse_wrk(done.stdout)


def parse_wrk(text: str) -> Load:
    """Reads wrk's report."""
    latency = {level: _wrk_seconds(text, level) for level in ("50%", "99%")}
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    total = re.search(r"(\d+) requests in", text)
    assert rate is not None, text
    assert total is not None, text
    broken = [int(n) for n in re.findall(r"(?:connect|read|write|timeout|responses:) (\d+)", text)]
    return Load(float(rate[1]), latency["50%"], latency["99%"], int(total[1]), sum(broken))


def _wrk_seconds(text: str, level: str) -> float:
    found = re.search(rf"{level}\s+([\d.]+)(us|ms|s|m)\b", text)
    assert found is not None, text
    return float(found[1]) * WRK_UNITS[found[2]]


class _Client(asyncio.Protocol):
    """One connection that asks again as soon as it is answered."""

    def __init__(self, request: bytes, until: float, latencies: list[float]) -> None:
        self._request, self._until, self._latencies = request, until, latencies
        self.failures = 0
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's are not asyncio's
        self._parser = httptools.HttpResponseParser(self)
        self._ask()

    def _ask(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        now = time.perf_counter()
        self._latencies.append(now - self._sent)
        self.failures += not 200 <= self._parser.get_status_code() < 300
        if now < self._until:
            asyncio.get_running_loop().call_soon(self._ask)
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.failures += time.perf_counter() < self._until
        self.closed.set_result(None)


async def _closed_loop(url: str, connections: int, seconds: float, size: int) -> Load:
    host, _, port = url.removeprefix("http://").partition(":")
    request = request_bytes(host, chat_body(size))
    loop, latencies = asyncio.get_running_loop(), list[float]()
    started = time.perf_counter()
    clients = [_Client(request, started + seconds, latencies) for _ in range(connections)]
    for client in clients:
        await loop.create_connection(lambda client=client: client, host, int(port))  # type: ignore[misc]  # bound on purpose
    await asyncio.gather(*(client.closed for client in clients))
    elapsed = time.perf_counter() - started
    p50, p99 = np.percentile(latencies, [50, 99])
    failures = sum(client.failures for client in clients)
    return Load(len(latencies) / elapsed, float(p50), float(p99), len(latencies), failures)


if __name__ == "__main__":
    result = uvloop.run(_closed_loop(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
    sys.stdout.buffer.write(msgspec.json.encode(result))
