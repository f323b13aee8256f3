# ruff: noqa: ASYNC110, ASYNC240 - a report is printed, and other processes and /proc are looked at
"""Reloads, ends and traces of real processes in figures: `make bench-operations`. About three minutes."""

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from gateway.config.schema import TelemetryConfig
from gateway.proxy.headers import RequestHead
from gateway.proxy.instrumentation import Instrumentation, SpanData
from tests.support.integration.collector import Collector, collecting
from tests.support.integration.load import Load, steady_load
from tests.support.integration.scraping import Scrape, scrape
from tests.support.integration.scripted_upstream import ScriptedUpstream, reply, scripted_upstream
from tests.support.integration.serving import Command, children_of, serving, write_config
from tests.support.integration.streaming import WHOLE, held, open_streams

RELOADS = 50
ENDS = 10
STREAMS = 100
TRACED = 3000
ANSWER = (
    b'{"id": "chatcmpl-1", "model": "m", "choices": [{"finish_reason": "stop", "message": {"content": "'
    + b"word " * 60
    + b'"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 60}}'
)


@asynccontextmanager
async def gateway(
    upstream: ScriptedUpstream, extra: str = "", *, workers: int = 2
) -> AsyncIterator[tuple[Command, Path]]:
    with tempfile.TemporaryDirectory() as directory:
        path = write_config(Path(directory), upstream.base_url, extra)
        environ = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        async with serving("gateway", "--config", str(path), "--workers", str(workers), environ=environ) as running:
            yield running, path


async def reloads() -> None:
    """Under load: how long until all workers serve by the new file, and what it costs the clients."""
    seconds = []
    async with (
        scripted_upstream() as first,
        scripted_upstream() as second,
        gateway(first) as (running, path),
        steady_load(running.root, connections=16) as load,
        client(running) as http,
    ):
        for number in range(1, RELOADS + 1):
            write_config(path.parent, (first, second)[number % 2].base_url, f"max_body_bytes = {10**6 + number}\n")
            began = time.perf_counter()
            running.process.send_signal(signal.SIGHUP)
            line = await running.line("configuration reloaded", count=number)
            name = line.split("configuration reloaded: ")[1].split(" is in force")[0]
            while (await scrape(http)).value("biasgate_config_workers", config=name) != 2:
                await asyncio.sleep(0.02)
            seconds.append(time.perf_counter() - began)
            await load.more(50)
    print(
        f"{RELOADS} reloads of 2 workers under load: {load.answered} requests, {len(load.failures)} failed; "
        f"in force after {statistics.median(seconds):.2f} s (median), {max(seconds):.2f} s (longest)"
    )


async def ends_with_streams() -> None:
    """SIGTERM with live streams: how many are cut, and how fast the port is deaf."""
    cut, deaf = 0, []
    for _ in range(ENDS):
        release = asyncio.Event()
        async with (
            scripted_upstream(default=held(release)) as upstream,
            gateway(upstream) as (running, _),
            open_streams(running.root) as opened,
        ):
            streams = [await opened.open() for _ in range(STREAMS)]
            began = time.perf_counter()
            running.process.send_signal(signal.SIGTERM)
            while await accepts(running):
                await asyncio.sleep(0.005)
            deaf.append(time.perf_counter() - began)
            release.set()
            cut += sum(text != WHOLE for text in await asyncio.gather(*(stream.rest() for stream in streams)))
            assert await running.exit_code() == 0
    print(
        f"{ENDS} x SIGTERM with {STREAMS} streams: {cut} cut; new connections refused after "
        f"{statistics.median(deaf) * 1000:.0f} ms (median), {max(deaf) * 1000:.0f} ms (longest)"
    )


async def ends_under_load(notice: float) -> None:
    """SIGTERM under load on kept connections: what clients see besides refused connections."""
    answered, seen = 0, []
    for _ in range(ENDS):
        async with (
            scripted_upstream() as upstream,
            gateway(upstream, f"drain_notice_seconds = {notice}\n") as (running, _),
            steady_load(running.root, connections=16) as load,
        ):
            await load.more(200)
            running.process.send_signal(signal.SIGTERM)
            assert await running.exit_code() == 0
        answered += load.answered
        seen += load.failures
    other = [failure for failure in seen if not failure.startswith("ConnectError")]
    print(
        f"{ENDS} x SIGTERM under load, notice {notice:g} s: {answered} answered; then {len(seen) - len(other)} refused "
        f"connections and {len(other)} other failures {sorted(set(other))}"
    )


