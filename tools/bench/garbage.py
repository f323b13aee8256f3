"""Pauses of a gateway worker's garbage collector under load, as Python has it and as `processes/garbage.py` sets it.

Both gateways are real processes before the same upstream, loaded in turns over kept connections, with some more that
are open and idle. `gc.callbacks` times every collection, in processor time, since others may use the machine. Prints
their number, the longest and how much they took in all, by generation; latency's tail and the memory beside it.

Example:
  python -m tools.bench.garbage --rounds 3 --seconds 10
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec

from tests.support.processes import free_port, running
from tools.bench.footprint import resident_bytes
from tools.bench.load import Load, measure
from tools.bench.upstream import MODEL, fixed_upstream

OUTPUT = Path("bench-out")
VARIANTS = ("default", "kept off")
CONNECTIONS = 32


class Row(msgspec.Struct, frozen=True):
    """One variant, all rounds. Seconds."""

    variant: str
    collections: list[int]
    """By generation."""
    longest: list[float]
    total: list[float]
    p99: float
    """Median over rounds."""
    requests_per_second: float
    resident_bytes: int


def child(variant: str, pauses: Path, arguments: list[str]) -> int:
    """A gateway in this process that writes what its collector did, every second, and by its own clock."""
    from gateway import __main__ as gateway
    from gateway.processes import worker

    if variant == "default":

        @contextlib.asynccontextmanager
        async def untouched(_live: Callable[[], int]) -> AsyncIterator[None]:
            yield

        worker.defer_garbage_collection = untouched  # type: ignore[assignment]  # its signature differs: it collects nothing
    began, taken = 0.0, list[tuple[int, float]]()

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        else:
            taken.append((info["generation"], time.thread_time() - began))

    async def write_regularly() -> None:
        while True:
            await asyncio.sleep(0.5)
            pauses.write_text(json.dumps(taken))  # noqa: ASYNC240 - a few kilobytes, twice a second

    run = worker.Worker.serve

    async def serve(self: worker.Worker, *, migrate: bool, on_ready: Callable[[], None]) -> None:
        writing: list[asyncio.Task[None]] = []

        def ready() -> None:
            taken.clear()
            gc.callbacks.append(note)
            writing.append(asyncio.create_task(write_regularly()))
            on_ready()

        await run(self, migrate=migrate, on_ready=ready)

    worker.Worker.serve = serve  # type: ignore[method-assign]  # to note collections in the worker's own process
    return gateway.main(["gateway", *arguments])


@contextlib.contextmanager
def measured(variant: str, upstream: str, home: Path) -> Iterator[tuple[str, int, Path]]:
    """URL, process id and file of pauses of a gateway."""
    home.mkdir()
    port, config, pauses = free_port(), home / "biasgate.toml", home / "pauses.json"
    config.write_text(
        f'[server]\nport = {port}\n[store]\nurl = "sqlite:///{home}/store.db"\n[sampling]\nrate = 0.01\n'
        f'[[upstreams]]\nname = "u"\nbase_url = "{upstream}"\nmodels = ["{MODEL}"]\n'
    )
    argv = [sys.executable, "-m", "tools.bench.garbage", "--child", variant, str(pauses), "--config", str(config)]
    url = f"http://127.0.0.1:{port}"
    with running(argv, ready_url=f"{url}/readyz", log=home / "log", within_seconds=60) as process:
        yield url, process.pid, pauses


@contextlib.contextmanager
def idle(url: str, count: int) -> Iterator[None]:
    """So many connections that have asked once, and stay."""
    host, port = url.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(socket.create_connection((host, int(port))))
            one.sendall(b"GET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n")
            one.recv(65536)
        yield


def read(path: Path) -> list[tuple[int, float]]:
    return [(generation, seconds) for generation, seconds in json.loads(path.read_text())]


def bench(rounds: int, seconds: float, connections: int, home: Path) -> list[Row]:
    """Both variants in turns."""
    loads: dict[str, list[Load]] = {variant: [] for variant in VARIANTS}
    with contextlib.ExitStack() as stack:
        upstream, _ = stack.enter_context(fixed_upstream(home, []))
        up = {name: stack.enter_context(measured(name, upstream, home / name)) for name in VARIANTS}
        for url, _, _ in up.values():
            stack.enter_context(idle(url, connections))
        for number in range(rounds):
            for name in VARIANTS if number % 2 == 0 else VARIANTS[::-1]:
                loads[name].append(measure(up[name][0], connections=CONNECTIONS, seconds=seconds, pinned=[], home=home))
        time.sleep(1.5)  # so that the last of them are written, and a collection that waited for rest has come
        return [row(name, read(pauses), loads[name], resident_bytes(pid)[0]) for name, (_, pid, pauses) in up.items()]


def row(name: str, pauses: list[tuple[int, float]], loads: list[Load], resident: int) -> Row:
    by_generation = [[seconds for which, seconds in pauses if which == generation] for generation in range(3)]
    return Row(
        name,
        [len(some) for some in by_generation],
        [max(some, default=0.0) for some in by_generation],
        [sum(some) for some in by_generation],
        statistics.median(load.p99_seconds for load in loads),
        statistics.median(load.requests_per_second for load in loads),
        resident,
    )


def text(rows: list[Row]) -> str:
    """The report for a terminal."""
    lines = [f"{'':10}{'generation':>12}{'collections':>13}{'longest ms':>12}{'in all ms':>11}"]
    for row in rows:
        for generation in range(3):
            cells = (row.collections[generation], 1e3 * row.longest[generation], 1e3 * row.total[generation])
            lines.append(f"{row.variant:10}{generation:>12}{cells[0]:>13}{cells[1]:>12.2f}{cells[2]:>11.1f}")
        lines.append(
            f"{'':10}p99 {1e3 * row.p99:.2f} ms, {row.requests_per_second:,.0f} requests a second, "
            f"{row.resident_bytes / 1e6:.0f} MB"
        )
    return "\n".join(lines)


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
    parser = argparse.ArgumentParser(prog="python -m tools.bench.garbage", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of load a round and variant")
    parser.add_argument("--idle", type=int, default=500, help="connections that are open and ask nothing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="biasgate-garbage-") as scratch:
        rows = bench(arguments.rounds, arguments.seconds, arguments.idle, Path(scratch))
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "garbage.json").write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2))
    (OUTPUT / "garbage.txt").write_text(text(rows) + "\n")
    sys.stdout.write(text(rows) + "\n")
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
