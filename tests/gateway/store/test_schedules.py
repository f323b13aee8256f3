"""Schedules and changes of model: each due time and each change starts its runs once, whoever sees it."""

import asyncio
from typing import Any

import pytest

from gateway.config.audit_request import AuditRequest
from gateway.config.timing import Timing
from gateway.errors import ConflictError
from gateway.store import runs, schedules, served
from gateway.store.database import Database

pytestmark = pytest.mark.stores("sqlite")

REQUEST = AuditRequest(suites=["stereoset"], model="m")
OPTIONS: dict[str, Any] = {"suite": "stereoset", "model": "m", "mode": "sample", "protocol": "corrected"}
HOURLY = Timing.of(None, 3600)


@pytest.mark.stores("sqlite", "postgresql")
async def test_one_due_time_is_taken_once(store_url: str) -> None:
    """Of five auditors that find the same time due one queues the runs, also when they all try at once."""
    auditors = [await Database.open(store_url) for _ in range(5)]
    made = await schedules.create(auditors[0], "hourly", HOURLY, REQUEST)
    now = made.next_due_at + 1
    found = [(await schedules.due(one, now))[0] for one in auditors]
    queued = await asyncio.gather(
        *(schedules.take(one, schedule, now, [OPTIONS]) for one, schedule in zip(auditors, found, strict=True))
    )
    assert sorted(map(len, queued)) == [0, 0, 0, 0, 1]
    assert len(await runs.list_runs(auditors[0])) == 1
    assert await schedules.due(auditors[1], now) == []
    for one in auditors:
        await one.close()


async def test_missed_times_come_to_one_run(database: Database) -> None:
    """After three days without an auditor an hourly schedule runs once and goes on at its old beat."""
    made = await schedules.create(database, "hourly", HOURLY, REQUEST)
    now = made.next_due_at + 72 * 3600 + 10
    [due] = await schedules.due(database, now)
    assert len(await schedules.take(database, due, now, [OPTIONS])) == 1
    after = await schedules.get(database, made.id)
    assert after.next_due_at == made.next_due_at + 73 * 3600
    assert after.last_due_at == made.next_due_at
    assert [run.id for run in await runs.list_runs(database)] == after.last_run_ids


async def test_runs_do_not_pile_up(database: Database) -> None:
    """While the runs of the time before go on, a due time is passed over and says so; afterwards it starts again."""
    made = await schedules.create(database, "hourly", HOURLY, REQUEST)
    for hour, expected in ((0, 1), (1, 0)):
        now = made.next_due_at + hour * 3600 + 1
        [due] = await schedules.due(database, now)
        assert len(await schedules.take(database, due, now, [OPTIONS])) == expected
    passed = await schedules.get(database, made.id)
    assert passed.last_error == schedules.STILL_GOING
    await runs.cancel(database, passed.last_run_ids[0])
    now = made.next_due_at + 2 * 3600 + 1
    [due] = await schedules.due(database, now)
    assert len(await schedules.take(database, due, now, [OPTIONS])) == 1
    assert (await schedules.get(database, made.id)).last_error is None


@pytest.mark.stores("sqlite", "postgresql")
async def test_the_configuration_is_adopted(database: Database) -> None:
    """Configured schedules come, change and go with the file; one that is as before keeps its next time."""
    await schedules.create(database, "mine", HOURLY, REQUEST)
    await schedules.adopt(database, [("a", HOURLY, REQUEST), ("b", HOURLY, REQUEST)])
    before = {one.name: one for one in await schedules.list_schedules(database)}
    daily = Timing.of("0 3 * * *", None)
    await schedules.adopt(database, [("a", HOURLY, REQUEST), ("b", daily, REQUEST)])
    after = {one.name: one for one in await schedules.list_schedules(database)}
    assert after["a"] == before["a"]
    assert (after["b"].id, after["b"].cron) == (before["b"].id, "0 3 * * *")
    with pytest.raises(ConflictError, match="is from the configuration"):
        await schedules.delete(database, after["a"].id)
    await schedules.adopt(database, [])
    assert [one.name for one in await schedules.list_schedules(database)] == ["mine"]


def options_for(model: str) -> list[dict[str, Any]]:
    return [OPTIONS | {"model": model}]


async def seen(database: Database, fingerprints: dict[str, str], asked_at: float) -> dict[str, list[str]]:
    return await served.observe(database, "gpu0", fingerprints, asked_at=asked_at, runs_of=options_for)


@pytest.mark.stores("sqlite", "postgresql")
async def test_a_change_of_model_is_noticed_once(store_url: str) -> None:
    """The first look only learns; of four auditors that see a change one queues the runs."""
    auditors = [await Database.open(store_url) for _ in range(4)]
    assert await seen(auditors[0], {"m": "one"}, 100.0) == {}
    assert await seen(auditors[1], {"m": "one"}, 110.0) == {}
    noticed = await asyncio.gather(*(seen(one, {"m": "two"}, 120.0) for one in auditors))
    assert sorted(map(len, noticed)) == [0, 0, 0, 1]
    [run] = await runs.list_runs(auditors[0])
    assert (run.model, run.status) == ("m", "queued")
    for one in auditors:
        await one.close()


async def test_a_stale_look_changes_nothing(database: Database) -> None:
    """What was asked before the change was noted cannot turn it back."""
    await seen(database, {"m": "one"}, 100.0)
    await seen(database, {"m": "two"}, 120.0)
    assert await seen(database, {"m": "one"}, 119.0) == {}
    assert await seen(database, {"m": "two"}, 130.0) == {}


async def test_servers_that_take_turns_are_no_changes(database: Database) -> None:
    """Behind one address a second model is a change, and so is its first going back; from then on both stand there."""
    await seen(database, {"m": "one"}, 100.0)
    changes = [await seen(database, {"m": name}, at) for name, at in (("two", 9000.0), ("one", 9030.0))]
    assert [one.keys() for one in changes] == [{"m"}, {"m"}]
    now = 9060.0
    for turn in range(300):
        name = "two" if turn % 3 else "one"
        assert await seen(database, {"m": name}, now) == {}, turn
        now += 30.0
    assert len(await served.changes(database, "m")) == 2
    assert (await served.history(database)).at("m", now) == "one, two"


async def test_what_was_away_for_an_hour_has_changed(database: Database) -> None:
    """The end of a rolling update is no change, and its taking back later is one."""
    for name, at in (("one", 100.0), ("two", 9000.0), ("one", 9030.0), ("two", 9060.0)):
        await seen(database, {"m": name}, at)
    for minute in range(90):
        assert await seen(database, {"m": "two"}, 9100.0 + 60.0 * minute) == {}
    assert (await served.history(database)).at("m", 9100.0 + 60.0 * 90) == "two"
    assert (await seen(database, {"m": "one"}, 9100.0 + 60.0 * 91)).keys() == {"m"}


async def test_a_new_model_on_a_known_upstream_counts_as_a_change(database: Database) -> None:
    """Serving another name is a change too; the runs of a change that still wait are not queued twice."""
    await seen(database, {"m": "one"}, 100.0)
    assert list(await seen(database, {"m": "one", "n": "x"}, 110.0)) == ["n"]
    assert await seen(database, {"m": "one", "n": "y"}, 120.0) == {"n": []}
    assert len(await runs.list_runs(database)) == 1
