"""The pool under stress: paced around keep-alive times, with a dead upstream, and how evenly it shares.

Exit 1 when a request fails that need not, healthy upstreams answer late beside a dead one, or shares are uneven.

Example:
  python -m tools.bench.pool --seconds 600
"""

import argparse
import sys
import tempfile
from pathlib import Path

import msgspec

from tools.bench.dead_upstream import CALLERS, FATES, SLOW_SECONDS, Felt, Shares, felt, shares
from tools.bench.pacing import BURST, Pace, Paced, paced

OUTPUT = Path("bench-out")
PACES = [
    Pace("our own limit, 4 s", 5, 4.0, 0.15),
    Pace("just below 5 s", 5, 4.9, 0.1),
    Pace("around 5 s", 5, 5.0, 0.05),
    Pace("exactly 5 s", 5, 4.98, 0.005),
    Pace("just above 5 s", 5, 5.1, 0.1),
    Pace("upstream closes after 2 s", 2, 1.99, 0.03),
    Pace("upstream closes after 1 s", 1, 0.99, 0.02),
]
"""The last two lose the race on purpose: there the upstream closes first, so requests can meet closing connections."""
KINDS = ("none", "refusing", "black-holed", "killed", "stopped")
WEIGHTS = ([1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 3.0])
REQUESTS = 10_000
MOST_UNEVEN = 0.05
"""Of its share: how far an upstream's requests may be off."""
MOST_SLOWED = 2.0
"""p99 beside a dead upstream over p99 without one. A busy machine alone makes half as much again."""


class Report(msgspec.Struct):
    """bench-out/pool.json."""

    pacing: list[Paced]
    dead: list[Felt]
    balance: list[Shares]


def faults(report: Report) -> list[str]:
    """One line for each promise that this run broke."""
    found = [f"pace {one.pace.name}: {one.errors}" for one in report.pacing if one.errors]
    alone = next(one for one in report.dead if one.fleet == "none")
    for one in report.dead:
        if one.p99_seconds > MOST_SLOWED * alone.p99_seconds:
            found.append(f"beside one {one.fleet}: p99 {one.p99_seconds:.3f} s, without {alone.p99_seconds:.3f} s")
        # A request that no upstream has read is never lost; of those that one has, each caller had one at most.
        allowed = CALLERS if one.fleet in FATES else 0
        if sum(one.failures.values()) > allowed:
            found.append(f"beside one {one.fleet}: {one.failures}")
        if one.slow > CALLERS + MOST_SLOWED * alone.slow:
            found.append(f"beside one {one.fleet}: {one.slow} requests took more than {SLOW_SECONDS} s")
    found += [
        f"weights {one.weights}: {one.requests}, {one.worst_ratio:.1%} off"
        for one in report.balance
        if one.worst_ratio > MOST_UNEVEN
    ]
    return found


def text(report: Report, seconds: float, dead_seconds: float) -> str:
    """The report for a terminal."""
    lines = [f"pacing, {seconds:g} s, bursts of {BURST}", f"{'':28}{'requests':>10}{'errors':>8}"]
    lines += [
        f"{one.pace.name:28}{one.requests:>10}{sum(one.errors.values()):>8} {one.errors or ''}" for one in report.pacing
    ]
    lines += ["", f"two healthy upstreams and a third one, {CALLERS} callers, {dead_seconds:g} s"]
    lines.append(
        f"{'third':14}{'requests':>10}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{f'> {SLOW_SECONDS} s':>9}  failures"
    )
    for one in report.dead:
        times = "".join(f"{1000 * t:>9.1f}" for t in (one.p50_seconds, one.p99_seconds, one.max_seconds))
        lines.append(f"{one.fleet:14}{one.requests:>10}{times}{one.slow:>9}  {one.failures or ''}")
    lines += ["", f"shares of {REQUESTS} requests, {CALLERS} callers"]
    lines += [
        f"weights {one.weights}: {one.requests}, at most {100 * one.worst_ratio:.2f} % off" for one in report.balance
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.pool", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="of pacing")
    parser.add_argument("--dead-seconds", type=float, default=20.0, help="for each kind of dead upstream")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="biasgate-pool-") as scratch:
        home = Path(scratch)
        report = Report(
            pacing=paced(PACES, arguments.seconds, home),
            dead=[felt(kind, arguments.dead_seconds, home) for kind in KINDS],
            balance=[shares(weights, REQUESTS, home) for weights in WEIGHTS],
        )
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "pool.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    found = text(report, arguments.seconds, arguments.dead_seconds)
    (OUTPUT / "pool.txt").write_text(found + "\n")
    sys.stdout.write(found + "\n")
    broken = faults(report)
    sys.stdout.writelines(f"FAULT {one}\n" for one in broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
