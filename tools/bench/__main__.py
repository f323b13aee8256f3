"""Requests per second and added latency of gateways, measured in one run, in interleaved rounds.

The gateway under test has one core to itself; upstream and load generator share another. Gateways that are not being
measured are stopped (SIGSTOP), so that they take nothing from the one that is.
"""

import argparse
import contextlib
import os
import platform
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.support.processes import free_port, running
from tools.bench.contestants import CONTESTANTS, Contestant, Missing
from tools.bench.footprint import resident_bytes, start_seconds
from tools.bench.gateway.arena import tree
from tools.bench.load import Load, generator, measure
from tools.bench.upstream import fixed_upstream

CONNECTIONS = (1, 32)
OUTPUT = Path("bench-out")


class Runner(msgspec.Struct):
    """A gateway that is up; the direct call has no process."""

    name: str
    url: str
    pid: int | None = None

    def signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            for pid in tree(self.pid):  # some are in sessions of their own
                os.kill(pid, number)


class Row(msgspec.Struct):
    """One gateway at one number of connections: medians over the rounds. Latency in seconds, added = minus direct."""

    name: str
    connections: int
    requests_per_second: float
    p50_seconds: float
    p99_seconds: float
    added_p50_seconds: float
    added_p99_seconds: float
    requests: int
    failures: int


def pin(core: int) -> list[str]:
    """Prefix that keeps a program on one core; nothing on a machine with a single one."""
    return ["taskset", "-c", str(core)] if shutil.which("taskset") and (os.cpu_count() or 1) > 1 else []


@contextlib.contextmanager
def up(contestant: Contestant, upstream: str, home: Path) -> Iterator[Runner]:
    """The gateway, ready and then stopped until it is its turn. Raises Missing."""
    home.mkdir()
    port = free_port()
    command = contestant.command(upstream, port, home)
    url = f"http://127.0.0.1:{port}"
    ready = f"{url}{command.ready_path}"
    with running(
        [*pin(0), *command.argv], ready_url=ready, log=home / "log", environ=command.environ, within_seconds=90
    ) as process:
        runner = Runner(contestant.name, url, process.pid)
        runner.signal(signal.SIGSTOP)
        try:
            yield runner
        finally:
            runner.signal(signal.SIGCONT)


def take_turns(runners: list[Runner], rounds: int, seconds: float, home: Path) -> dict[tuple[str, int], list[Load]]:
    """Measures every gateway once a round, at each number of connections."""
    taken: dict[tuple[str, int], list[Load]] = {}
    for number in range(1, rounds + 1):
        for runner in runners:
            say(f"round {number}/{rounds}: {runner.name}")
            runner.signal(signal.SIGCONT)
            measure(runner.url, connections=8, seconds=1, pinned=pin(1), home=home)  # warm again after the stop
            for connections in CONNECTIONS:
                load = measure(runner.url, connections=connections, seconds=seconds, pinned=pin(1), home=home)
                taken.setdefault((runner.name, connections), []).append(load)
            runner.signal(signal.SIGSTOP)
    return taken


def rows(taken: dict[tuple[str, int], list[Load]]) -> list[Row]:
    """Medians over rounds; what a gateway adds is taken against the direct call of the same round."""
    return [
        summarise(name, connections, loads, taken["direct", connections])
        for (name, connections), loads in taken.items()
    ]


def summarise(name: str, connections: int, loads: list[Load], direct: list[Load]) -> Row:
    pairs = list(zip(loads, direct, strict=True))
    return Row(
        name,
        connections,
        statistics.median(load.requests_per_second for load in loads),
        statistics.median(load.p50_seconds for load in loads),
        statistics.median(load.p99_seconds for load in loads),
        statistics.median(load.p50_seconds - base.p50_seconds for load, base in pairs),
        statistics.median(load.p99_seconds - base.p99_seconds for load, base in pairs),
        sum(load.requests for load in loads),
        sum(load.failures for load in loads),
    )


