"""Sums of the two arms of a policy: once for each audit, by version, model and group."""

from typing import Any

import pytest
import sqlalchemy as sa

from auditors.answer_quality import answer_quality
from auditors.types import Measurement
from gateway.features.mitigation import store
from gateway.features.mitigation.store import NO_DIFFERENCE, effect_of
from gateway.store import exchanges, tables
from gateway.store.database import Database
from gateway.store.measurements import Recording
from gateway.streams.recording import Settling, record_all
from tests.support.store.made import SETTINGS, exchange, measurement


async def recorded(database: Database, found: list[Measurement], **given: Any) -> None:
    """An audit of a new exchange of the policy, told twice."""
    fields = {"mitigation": "p", "policy_version": "v1", "treated_share": 0.5, "arm": "treated"} | given
    one = exchange(**fields)
    await exchanges.insert_batch(database, [one], {})
    recording = Recording(exchange=one, auditor="judge", result=found, seconds=0.1, probability=0.5)
    for _ in range(2):
        await record_all(database, [recording], settings=SETTINGS, followers=[store.update])


async def effects(database: Database, **wanted: Any) -> list[Any]:
    return [effect_of(one) for one in await store.list_arms(database, limit=100, **wanted)]


async def test_both_arms_are_added_up(database: Database) -> None:
    """Each audit once, in its arm; a refusal counts as missing; means are in the metric's unit."""
    for value in (2.0, 1.0):
        await recorded(database, [measurement(value)], arm="control")
    await recorded(database, [measurement(0.0)])
    await recorded(database, [measurement(None)])
    (found,) = await effects(database)
    assert (found.control.n, found.control.n_missing, found.control.mean) == (2, 0, pytest.approx(1.5))
    assert (found.treated.n, found.treated.n_missing, found.treated.mean) == (1, 1, pytest.approx(0.0))
    assert found.lower <= found.difference <= found.upper
    assert (found.policy, found.version, found.axis, found.group) == ("p", "v1", "gender", "women")


async def test_a_conversation_counts_once(database: Database) -> None:
    """The first of its exchanges in which something was measured, for each group; by request each counts."""
    for number, unit in enumerate(("a" * 16, "a" * 16, "b" * 16)):
        found = [measurement(2.0 - number), *([measurement(1.0, group="men")] if number else [])]
        for version in ("u23456789012", "v1"):
            given = {"id": f"{number}{version[0]}".ljust(16, "0") + unit, "policy_version": version}
            await recorded(database, found, arm="control", **given)
    shown = {(one.assigned_by, one.group): one for one in await effects(database)}
    counted = {place: (one.control.n, one.control.mean, one.n_repeated) for place, one in shown.items()}
    assert counted == {
        ("conversation", "women"): (2, pytest.approx(1.0), 1),
        ("conversation", "men"): (2, pytest.approx(1.0), 0),
        ("request", "women"): (3, pytest.approx(1.0), 0),
        ("request", "men"): (2, pytest.approx(1.0), 0),
    }


async def test_what_begins_a_comparison_of_its_own(database: Database) -> None:
    """Another version, model or group; each filter finds its own."""
    await recorded(database, [measurement(0.0), measurement(1.0, group="men")])
    await recorded(database, [measurement(0.0)], policy_version="v2")
    await recorded(database, [measurement(0.0)], served_model="other")
    assert len(await effects(database)) == 4
    assert [one.reason for one in await effects(database, model="other")] == [NO_DIFFERENCE]
    assert await effects(database, policy="q") == []


@pytest.mark.parametrize("given", [{"mitigation": None, "arm": None}, {"treated_share": 1.0}, {"treated_share": 0.0}])
async def test_what_is_no_comparison(database: Database, given: dict[str, Any]) -> None:
    """Without a policy, or under one that treats all or none, nothing is kept."""
    await recorded(database, [measurement(0.0)], **given)
    assert await effects(database) == []


async def test_what_stands_beside_counts_once(database: Database) -> None:
    """The quality of an answer is added when its exchange is settled, by the process that settles it; with its unit."""
    slow, quick = (
        exchange(mitigation="p", policy_version="v1", treated_share=0.5, arm=arm, seconds=seconds)
        for arm, seconds in (("treated", 4.0), ("control", 1.0))
    )
    await exchanges.insert_batch(database, [slow, quick], {})
    for one in (slow, quick):
        stored = await exchanges.get(database, one.id)
        assert stored is not None
        assert stored.seconds == one.seconds
        settling = Settling(exchange_id=one.id, quality=(stored, answer_quality(stored)))
        for _ in range(2):
            await record_all(database, [], [settling], settings=SETTINGS, followers=[store.update])
    found = {one.metric: one for one in await effects(database, auditor="answer")}
    assert sorted(found) == ["answer_declined", "answer_seconds", "answer_words"]
    seconds = found["answer_seconds"]
    assert (seconds.treated.n, seconds.control.n) == (1, 1)
    assert (seconds.treated.mean, seconds.control.mean) == (pytest.approx(2.0), pytest.approx(0.0))
    assert (seconds.unit, seconds.range, found["answer_declined"].unit) == ("log2(seconds)", (-6.0, 8.0), None)
    assert seconds.lower <= seconds.difference <= seconds.upper


async def test_damaged_sums_of_a_policy(database: Database) -> None:
    """A comparison whose sums cannot be read is left out, and the exchange is audited all the same."""
    await recorded(database, [measurement(1.0)])
    async with database.begin() as connection:
        await connection.execute(sa.update(tables.policy_arms).values(state="{"))
    await recorded(database, [measurement(1.0)])

    assert await store.list_arms(database, limit=10) == []
    async with database.read() as connection:
        rows = (await connection.execute(sa.select(tables.measurements.c.value))).all()
    assert len(rows) == 2
