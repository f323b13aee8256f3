"""Gateways and auditors over a PostgreSQL of their own, killed one after the other: nothing is lost or doubled."""

import tempfile
from functools import partial
from pathlib import Path

import pytest

from tests.support.required import lacking
from tools.rehearsal.__main__ import MOST_UNCOUNTED
from tools.rehearsal.members import servers
from tools.rehearsal.places import Place
from tools.rehearsal.run import System, crashed, killed, restarted, running

RATE = 60.0


@pytest.mark.long
@pytest.mark.postgres
async def test_faults_lose_and_double_nothing() -> None:
    """kill -9 of each process in turn, a restart and a crash of PostgreSQL, under traffic that is all sampled."""
    if not servers():
        lacking("no server of PostgreSQL under /usr/lib/postgresql", "POSTGRES")
    names = ["postgres", "model", "gateway 1", "gateway 2", "auditor 1", "auditor 2"]
    with tempfile.TemporaryDirectory() as home:
        system = System({name: Place() for name in names}, Path(home), gateways=2, auditors=2, rate=RATE)
        async with running(system):
            faults = {f"kill -9 of {one.name}": partial(killed, one) for one in system.auditors}
            faults["PostgreSQL restarts"] = partial(restarted, system.postgres)
            faults["kill -9 of PostgreSQL"] = partial(crashed, system.postgres)
            for fault, strike in faults.items():
                found = await system.outcome(fault, strike, after_seconds=1.5)
                assert found.answered > RATE, found
                assert (found.lost, found.doubled, found.failed) == (0, 0, 0), found
            for gateway in system.gateways:
                before = found
                found = await system.outcome(f"kill -9 of {gateway.name}", partial(killed, gateway), after_seconds=1.5)
                assert found.doubled == 0, found
                assert found.lost - before.lost <= MOST_UNCOUNTED, found
