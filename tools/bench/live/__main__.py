"""Live latency on a real vLLM with priority scheduling: auditors off, on, and on with a suite run going on.

`make bench-live`, or `python -m tools.bench.live [--quick] [...]`. Each round measures the three arms once, every
second round backwards, so that whatever drifts meets all alike. Writes bench-out/live.json and prints the tables.
"""

import argparse
import contextlib
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from tests.support.integration.collector import ReceivedSpan
from tests.vllm.conftest import RESTING
from tools.bench.gateway.arena import Runner, say
from tools.bench.live import figures
from tools.bench.live.parts import Parts, by_trace, collector, parts, table
from tools.bench.live.stack import Stack, stack
from tools.bench.live.traffic import Traffic
from tools.soak.backends import vllm

OUTPUT = Path("bench-out")
DIRECT, OFF, ON, SUITE = ARMS = ("no gateway", "off", "on", "on + suite")
AIM = 1.05
DECISIVE_ROUNDS = 4
AUDITORS = """
[auditors.embedding]
model = "minilm"
rate = 0.1
[auditors.affinity]
enabled = true
[auditors.counterfactual]
enabled = true
"""
"""As the README has it, and the two that are off by default switched on; budgets, rates and tokens are the defaults."""
WARM_REQUESTS = 40
SPANS_ARRIVE_WITHIN_SECONDS = 8.0
"""OpenTelemetry's exporter sends every five."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One arm in one round."""

    arm: str
    round: int
    first: list[float]
    """Seconds to the first text of each request."""
    total: list[float]
    due: list[float]
    """When each was to leave, in seconds since 1970."""
    traces: list[str]
    """The id of each one's trace."""
    failures: int
    probes: dict[str, int]
    """Requests of auditors and suites, by kind and priority on the wire."""
    suite_replies: int
    evictions: dict[str, float]
    """Audit requests that were cut off, and estimates of their wasted tokens, by Prometheus' name and labels."""
    cpu_seconds: dict[str, float]
    """Processor time by process."""
    load_average: float
    """Of the last minute, at the end."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """bench-out/live.json."""

    processor: str
    cores: int
    load_average_before: tuple[float, float, float]
    options: dict[str, object]
    turns: list[Turn]
    parts: dict[str, list[Parts]]
    """Of each arm's requests to the first text, with `--trace`."""


