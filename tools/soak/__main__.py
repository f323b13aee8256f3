"""`make soak`: mixed traffic with faults for SOAK_SECONDS, then every account is compared. Exit 1 when one differs.

SOAK_UPSTREAM is `simulated`, `vllm` or `both`; SOAK_LOGS names a directory that gets the logs and the store.
SOAK_HOSTILE=0.1 soaks twice, without and with such a share of requests that mean harm, and compares what the others
waited.
"""

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import uvloop

from tools.soak.backends import simulator, vllm
from tools.soak.run import Soaked, soak

CLIENTS = {"simulated": 16, "vllm": 8, "both": 12}
SHOWN_FAULTS = 20


def main() -> int:
    """Starts the backends, soaks, prints the figures."""
    upstream = os.environ.get("SOAK_UPSTREAM", "simulated")
    seconds = float(os.environ.get("SOAK_SECONDS", "1200"))
    seed = int(os.environ.get("SOAK_SEED", "1"))
    hostile = float(os.environ.get("SOAK_HOSTILE", "0"))
    if upstream not in CLIENTS:
        sys.stderr.write(f'SOAK_UPSTREAM "{upstream}": choose simulated, vllm or both\n')
        return 2
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="biasgate-soak-")))
        if keep := os.environ.get("SOAK_LOGS"):
            stack.callback(shutil.copytree, home, keep, dirs_exist_ok=True)
        backends = []
        if upstream in ("simulated", "both"):
            backends.append(stack.enter_context(simulator(home, seed)))
        if upstream in ("vllm", "both"):
            backends.append(stack.enter_context(vllm(home)))
        ended = []
        for share in (0.0, hostile) if hostile else (0.0,):
            place = home / f"hostile-{share:g}"
            place.mkdir()
            soaked = uvloop.run(
                soak(backends, place, seconds=seconds, clients=CLIENTS[upstream], seed=seed, hostile=share)
            )
            sys.stdout.write("\n".join(figures(soaked, upstream)) + "\n")
            ended.append(soaked)
    if hostile:
        without, beside = (p99(soaked.driver.ordinary_seconds) for soaked in ended)
        sys.stdout.write(f"p99 of ordinary requests beside {hostile:g} hostile ones: {beside / without:.2f} times\n")
    if faults := [fault for soaked in ended for fault in soaked.faults]:
        sys.stdout.flush()
        sys.stderr.write(f"soak: {len(faults)} faults, the first: {faults[0]}\n")
        return 1
    return 0


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.99 * (len(seconds) - 1))]


def figures(soaked: Soaked, upstream: str) -> Iterator[str]:
    """What a report quotes, line by line."""
    accounts, watch = soaked.accounts, soaked.watch
    yield f"{accounts.requests} requests in {soaked.seconds:.0f} s, {CLIENTS[upstream]} clients, upstream {upstream}"
    for (what, seen), count in sorted(accounts.by_plan.items()):
        yield f"  {what:<18} {seen:<20} {count:>8}"
    changed, ties = accounts.during_restarts, accounts.ties.total()
    yield f"restarts of an upstream {len(soaked.restarts.windows)}, ends they changed {len(changed)}, ties {ties}"
    yield f"ledger expected at the gateway {dict(sorted(accounts.ledger.items()))}"
    yield f"ledger stored                  {dict(sorted(soaked.stored.items()))}"
    if ordinary := soaked.driver.ordinary_seconds:
        median, n = statistics.median(ordinary), len(ordinary)
        yield f"ordinary requests: median {median:.4f} s, p99 {p99(ordinary):.4f}, n {n}"
    if aborts := sorted(soaked.driver.abort_seconds):
        median, n = statistics.median(aborts), len(aborts)
        yield f"departure to abort: median {median:.3f} s, p99 {p99(aborts):.3f}, max {aborts[-1]:.3f}, n {n}"
    for name, (mb, _) in soaked.growth.items():
        quarters = ", ".join(f"{one:.1f}" for one in watch.quarters_mb(name))
        yield f"memory of {name}: {mb:+.2f} MB over the second half; MB by quarters {quarters}"
    yield f"scrapes {watch.scrapes}, lowest sampling rate {watch.lowest_rate:g}, faults {len(soaked.faults)}"
    yield from (f"FAULT {fault}" for fault in soaked.faults[:SHOWN_FAULTS])
    if soaked.faults:  # one of these may have been taken for something else
        yield from (f"changed by a restart: {one}" for one in changed if "no_upstream" not in one)


if __name__ == "__main__":
    sys.exit(main())
