"""What more workers bring, what a request costs in them, and how evenly connections fall on them."""

from collections.abc import Sequence
from pathlib import Path

from tools.bench.gateway.arena import CORES, Figure, Runner, cpu_seconds_of, figure, pinned, take_turns, tree
from tools.bench.load import measure

CONNECTIONS = 64


def figures(runners: Sequence[Runner], rounds: int, seconds: float, home: Path) -> list[Figure]:
    """Of gateways that differ in the number of their workers and share the machine's cores.

    On two cores, load generator and upstream run on those of the gateway: processor time per request then says what the
    rate cannot.
    """
    far = pinned(CORES - 1) if CORES > 2 else []
    case = f"{CONNECTIONS} connections" + ("" if far else ", load and upstream on the same two cores")
    taken: dict[str, list[tuple[float, float, float, int]]] = {}

    def one(runner: Runner) -> None:
        before = _spent(runner)
        found = measure(runner.url, connections=CONNECTIONS, seconds=seconds, pinned=far, home=home)
        after = _spent(runner)
        spent = sorted(after[pid] - before.get(pid, 0.0) for pid in after)
        total = sum(spent)
        row = (found.requests_per_second, 1e6 * total / max(1, found.requests), spent[-1] / total, found.failures)
        taken.setdefault(runner.name, []).append(row)

    take_turns(runners, rounds, one)
    return [
        figure("workers", case, name, what, unit, [row[column] for row in rows], sum(row[3] for row in rows))
        for name, rows in taken.items()
        for column, what, unit in ((0, "requests", "1/s"), (1, "cpu", "us/request"), (2, "busiest", "of all cpu"))
    ]


def _spent(runner: Runner) -> dict[int, float]:
    """Processor time of each process of the gateway."""
    assert runner.pid is not None
    return {pid: cpu_seconds_of(pid) for pid in tree(runner.pid)}
