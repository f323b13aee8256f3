"""Processor time per server-sent event, and how late an event arrives."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tests.support.processes import free_port, running
from tools.bench.gateway.arena import OTHER_CORE, Figure, Runner, figure, pinned, take_turns
from tools.bench.gateway.readers import Reading

EVENTS = 100
INTERVAL_SECONDS = 0.01


@contextlib.contextmanager
def streaming_upstream(home: Path, count: int = EVENTS, interval: float = INTERVAL_SECONDS) -> Iterator[str]:
    """Runs it until the block ends; yields its base URL."""
    port = free_port()
    argv = [*pinned(OTHER_CORE), sys.executable, "-m", "tools.bench.gateway.events", str(port), str(count)]
    url = f"http://127.0.0.1:{port}"
    with running([*argv, str(interval)], ready_url=f"{url}/health", log=home / "events.log"):
        yield url


def read(runner: Runner, connections: int, seconds: float) -> tuple[Reading, float]:
    """What readers on another core saw, and the processor time that the runner spent meanwhile (seconds)."""
    argv = [*pinned(OTHER_CORE), sys.executable, "-m", "tools.bench.gateway.readers", runner.url]
    with subprocess.Popen([*argv, str(connections), str(seconds)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        before = runner.cpu_seconds()
        assert process.stdout.readline() == b"done\n"
        spent = runner.cpu_seconds() - before
        return msgspec.json.decode(process.stdout.read(), type=Reading), spent


def figures(runners: Sequence[Runner], connections: Sequence[int], rounds: int, seconds: float) -> list[Figure]:
    """By number of connections."""
    taken: dict[tuple[int, str], list[tuple[Reading, float]]] = {}

    def one(runner: Runner) -> None:
        for number in connections:
            taken.setdefault((number, runner.name), []).append(read(runner, number, seconds))

    take_turns(runners, rounds, one)
    return [
        figure("streams", f"{number} connections", name, what, unit, values, sum(r.failures for r, _ in readings))
        for (number, name), readings in taken.items()
        for what, unit, values in (
            ("events", "1/s", [reading.events / seconds for reading, _ in readings]),
            ("cpu per event", "us", [1e6 * spent / max(1, reading.events) for reading, spent in readings]),
            ("lag p50", "ms", [1e3 * reading.lag_p50_seconds for reading, _ in readings]),
            ("lag p99", "ms", [1e3 * reading.lag_p99_seconds for reading, _ in readings]),
        )
    ]