async def killed_workers() -> None:
    """kill -9 under load: failures per kill with 16 connections open, and the time until a new worker serves."""
    back, load = [], Load()
    async with scripted_upstream() as upstream, gateway(upstream) as (running, _), client(running) as http:
        for number in range(1, 6):
            async with steady_load(running.root, connections=16) as one:
                await one.more(100)
                began = time.perf_counter()
                os.kill(children_of(running.process.pid)["gateway"][0], signal.SIGKILL)
                await running.line("is started again", count=number)
                async with steady_load(running.root, connections=2) as after:
                    await after.more(50)
                load.failures += after.failures
            while True:
                try:
                    workers = (await scrape(http)).totals("biasgate_config_workers")
                except httpx.TransportError:
                    continue
                if workers == [2]:
                    break
                await asyncio.sleep(0.05)
            back.append(time.perf_counter() - began)
            load.upstreams += one.upstreams
            load.failures += one.failures
    print(
        f"5 x kill -9 of one of 2 workers under load: {load.answered} answered, {len(load.failures)} of 80 connections "
        f"broke; second worker back after {statistics.median(back):.1f} s (median)"
    )


async def traces() -> None:
    """CPU time of the gateway per request, with and without traces; counted in the process, so load does not matter."""
    async with scripted_upstream(default=reply(ANSWER)) as upstream, collecting() as collector:
        for what, extra in (("off", ""), ("on", telemetry(collector)), ("on, rate 0.01", telemetry(collector, 0.01))):
            async with gateway(upstream, extra, workers=1) as (running, _):
                pid = running.process.pid
                async with steady_load(running.root, connections=4) as load:
                    await load.more(500)
                    began, answered = cpu_seconds(pid), load.answered
                    await load.more(TRACED)
                    spent = (cpu_seconds(pid) - began) / (load.answered - answered)
                async with client(running) as http:
                    seen: Scrape = await scrape(http)
                resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            print(
                f"traces {what}: {spent * 1e6:.0f} us CPU a request, {resident / 2**20:.0f} MiB, "
                f"spans {sum(seen.totals('biasgate_trace_spans_total')):.0f}"
            )


def hooks() -> None:
    """What one exchange costs in the event loop, in nanoseconds: not observed, and traced."""

    class Forgetting:
        def on_end(self, span: SpanData) -> None: ...

    class Exchange:
        instrumentation: Instrumentation | None = None

    head = RequestHead([])
    instrumentation, plane, count = Instrumentation(TelemetryConfig(), Forgetting()), Exchange(), 200_000

    def off() -> None:
        # As in Relay: begin, request head, one piece of body, end.
        span = plane.instrumentation.start_span(head) if plane.instrumentation is not None else None
        _ = head.traceparent_line if span is None else span.traceparent_line
        if span is not None:
            span.on_response_body(ANSWER)
        if plane.instrumentation is not None:
            raise AssertionError

    def on() -> None:
        span = instrumentation.start_span(head)
        assert span is not None
        span.on_response_body(ANSWER)

    for what, action in (("off", off), ("on, until its end", on)):
        began = time.perf_counter()
        for _ in range(count):
            action()
        print(f"hooks {what}: {(time.perf_counter() - began) / count * 1e9:.0f} ns a request")


def telemetry(collector: Collector, rate: float = 1.0) -> str:
    return f'[telemetry]\notlp_endpoint = "{collector.url}"\ntrace_rate = {rate}\n'


def client(running: Command) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=running.root, verify=False, trust_env=False, timeout=30)


async def accepts(running: Command) -> bool:
    host, port = running.root.removeprefix("http://").split(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main() -> int:
    hooks()
    await traces()
    await reloads()
    await ends_with_streams()
    for notice in (0.0, 1.0):
        await ends_under_load(notice)
    await killed_workers()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
