"""`make soak`: mixed traffic with faults for SOAK_SECONDS, then every account is compared. Exit 1 when one differs.

SOAK_UPSTREAM is `simulated`, `vllm` or `both`; SOAK_LOGS names a directory that gets the logs and the store.
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

from tests.soak.backends import simulator, vllm
from tests.soak.run import Soaked, soak

CLIENTS = {"simulated": 16, "vllm": 8, "both": 12}
SHOWN_FAULTS = 20


def main() -> int:
    """Starts the backends, soaks, prints the figures."""
    upstream = os.environ.get("SOAK_UPSTREAM", "simulated")
    seconds = float(os.environ.get("SOAK_SECONDS", "1200"))
    seed = int(os.environ.get("SOAK_SEED", "1"))
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
        soaked = uvloop.run(soak(backends, home, seconds=seconds, clients=CLIENTS[upstream], seed=seed))
    sys.stdout.write("\n".join(figures(soaked, upstream)) + "\n")
    if soaked.faults:
        sys.stdout.flush()
        sys.stderr.write(f"soak: {len(soaked.faults)} faults, the first: {soaked.faults[0]}\n")
        return 1
    return 0


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
    if aborts := sorted(soaked.driver.abort_seconds):
        median, p99 = statistics.median(aborts), aborts[int(0.99 * (len(aborts) - 1))]
        yield f"departure to abort: median {median:.3f} s, p99 {p99:.3f}, max {aborts[-1]:.3f}, n {len(aborts)}"
    for name, (mb, _) in soaked.growth.items():
        quarters = ", ".join(f"{one:.1f}" for one in watch.quarters_mb(name))
        yield f"memory of {name}: {mb:+.2f} MB over the second half; MB by quarters {quarters}"
    yield f"scrapes {watch.scrapes}, lowest sampling rate {watch.lowest_rate:g}, faults {len(soaked.faults)}"
    yield from (f"FAULT {fault}" for fault in soaked.faults[:SHOWN_FAULTS])
    if soaked.faults:  # one of these may have been taken for something else
        yield from (f"changed by a restart: {one}" for one in changed if "no_upstream" not in one)


if __name__ == "__main__":
    sys.exit(main())
