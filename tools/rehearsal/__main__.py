"""The whole rehearsal: `python -m tools.rehearsal [--old CHECKOUT]`, which is `make rehearsal`. About ten minutes.

3 gateways of 2 workers, 4 auditors and one PostgreSQL, each in a network namespace of its own: an upgrade from the code
of another checkout while both work, kill -9 of each in turn, a restart and a crash of PostgreSQL, auditors and
PostgreSQL that do not reach each other for half a minute, and a PostgreSQL that is far away. All that is asked is
sampled. Ends with 1 when an account is wrong. Without the right to make namespaces all run on loopback, and nothing can
be parted.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

from tools.rehearsal.places import Place, namespaces
from tools.rehearsal.run import (
    HEADER,
    Outcome,
    System,
    bereft,
    crashed,
    killed,
    orphaned,
    parted,
    restarted,
    running,
    upgraded,
)

GATEWAYS, AUDITORS = 3, 4
MOST_UNCOUNTED = 2
"""Answers lost by the kill of a gateway."""
PARTED_SECONDS = 30.0
FAR_MILLISECONDS = 10.0
"""One way: a round trip takes twice as long."""
NAMES = [
    "postgres",
    "model",
    "cable",
    *(f"gateway {n + 1}" for n in range(GATEWAYS)),
    *(f"auditor {n + 1}" for n in range(AUDITORS)),
]


async def rehearse(places: dict[str, Place], home: Path, old: Path | None, rate: float, seconds: float) -> bool:
    """Prints a row for each fault. Whether all accounts are right."""
    system, right = System(places, home, gateways=GATEWAYS, auditors=AUDITORS, rate=rate), True
    print(HEADER)
    print("|" + "---|" * (HEADER.count("|") - 1))
    async with running(system, tree=old):
        here = Path(__file__).parents[2]
        faults = [(f"kill -9 of {member.name}", partial(killed, member)) for member in system.members]
        first, second, third = system.gateways
        faults += [("kill -9 of a supervisor", partial(orphaned, first))]
        faults += [("kill -9 of a writer", partial(bereft, second, "writer"))]
        faults += [("kill -9 of a worker", partial(bereft, third, "gateway"))]
        faults += [("PostgreSQL restarts", partial(restarted, system.postgres))]
        faults += [("kill -9 of PostgreSQL", partial(crashed, system.postgres))]
        if old is not None:
            faults.insert(0, ("upgrade, one by one", partial(upgraded, system.members, here)))
        if places["auditor 1"].link is not None:
            half = [places[f"auditor {n}"] for n in (1, 2)]
            faults += [("2 auditors cut off for 30 s", partial(parted, half, PARTED_SECONDS))]
            faults += [("PostgreSQL cut off for 30 s", partial(parted, [places["postgres"]], PARTED_SECONDS))]
        lost_before = 0
        for fault, strike in [("none", partial(asyncio.sleep, 2 * seconds)), *faults]:
            found = await system.outcome(fault, strike, after_seconds=seconds)
            print(found, flush=True)
            right &= _is_right(found, lost_before, kills_a_gateway="of gateway" in fault or "of a " in fault)
            lost_before = found.lost
    return right


async def rehearse_far(places: dict[str, Place], home: Path, rate: float, seconds: float) -> bool:
    """The same over a new PostgreSQL behind a long cable, with one kill of each kind."""
    count = {"gateways": GATEWAYS, "auditors": AUDITORS}
    system, right = System(places, home, **count, rate=rate, milliseconds=FAR_MILLISECONDS), True
    async with running(system):
        lost_before = 0
        for one in (None, system.gateways[0], system.auditors[0]):
            strike = partial(asyncio.sleep, 2 * seconds) if one is None else partial(killed, one)
            what = "none" if one is None else f"kill -9 of {one.name}"
            found = await system.outcome(
                f"PostgreSQL {FAR_MILLISECONDS:g} ms away: {what}", strike, after_seconds=seconds
            )
            print(found, flush=True)
            right &= _is_right(found, lost_before, kills_a_gateway=one in system.gateways)
            lost_before = found.lost
    return right


def _is_right(found: Outcome, lost_before: int, *, kills_a_gateway: bool) -> bool:
    """An answer may be out, and its worker killed before it has counted it."""
    allowed = MOST_UNCOUNTED if kills_a_gateway else 0
    return found.doubled == 0 and found.lost - lost_before <= allowed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, help="a checkout of the version to upgrade from")
    parser.add_argument(
        "--rate", type=float, default=500.0, help="requests a second that are tried, default %(default)s"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="of traffic before and after a fault")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all it started is ended, too
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            places = stack.enter_context(namespaces([name.replace(" ", "") for name in NAMES]))
            places = {name: places[name.replace(" ", "")] for name in NAMES}
            print("each process group in a network namespace")
        except OSError as exc:
            places = {name: Place() for name in NAMES}
            print(f"all on loopback, nothing can be parted: {exc}")
        right = asyncio.run(rehearse(places, home, asked.old, asked.rate, asked.seconds))
        (home / "far").mkdir()
        right &= asyncio.run(rehearse_far(places, home / "far", asked.rate, asked.seconds))
    print("all accounts are right" if right else "AN ACCOUNT IS WRONG")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