def main() -> int:
    options = _options()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        with contextlib.ExitStack() as running:
            traced = running.enter_context(collector()) if options.trace else None
            extra = ["--otlp-traces-endpoint", f"{traced.url}/v1/traces"] if traced else []
            say("starting vLLM")
            backend = running.enter_context(
                vllm(
                    home,
                    *shlex.split(options.vllm),
                    *extra,
                    width=options.width,
                    layers=options.layers,
                    environ={
                        **(RESTING if options.resting else {}),
                        **({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"} if traced else {}),
                    },
                )
            )
            up = running.enter_context(stack(backend, home, options.sampling, options.auditors))
            _warm_up(up, options)
            turns = _measured(up, options)
            if options.logs:
                _keep_logs(home, Path(options.logs))
            if traced:
                time.sleep(SPANS_ARRIVE_WITHIN_SECONDS)
    report = Report(
        processor=platform.processor() or platform.machine(),
        cores=os.cpu_count() or 1,
        load_average_before=before,
        options=vars(options),
        turns=turns,
        parts=_parts(turns, traced.spans) if traced else {},
    )
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "live.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    sys.stdout.write(described(report))
    return 0


def _parts(turns: Sequence[Turn], spans: Sequence[ReceivedSpan]) -> dict[str, list[Parts]]:
    found, by_arm = by_trace(spans), dict[str, list[Parts]]()
    for turn in turns:
        for trace, due, first in zip(turn.traces, turn.due, turn.first, strict=True):
            if trace in found:
                by_arm.setdefault(turn.arm, []).append(parts(found[trace], due, first))
    return by_arm


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two rounds of 20 s an arm: under four minutes")
    parser.add_argument("--rounds", type=int, help="default 6")
    parser.add_argument("--seconds", type=float, help="of each arm in each round, default 35")
    parser.add_argument(
        "--settle",
        type=float,
        default=0.0,
        help="seconds of the same traffic before each arm with auditors, not measured: the latency budget takes a "
        "minute or two to learn what audits cost (default %(default)s)",
    )
    parser.add_argument("--width", type=int, default=512, help="of the model (default %(default)s)")
    parser.add_argument("--layers", type=int, default=8, help="of the model (default %(default)s)")
    parser.add_argument(
        "--rate", type=float, default=3.0, help="live requests a second, at random (default %(default)s)"
    )
    parser.add_argument("--max-tokens", type=int, default=32, help="of each live answer (default %(default)s)")
    parser.add_argument("--sampling", type=float, default=0.05, help="share that is audited (default %(default)s)")
    parser.add_argument("--suite", default="unqover", help="which suite runs in the third arm (default %(default)s)")
    parser.add_argument(
        "--auditors", default=AUDITORS, help="configuration of the auditors, as TOML (default: %(default)s)"
    )
    parser.add_argument(
        "--resting",
        action="store_true",
        help="vLLM's engine sleeps while its worker computes, where it spins: see tests/support/vllm/resting",
    )
    parser.add_argument("--trace", action="store_true", help="where the first text's time goes, by vLLM's own spans")
    parser.add_argument("--vllm", default="", help="further options of `vllm serve`, in one argument")
    parser.add_argument("--logs", help="directory that gets the logs")
    parser.add_argument("--without-suite", action="store_true", help="leave the last arm out")
    parser.add_argument("--direct", action="store_true", help="one more arm: clients call vLLM itself")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 6)
    options.seconds = options.seconds or (20.0 if options.quick else 35.0)
    return options


def _warm_up(up: Stack, options: argparse.Namespace) -> None:
    """Warm caches, connections, the embedder and the kernels that vLLM compiles on first use; stop the auditor."""
    say("warming up")
    for gateway in (up.plain, up.audited):
        _traffic(up, gateway, options, seconds=WARM_REQUESTS / options.rate, seed=1)
    time.sleep(10.0)
    if not options.without_suite:
        with up.suite_run(options.suite, samples=10):
            _traffic(up, up.audited, options, seconds=WARM_REQUESTS / options.rate, seed=2)
    up.auditor.signal(signal.SIGSTOP)


def _measured(up: Stack, options: argparse.Namespace) -> list[Turn]:
    """Measure every arm in every round; an interrupt (SIGINT) keeps the rounds that are complete."""
    turns: list[Turn] = []
    try:
        for number in range(options.rounds):
            turns += _round(up, number, options)
    except KeyboardInterrupt:
        if not turns:
            raise
    return turns


def _round(up: Stack, number: int, options: argparse.Namespace) -> list[Turn]:
    """Measure every arm once; every second round in the opposite order."""
    arms = [OFF, ON]
    if options.direct:
        arms.insert(0, DIRECT)
    if not options.without_suite:
        arms.append(SUITE)
    turns = []
    for arm in arms if number % 2 == 0 else reversed(arms):
        say(f"round {number + 1}/{options.rounds}: auditors {arm}")
        up.settle()
        turns.append(_turn(up, arm, number, options))
    return turns


def _turn(up: Stack, arm: str, number: int, options: argparse.Namespace) -> Turn:
    if arm == DIRECT:
        return _observed(up, arm, number, options, Runner(DIRECT, up.backend.url))
    if arm == OFF:
        return _observed(up, arm, number, options, up.plain)
    with up.auditing():
        if arm == ON:
            _settle(up, number, options)
            return _observed(up, arm, number, options, up.audited)
        with up.suite_run(options.suite, samples=1000) as run_id:
            _settle(up, number, options)
            return _observed(up, arm, number, options, up.audited, run_id)


def _settle(up: Stack, number: int, options: argparse.Namespace) -> None:
    if options.settle:
        _traffic(up, up.audited, options, seconds=options.settle, seed=200 + number)


def _observed(
    up: Stack, arm: str, number: int, options: argparse.Namespace, gateway: Runner, run_id: str | None = None
) -> Turn:
    runners = (up.plain, up.audited, up.auditor)
    cpu = {one.name: one.cpu_seconds() for one in runners}
    probes, replies = up.probes(), up.replies(run_id) if run_id else 0
    evictions = up.evictions() if arm in (ON, SUITE) else {}
    # The same questions at the same moments in each arm of a round.
    seen = _traffic(up, gateway, options, seconds=options.seconds, seed=100 + number)
    return Turn(
        arm=arm,
        round=number,
        first=seen.first,
        total=seen.total,
        due=seen.due,
        traces=seen.traces,
        failures=seen.failures,
        probes={f"{kind}, priority {priority}": n for (kind, priority), n in (up.probes() - probes).items()},
        suite_replies=(up.replies(run_id) if run_id else 0) - replies,
        evictions={name: up.evictions()[name] - count for name, count in evictions.items()},
        cpu_seconds={one.name: one.cpu_seconds() - cpu[one.name] for one in runners},
        load_average=os.getloadavg()[0],
    )


def _traffic(up: Stack, gateway: Runner, options: argparse.Namespace, *, seconds: float, seed: int) -> Traffic:
    argv = [sys.executable, "-m", "tools.bench.live.traffic", gateway.url, up.backend.model]
    numbers = [options.rate, seconds, options.max_tokens, seed]
    done = subprocess.run([*argv, *map(str, numbers)], capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Traffic)


def _keep_logs(home: Path, logs: Path) -> None:
    logs.mkdir(parents=True, exist_ok=True)
    for log in (*home.glob("*.log"), *home.glob("*/log")):
        (logs / f"{log.parent.name}-{log.name}").write_bytes(log.read_bytes())


def described(report: Report) -> str:
    """The report as Markdown."""
    turns_of = {arm: [turn for turn in report.turns if turn.arm == arm] for arm in ARMS}
    by_arm = {arm: turns for arm, turns in turns_of.items() if turns}
    rounds = len(by_arm[OFF])
    lines = [
        f"Live latency, {rounds} rounds of {report.options['seconds']:g} s an arm, {report.options['rate']:g} "
        f"requests/s, {report.options['max_tokens']} tokens; {report.cores} cores; load average before "
        f"{', '.join(f'{value:.2f}' for value in report.load_average_before)}",
        "",
        "| auditors | requests | failures | first p50 ms | first p99 | total p50 | total p99 | load average |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for arm, turns in by_arm.items():
        times = [
            f"{1e3 * figures.percentile([np.array(getattr(turn, what)) for turn in turns], level):.1f}"
            for what in ("first", "total")
            for level in figures.LEVELS
        ]
        loads = f"{min(turn.load_average for turn in turns):.1f} to {max(turn.load_average for turn in turns):.1f}"
        answered, failures = sum(len(turn.total) for turn in turns), sum(turn.failures for turn in turns)
        lines.append(f"| {arm} | {answered} | {failures} | {' | '.join(times)} | {loads} |")
    lines += [
        "",
        f"| ratio to off, 95 % interval over {rounds} rounds | first p50 | first p99 | total p50 | total p99 |",
    ]
    lines += ["|---|---|---|---|---|"]
    for arm in (arm for arm in by_arm if arm != OFF):
        ratios = [
            _ratio(by_arm[arm], by_arm[OFF], what, level) for what in ("first", "total") for level in figures.LEVELS
        ]
        lines.append(
            f"| {arm} | {' | '.join(f'{one.value:.3f} ({one.lower:.3f} to {one.upper:.3f})' for one in ratios)} |"
        )
    lines += ["", "| auditors | what vLLM got from auditors and suites | suite replies | processor time a second |"]
    lines += ["|---|---|---|---|"]
    lines += [_effort(arm, turns, float(str(report.options["seconds"]))) for arm, turns in by_arm.items()]
    lines += ["", *(_evicted(arm, turns) for arm, turns in by_arm.items() if arm in (ON, SUITE)), ""]
    for what in ("first", "total"):
        found = _ratio(by_arm[ON], by_arm[OFF], what, 99)
        lines.append(f"Aim: p99 on / off at most {AIM} ({what}): {found.value:.3f}, {_verdict(found, rounds)}")
    lines.append("")
    if report.parts:
        lines += [*table(report.parts), ""]
    return "\n".join(lines)


def _verdict(found: figures.Ratio, rounds: int) -> str:
    if rounds < DECISIVE_ROUNDS:
        return f"not decided: fewer than {DECISIVE_ROUNDS} rounds"
    return "reached" if found.upper <= AIM else "missed" if found.lower > AIM else "not decided by this run"


def _ratio(arm: Sequence[Turn], base: Sequence[Turn], what: str, level: float) -> figures.Ratio:
    in_rounds = [
        [np.array(getattr(turn, what)) for turn in sorted(turns, key=lambda one: one.round)] for turns in (arm, base)
    ]
    return figures.ratio(in_rounds[0], in_rounds[1], level, np.random.default_rng(7))


def _evicted(arm: str, turns: Sequence[Turn]) -> str:
    counts: Counter[str] = Counter()
    for turn in turns:
        counts.update(turn.evictions)
    listed = "; ".join(f"{name} {count:g}" for name, count in sorted(counts.items()) if count)
    return f"Audit requests cut off, auditors {arm}: {listed or 'none'}"


def _effort(arm: str, turns: Sequence[Turn], seconds: float) -> str:
    probes: Counter[str] = Counter()
    for turn in turns:
        probes.update(turn.probes)
    told = "; ".join(f"{n} x {what}" for what, n in sorted(probes.items())) or "nothing"
    used = ", ".join(
        f"{name} {sum(turn.cpu_seconds[name] for turn in turns) / seconds / len(turns):.2f}"
        for name in turns[0].cpu_seconds
    )
    return f"| {arm} | {told} | {sum(turn.suite_replies for turn in turns)} | {used} |"


if __name__ == "__main__":
    sys.exit(main())
