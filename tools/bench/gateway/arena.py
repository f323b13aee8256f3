"""Who is measured: programs on one core of their own, stopped while it is another's turn, and what they used of it."""

import contextlib
import os
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tests.support.processes import free_port, running
from tools.bench.contestants import Contestant

READY_SECONDS = 90
CORES = os.cpu_count() or 1
GATEWAY_CORE = 0
OTHER_CORE = 1
"""Load generator and upstream."""


class Figure(msgspec.Struct, frozen=True):
    """One measured quantity of one contestant: median and range over rounds."""

    section: str
    case: str
    who: str
    what: str
    unit: str
    median: float
    low: float
    high: float
    failures: int = 0
    """Replies other than 2xx, broken connections, lost events: any makes the row worthless."""


class Runner(msgspec.Struct):
    """A program that is up; the direct call has no process."""

    name: str
    url: str
    pid: int | None = None

    def signal(self, number: signal.Signals) -> None:
        """To all its processes: some are in sessions of their own."""
        for pid in tree(self.pid) if self.pid is not None else ():
            os.kill(pid, number)

    def cpu_seconds(self) -> float:
        """Processor time of all its threads and children that are alive."""
        return sum(map(cpu_seconds_of, tree(self.pid))) if self.pid is not None else 0.0

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Lets it run until the block ends."""
        self.signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.signal(signal.SIGSTOP)


def pinned(core: int | None) -> list[str]:
    """Prefix that keeps a program on one core; nothing on a machine with a single one, or for None."""
    if core is None or CORES == 1 or not shutil.which("taskset"):
        return []
    return ["taskset", "-c", str(core)]


@contextlib.contextmanager
def up(contestant: Contestant, upstream: str, home: Path, *, core: int | None = GATEWAY_CORE) -> Iterator[Runner]:
    """The program, ready and stopped until its turn. Raises Missing, or RuntimeError when it does not come up."""
    home.mkdir()
    port = free_port()
    command = contestant.command(upstream, port, home)
    url = f"http://127.0.0.1:{port}"
    with running(
        [*pinned(core), *command.argv],
        ready_url=url + command.ready_path,
        log=home / "log",
        environ=command.environ,
        within_seconds=READY_SECONDS,
    ) as process:
        runner = Runner(contestant.name, url, process.pid)
        runner.signal(signal.SIGSTOP)
        try:
            yield runner
        finally:
            runner.signal(signal.SIGCONT)


def take_turns(runners: Sequence[Runner], rounds: int, measure: Callable[[Runner], None]) -> None:
    """Calls `measure` for every runner once a round, so that whatever else the machine does meets all alike."""
    for number in range(1, rounds + 1):
        for runner in runners:
            say(f"  round {number}/{rounds}: {runner.name}")
            with runner.turn():
                measure(runner)


def figure(
    section: str, case: str, who: str, what: str, unit: str, values: Sequence[float], failures: int = 0
) -> Figure:
    """Median and range of one value a round."""
    return Figure(section, case, who, what, unit, statistics.median(values), min(values), max(values), failures)


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in map(int, children) for one in tree(child))]


def resident_bytes(pid: int) -> int:
    """Resident memory of one process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def say(text: str) -> None:
    """Progress of a long run, beside the results."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def cpu_seconds_of(pid: int) -> float:
    """By the scheduler's own count, which is finer than clock ticks."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end while we look
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9