def table(found: list[Row]) -> str:
    """The rows as text, by connections, fastest first."""
    head = f"{'':24}{'requests/s':>12}{'p50 ms':>10}{'p99 ms':>10}{'added p50':>11}{'added p99':>11}{'failures':>10}"
    lines = []
    for connections in CONNECTIONS:
        lines += ["", f"{connections} connection{'s' if connections > 1 else ''}", head]
        chosen = [row for row in found if row.connections == connections]
        for row in sorted(chosen, key=lambda row: -row.requests_per_second):
            times = (row.p50_seconds, row.p99_seconds, row.added_p50_seconds, row.added_p99_seconds)
            p50, p99, added_p50, added_p99 = (f"{1000 * seconds:.3f}" for seconds in times)
            failures = f"{row.failures}/{row.requests}" if row.failures else "0"
            lines.append(
                f"{row.name:24}{row.requests_per_second:>12,.0f}{p50:>10}{p99:>10}{added_p50:>11}{added_p99:>11}{failures:>10}"
            )
    return "\n".join(lines)


def say(text: str) -> None:
    """Progress of a long run, beside the results."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Report(msgspec.Struct, kw_only=True):
    """bench-out/bench.json."""

    cores: int
    python: str
    load_generator: str
    upstream: str
    rounds: int
    seconds: float
    rows: list[Row]
    biasgate_start_seconds: float
    resident_bytes_fresh: dict[str, list[int]]
    """By gateway: one number a process, largest first."""
    resident_bytes_after_load: dict[str, list[int]]
    not_measured: dict[str, str]
    finished: float


def bench(arguments: argparse.Namespace, home: Path) -> Report:
    """Runs everything in an empty directory."""
    chosen = [
        contestant for contestant in CONTESTANTS if not arguments.only or contestant.name in arguments.only.split(";")
    ]
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        upstream, kind = stack.enter_context(fixed_upstream(home, pin(1)))
        startup = start_seconds(upstream, home, times=1 if arguments.rounds == 1 else 5)
        runners = [Runner("direct", upstream)]
        for number, contestant in enumerate(chosen):
            say(f"starting {contestant.name}")
            try:
                runners.append(stack.enter_context(up(contestant, upstream, home / str(number))))
            except (Missing, RuntimeError) as exc:
                missing[contestant.name] = str(exc)
        fresh = memory(runners)
        found = rows(take_turns(runners, arguments.rounds, arguments.seconds, home))
        return Report(
            cores=os.cpu_count() or 1,
            python=platform.python_version(),
            load_generator=generator(),
            upstream=kind,
            rounds=arguments.rounds,
            seconds=arguments.seconds,
            rows=found,
            biasgate_start_seconds=startup,
            resident_bytes_fresh=fresh,
            resident_bytes_after_load=memory(runners),
            not_measured=missing,
            finished=time.time(),
        )


def memory(runners: list[Runner]) -> dict[str, list[int]]:
    """Resident bytes of each process of each of our gateways."""
    return {
        runner.name: resident_bytes(runner.pid)
        for runner in runners
        if runner.pid and runner.name.startswith("biasgate")
    }


def text(report: Report) -> str:
    """The report for a terminal."""
    lines = [
        table(report.rows),
        "",
        f"load by {report.load_generator}, upstream {report.upstream}, medians of {report.rounds} round(s) of "
        f"{report.seconds:g} s, {report.cores} cores; added = minus the direct call of the same round",
        f"biasgate gateway: ready after {report.biasgate_start_seconds:.2f} s (aim: under 1.5)",
    ]
    for name, fresh in report.resident_bytes_fresh.items():
        after = report.resident_bytes_after_load[name]
        lines.append(
            f"{name}: resident {megabytes(fresh)} fresh, {megabytes(after)} after load (aim: under 90 a worker)"
        )
    lines += [f"not measured: {name}: {reason}" for name, reason in report.not_measured.items()]
    return "\n".join(lines)


def megabytes(sizes: list[int]) -> str:
    return " + ".join(f"{size / 1e6:.0f}" for size in sizes) + " MB"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, about a minute")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of load per gateway, connections and round")
    parser.add_argument("--only", help="names as printed, with ; between them")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 2.0
    with tempfile.TemporaryDirectory(prefix="biasgate-bench-") as scratch:
        report = bench(arguments, Path(scratch))
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "bench.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    (OUTPUT / "bench.txt").write_text(text(report) + "\n")
    sys.stdout.write(text(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
