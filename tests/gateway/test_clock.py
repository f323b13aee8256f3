"""A clock that is set, forwards or back, loses no exchange and holds nothing up for as long as it was wrong."""

import time

import pytest
import sqlalchemy as sa

from gateway.clock import DISTRUST_SECONDS, TrustedClock, WallClock
from gateway.config.timing import Timing
from gateway.store import circuits, exchanges, jobs, passes, runs, schedules, tables
from gateway.store.circuits import Key, WaitingAudit
from gateway.store.database import Database
from tests.support.store.made import create_run, exchange

HOUR = 3600.0


class Clocks:
    """A wall clock that can be set, and one that cannot."""

    def __init__(self) -> None:
        self.wall, self.steady = 1e9, 50.0

    def pass_by(self, seconds: float, *, jump: float = 0.0) -> None:
        self.steady += seconds
        self.wall += seconds + jump


def test_jumps_are_told_once() -> None:
    """Whichever way; time that passes, and a clock that runs a little fast, are none."""
    clocks = Clocks()
    clock = WallClock(lambda: clocks.wall, lambda: clocks.steady)
    jumps = []
    for jump in (0.0, -HOUR, 0.0, 24 * HOUR, *[0.5] * 20):
        clocks.pass_by(60.0, jump=jump)
        jumps.append(clock.jump())

    assert jumps == [0.0, -HOUR, 0.0, 24 * HOUR, *[0.0] * 20]


def test_nothing_is_deleted_until_a_jump_has_stood_for_an_hour() -> None:
    """A clock that is a day ahead by mistake and set right soon has deleted nothing."""
    clocks = Clocks()
    clock = TrustedClock(lambda: clocks.wall, lambda: clocks.steady)
    assert clock.is_trusted()
    clocks.pass_by(1.0, jump=24 * HOUR)
    assert not clock.is_trusted()
    clocks.pass_by(DISTRUST_SECONDS - 1.0)
    assert not clock.is_trusted()
    clocks.pass_by(1.0)
    assert clock.is_trusted()
    clocks.pass_by(1.0, jump=24 * HOUR)
    assert not clock.is_trusted()
    clocks.pass_by(1.0, jump=-24 * HOUR)
    assert clock.is_trusted()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The machine's clock is an hour ahead until `undo` is called."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + HOUR)
    return monkeypatch


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_work_of_an_hour_ahead_goes_on_at_once(database: Database, later: pytest.MonkeyPatch) -> None:
    """Jobs, leases of the dead, waits, circuits, runs, schedules and passes that were noted before it was set back."""
    key, sent = Key("judge", "auditors.judge"), [exchange(), exchange()]
    await jobs.insert(database, "waits", {}, lock=None, priority=0)
    await jobs.insert(database, "died", {}, lock=None, priority=0)
    assert await jobs.claim(database, ["died"], owner="dead", lease_seconds=0.01)
    await exchanges.insert_batch(database, sent, {("other", "queued"): 2})
    waiting = WaitingAudit(
        exchange_id=sent[0].id, auditor=key.auditor, server=key.server, error="e", own_failures=0,
        since=time.time(), failed_at=None,
    )  # fmt: skip
    await circuits.defer_audit(database, waiting, retry_at=time.time() + 2.0)
    await circuits.open_circuit(database, Key("judge", "u"), error="e", pause_seconds=1.0)
    await create_run(database, "r", {"suite": "s", "model": "m", "mode": "sample", "protocol": "corrected"})
    await runs.claim(database, "r")
    assert await passes.take(database, "pass", HOUR, time.time())
    async with database.begin() as connection:
        due = {"name": "s", "source": "api", "every_seconds": 600.0, "request": '{"suites": [], "model": "m"}'}
        times = {"next_due_at": time.time() + 500.0, "created_at": time.time(), "last_run_ids": "[]"}
        await connection.execute(sa.insert(tables.schedules).values(id="1", **due, **times))
    later.undo()
    now = time.time()

    assert await jobs.claim(database, ["waits"], owner="o", lease_seconds=9.0)
    await jobs.recover(database, lease_seconds=0.0)
    await jobs.recover(database, lease_seconds=9.0)
    assert await jobs.claim(database, ["died"], owner="o", lease_seconds=9.0)
    assert set(await exchanges.waiting(database, received_before=now, limit=9)) == {one.id for one in sent}
    [circuit] = await circuits.open_circuits(database)
    assert circuit.is_due(now)
    assert await circuits.claim_health_check(database, circuit.key)
    assert await runs.claimable(database, created_before=now + 2 * HOUR) == ["r"]
    assert await passes.take(database, "pass", HOUR, now)
    await schedules.pull_forward(database, now)
    [schedule] = await schedules.list_schedules(database)
    assert now < schedule.next_due_at <= now + 600.0
    assert schedule.timing == Timing(every_seconds=600.0)
