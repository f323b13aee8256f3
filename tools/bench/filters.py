"""What policies and filters add to a request: gateways side by side, asked in turns, one request each.

    python -m tools.bench.filters [--requests 500] [--streams 5]

Latency is that of whole answers on kept connections, as ratios and differences to a gateway without any policy that is
asked in the same turn. Of streams it is the time to the first byte of the body, by window, from a model that writes at
a fixed pace. The detector is a fixed reply after DETECTOR_SECONDS, so that what the filter itself costs can be told.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import NamedTuple

from tests.support.integration.filtering import completion, event, events_of
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, reply, scripted_upstream
from tests.support.processes import free_port

DETECTOR_SECONDS = 0.005
PIECES, PIECE, PACE_SECONDS = 400, "five ", 0.005
"""Of a stream: 2,000 characters at 1,000 a second."""
WINDOWS = (100, 400, 1_600)
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b"
INSTRUCTION = 'instruction = "abstract"\n'


class Setting(NamedTuple):
    name: str
    policies: str
    """Lines of TOML."""


def settings(detector: str) -> list[Setting]:
    def table(name: str, more: str = "") -> str:
        return f'[mitigation.{name}]\nbase_url = "{detector}"\nmodel = "m"\n{more}\n'

    policy = '[[mitigation]]\nname = "p"\n'
    return [
        Setting("no policy", ""),
        Setting("a policy for another route", policy + 'match = { route = "/v1/messages" }\n' + INSTRUCTION),
        Setting("instruction", policy + INSTRUCTION),
        Setting("query filter", policy + table("query_filter")),
        Setting("response filter", policy + table("response_filter")),
        Setting("both filters", policy + table("query_filter") + table("response_filter")),
        *(
            Setting(f"response filter, window {window}", policy + table("response_filter", f"window = {window}"))
            for window in WINDOWS
        ),
    ]


async def model(request: ReceivedRequest, channel: Channel) -> None:
    """A whole answer at once, or events at a fixed pace."""
    if b'"stream"' not in request.body:
        await reply(completion(PIECE * PIECES))(request, channel)
        return
    await channel.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    first, *_, reason, done = events_of()
    began = perf_counter()
    for number, chunk in enumerate([first, *[event({"content": PIECE})] * PIECES, reason, done]):
        await asyncio.sleep(max(0.0, began + number * PACE_SECONDS - perf_counter()))
        await channel.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
    await channel.send(b"0\r\n\r\n")


async def detector(request: ReceivedRequest, channel: Channel) -> None:
    await asyncio.sleep(DETECTOR_SECONDS)
    await reply(completion("no"))(request, channel)


def configured(setting: Setting, upstream: str, folder: Path) -> int:
    """Writes a configuration; its port."""
    port = free_port()
    folder.mkdir()
    (folder / "biasgate.toml").write_text(
        f'[server]\nport = {port}\n[sampling]\nrate = 0.0\n[[upstreams]]\nname = "up"\nbase_url = "{upstream}"\n'
        'models = ["m"]\n' + setting.policies
    )
    return port


@contextlib.asynccontextmanager
async def gateway(setting: Setting, upstream: str, folder: Path) -> AsyncIterator[int]:
    """Port of a real gateway process of its own."""
    port = configured(setting, upstream, folder)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "gateway", cwd=folder, stdout=asyncio.subprocess.DEVNULL, stderr=None
    )
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.1)
        yield port
    finally:
        process.terminate()
        await process.wait()


class Caller:
    """One kept connection to a gateway."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def ask(self, *, stream: bool) -> tuple[float, float]:
        """Seconds until the first byte of the body, and until the answer's end."""
        streams = {"stream": True} if stream else {}
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}]} | streams).encode()
        began = perf_counter()
        self._writer.write(REQUEST % (len(body), body))
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head, head
        await self._reader.readexactly(1)
        first = perf_counter() - began
        if stream:
            await self._reader.readuntil(b"\r\n0\r\n\r\n")
        else:
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await self._reader.readexactly(length - 1)
        return first, perf_counter() - began


async def run(n_requests: int, n_streams: int) -> None:
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = await stack.enter_async_context(scripted_upstream(default=model))
        judge = await stack.enter_async_context(scripted_upstream(default=detector))
        callers: dict[str, Caller] = {}
        for number, setting in enumerate(settings(judge.base_url)):
            port = await stack.enter_async_context(gateway(setting, upstream.base_url, folder / str(number)))
            callers[setting.name] = Caller(port)
            await callers[setting.name].connect()
        whole: dict[str, list[float]] = {name: [] for name in callers}
        for turn in range(n_requests + 20):
            for name, caller in callers.items():
                _, seconds = await caller.ask(stream=False)
                if turn >= 20:  # warm
                    whole[name].append(seconds)
        firsts: dict[str, list[float]] = {name: [] for name in callers}
        for _ in range(n_streams):
            for name, caller in callers.items():
                firsts[name].append((await caller.ask(stream=True))[0])
        show(whole, firsts)


def show(whole: dict[str, list[float]], firsts: dict[str, list[float]]) -> None:
    base, base_first = whole["no policy"], median(firsts["no policy"])
    lines = [
        "| gateway | p50 ms | p99 ms | added, paired, ms | ratio of p50 | ratio of p99 | first byte of a stream, s |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for name, seconds in whole.items():
        added = median(one - other for one, other in zip(seconds, base, strict=True))
        ratios = [quantile(seconds, p) / quantile(base, p) for p in (50, 99)]
        first = median(firsts[name])
        lines.append(
            f"| {name} | {1e3 * median(seconds):.2f} | {1e3 * quantile(seconds, 99):.2f} | {1e3 * added:.2f} | "
            f"{ratios[0]:.2f} | {ratios[1]:.2f} | {first:.3f} ({first - base_first:+.3f}) |"
        )
    sys.stdout.write("\n".join(lines) + "\n")


def quantile(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100)[percent - 1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=500, help="of each gateway (default 500)")
    parser.add_argument("--streams", type=int, default=5, help="of each gateway (default 5)")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.requests, arguments.streams))
