"""Closed loop: N connections, each sends its next request when the reply is there."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.bench.gateway.arena import OTHER_CORE, Figure, Runner, figure, pinned, take_turns
from tools.bench.load import Load, chat_body, measure

SLOW = frozenset({"litellm"})
"""Measured at one case of the many: they would spend the run on queues of their own."""


class Case(NamedTuple):
    kilobytes: float
    """Of the request's body."""
    connections: int

    def __str__(self) -> str:
        return f"{self.kilobytes:g} kB, {self.connections} connection{'s' if self.connections > 1 else ''}"


ALL = [Case(kilobytes, connections) for kilobytes in (0.2, 10, 100) for connections in (1, 16, 64, 512)]
QUICK = [Case(0.2, 1), Case(0.2, 64), Case(10, 64), Case(100, 64)]
FOR_THE_SLOW = frozenset({Case(0.2, 1), Case(0.2, 16), Case(0.2, 64)})

Taken = dict[tuple[Case, str], list[tuple[Load, float]]]


def figures(runners: Sequence[Runner], cases: Sequence[Case], rounds: int, seconds: float, home: Path) -> list[Figure]:
    """Requests a second, processor time a request, and latency added to that of the direct call of the same round."""
    taken: Taken = {}

    def one(runner: Runner) -> None:
        def load(case: Case, duration: float) -> Load:
            body = chat_body(round(1000 * case.kilobytes))
            return measure(
                runner.url,
                connections=case.connections,
                seconds=duration,
                pinned=pinned(OTHER_CORE),
                home=home,
                body=body,
            )

        load(Case(0.2, 8), 1)  # warm again after the stop
        for case in cases:
            if runner.name in SLOW and case not in FOR_THE_SLOW:
                continue
            before = runner.cpu_seconds()
            found = load(case, seconds)
            spent = (runner.cpu_seconds() - before) / max(1, found.requests)
            taken.setdefault((case, runner.name), []).append((found, spent))

    take_turns(runners, rounds, one)
    return [
        one_figure
        for (case, name), loads in taken.items()
        for one_figure in _of(case, name, loads, taken[case, "direct"])
    ]


def _of(case: Case, name: str, loads: list[tuple[Load, float]], direct: list[tuple[Load, float]]) -> list[Figure]:
    failures = sum(load.failures for load, _ in loads)
    pairs = [(load, base) for (load, _), (base, _) in zip(loads, direct, strict=True)]
    columns = [
        ("requests", "1/s", [load.requests_per_second for load, _ in loads]),
        ("cpu", "us", [1e6 * spent for _, spent in loads]),
        ("p50", "ms", [1e3 * load.p50_seconds for load, _ in loads]),
        ("added p50", "ms", [1e3 * (load.p50_seconds - base.p50_seconds) for load, base in pairs]),
        ("added p99", "ms", [1e3 * (load.p99_seconds - base.p99_seconds) for load, base in pairs]),
    ]
    return [figure("closed loop", str(case), name, what, unit, values, failures) for what, unit, values in columns]
