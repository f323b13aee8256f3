"""Runs every section, writes bench-out/gateway.json and gateway.txt: `python -m tools.bench.gateway [--quick]`."""

import argparse
import contextlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tools.bench.contestants import Contestant, Missing, biasgate, litellm, nginx_proxy, vllm_router
from tools.bench.footprint import start_seconds
from tools.bench.gateway import closed, endurance, liveness, paced, streams, workers
from tools.bench.gateway.aims import OURS, table, verdicts
from tools.bench.gateway.arena import CORES, OTHER_CORE, Figure, Runner, figure, pinned, say, up
from tools.bench.load import generator
from tools.bench.upstream import fixed_upstream

OUTPUT = Path("bench-out")
NGINX = Contestant("nginx proxy_pass", nginx_proxy)
ROUTER = Contestant("vllm-router", vllm_router)
SAMPLED = Contestant(OURS, biasgate(0.01))
CONTESTANTS = [
    NGINX,
    Contestant("biasgate, no sampling", biasgate(0.0)),
    SAMPLED,
    Contestant("biasgate, all sampled", biasgate(1.0)),
    ROUTER,
    Contestant("litellm", litellm),
]
SECTIONS = ("closed", "paced", "streams", "workers", "endurance", "start", "livez")


class Report(msgspec.Struct, kw_only=True):
    """bench-out/gateway.json."""

    processor: str
    cores: int
    python: str
    load_generator: str
    upstream: str
    load_average_before: tuple[float, float, float]
    load_average_after: tuple[float, float, float]
    """Above about 1 before the start, somebody else worked on this machine: ratios hold better than rates."""
    rounds: int
    seconds: float
    figures: list[Figure]
    not_measured: dict[str, str]
    finished: float


class Bench:
    """One run in an empty directory."""

    def __init__(self, options: argparse.Namespace, home: Path) -> None:
        self._options = options
        self._home = home
        self._places = 0
        self.kind = ""
        self.figures: list[Figure] = []
        self.missing: dict[str, str] = {}

    def run(self) -> Iterator[str]:
        """Yields after each section, so that a run which is broken off leaves what it has measured."""
        options = self._options
        with fixed_upstream(self._home, pinned(OTHER_CORE)) as (upstream, self.kind):
            if {"closed", "paced"} & set(options.sections):
                yield from self._requests(upstream)
            if "workers" in options.sections:
                self._workers(upstream)
                yield "workers"
            if "endurance" in options.sections:
                with self._up([SAMPLED], upstream) as runners:
                    for runner in runners:
                        self.figures += endurance.figures(runner, options.requests)
                yield "endurance"
            if "start" in options.sections:
                times = [start_seconds(upstream, self._home, times=1) for _ in range(2 * options.rounds - 1)]
                self.figures.append(figure("start", "", OURS, "ready", "s", times))
                yield "start"
        if "streams" in options.sections:
            self._streams()
            yield "streams"
        if "livez" in options.sections:
            self._livez()
            yield "livez"

    def _requests(self, upstream: str) -> Iterator[str]:
        options, direct = self._options, Runner("direct", upstream)
        with self._up(CONTESTANTS, upstream) as runners:
            if "closed" in options.sections:
                say("closed loop")
                cases = closed.QUICK if options.quick else closed.ALL
                self.figures += closed.figures([direct, *runners], cases, options.rounds, options.seconds, self._home)
                yield "closed"
            if "paced" in options.sections:
                say("open loop")
                chosen = [runner for runner in runners if runner.name in {NGINX.name, OURS, ROUTER.name}]
                rates = (50, 1000) if options.quick else (50, 500, 1000, 2000)
                self.figures += paced.figures([direct, *chosen], rates, options.rounds, options.seconds)
                yield "paced"

    def _workers(self, upstream: str) -> None:
        """One and two workers on the same two cores, so that only their number differs."""
        say("workers")
        contestants = [
            Contestant("1 worker", biasgate(0.01)),
            Contestant("2 workers", biasgate(0.01, workers=2)),
        ]
        with self._up(contestants, upstream, core=None) as runners:
            self.figures += workers.figures(runners, self._options.rounds, self._options.seconds, self._home)

    def _streams(self) -> None:
        say("streams")
        connections = (200,) if self._options.quick else (200, 1000)
        with (
            streams.streaming_upstream(self._home) as upstream,
            self._up([NGINX, SAMPLED, ROUTER], upstream) as runners,
        ):
            everyone = [Runner("direct", upstream), *runners]
            self.figures += streams.figures(everyone, connections, self._options.rounds, self._options.seconds)

    def _livez(self) -> None:
        say("/livez")
        with (
            streams.streaming_upstream(self._home, 1_000_000, liveness.INTERVAL_SECONDS) as upstream,
            self._up([SAMPLED], upstream) as runners,
        ):
            for runner in runners:
                self.figures += liveness.figures(runner, max(5.0, 3 * self._options.seconds))

    @contextlib.contextmanager
    def _up(self, contestants: Sequence[Contestant], upstream: str, **where: int | None) -> Iterator[list[Runner]]:
        """Those that this machine has."""
        with contextlib.ExitStack() as stack:
            runners = []
            for contestant in contestants:
                if self._options.only and contestant.name not in self._options.only.split(";"):
                    continue
                if contestant.name in self.missing:
                    continue
                say(f"starting {contestant.name}")
                self._places += 1
                try:
                    home = self._home / str(self._places)
                    runners.append(stack.enter_context(up(contestant, upstream, home, **where)))
                except (Missing, RuntimeError) as exc:
                    self.missing[contestant.name] = str(exc)
            yield runners


def reported(bench: Bench, options: argparse.Namespace, load_before: tuple[float, float, float]) -> Report:
    """What is measured so far, also left in files."""
    report = Report(
        processor=processor(),
        cores=CORES,
        python=platform.python_version(),
        load_generator=generator(),
        upstream=bench.kind,
        load_average_before=load_before,
        load_average_after=os.getloadavg(),
        rounds=options.rounds,
        seconds=options.seconds,
        figures=bench.figures,
        not_measured=bench.missing,
        finished=time.time(),
    )
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "gateway.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    (OUTPUT / "gateway.txt").write_text(text(report) + "\n")
    return report


def text(report: Report) -> str:
    """The report for a terminal."""
    lines = [
        f"{report.processor}, {report.cores} cores, Python {report.python}; load by {report.load_generator}, upstream "
        f"{report.upstream}; {report.rounds} interleaved round(s) of {report.seconds:g} s; median [lowest - highest]",
        f"load average before {report.load_average_before[0]:.1f}, after {report.load_average_after[0]:.1f} "
        "(all of this included)",
    ]
    heading = ("", "")
    order = {(one.section, one.case): place for place, one in reversed(list(enumerate(report.figures)))}
    for row in sorted(report.figures, key=lambda row: order[row.section, row.case]):
        if (row.section, row.case) != heading:
            heading = (row.section, row.case)
            lines += ["", f"{row.section}: {row.case}" if row.case else row.section]
        extent = f"[{row.low:,.4g} - {row.high:,.4g}]" if row.low != row.high else ""
        failed = f"   {row.failures} FAILURES" if row.failures else ""
        lines.append(f"  {row.who:24}{row.what:16}{row.median:>12,.4g} {row.unit:14}{extent}{failed}")
    lines += ["", table(verdicts(report.figures))]
    lines += [f"not measured: {name}: {reason.splitlines()[0]}" for name, reason in report.not_measured.items()]
    return "\n".join(lines)


def processor() -> str:
    """The model's name, as the system gives it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.gateway", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases, two short rounds, about three minutes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of load per contestant, case and round")
    parser.add_argument("--requests", type=int, default=1_000_000, help="of the run that watches memory")
    parser.add_argument("--only", help="contestants as printed, with ; between them")
    parser.add_argument("--sections", help=f"some of {','.join(SECTIONS)}", default=",".join(SECTIONS))
    options = parser.parse_args()
    options.sections = options.sections.split(",")
    if options.quick:
        options.rounds, options.seconds, options.requests = 2, 1.0, min(options.requests, 20_000)
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="biasgate-bench-") as scratch:
        bench = Bench(options, Path(scratch))
        report = reported(bench, options, before)
        for section in bench.run():
            say(f"{section}: done")
            report = reported(bench, options, before)
    sys.stdout.write(text(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
