"""Many audits in one transaction: the numbers of one by one, each once, by writers that do not block each other."""

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from auditors.answer_quality import answer_quality
from auditors.streams.drift import DriftSettings
from auditors.types import AuditFailure, Exchange, Measurement
from gateway.features.mitigation import store as policy_arms
from gateway.store import counters, exchanges, ledger
from gateway.store.database import Database
from gateway.store.measurements import Recording
from gateway.streams import recording
from gateway.streams.recording import Settling
from tests.support.store.made import exchange, list_streams, measurement
from tests.support.store.scored import scores_of

SETTINGS = DriftSettings(average_run_length=1000.0, reference_window=10)
N_AUDITS = 60

record_all = partial(recording.record_all, settings=SETTINGS, followers=[policy_arms.update])


def planned() -> list[Recording]:
    """Scores of two groups on a policy's exchanges, some missing and some refused; the same at every call."""
    draw = random.Random(3)
    found = []
    for number in range(N_AUDITS):
        one = exchange(
            id=f"{number:032x}",
            request_id="r",
            received_at=1e9 + number,
            inclusion_probability=draw.choice([0.1, 0.5, 1.0]),
            mitigation="p",
            policy_version="v1",
            treated_share=0.5,
            arm=draw.choice(["treated", "control"]),
            seconds=draw.uniform(0.5, 4.0),
        )
        scores = [measurement(draw.choice([-1.0, 0.0, 1.0, 2.0]), group=group) for group in ("men", "women")]
        if number % 7 == 3:
            scores[0] = msgspec.structs.replace(scores[0], value=None, status="malformed")
        result: Sequence[Measurement] | AuditFailure = scores[: 1 + number % 2]
        if number % 11 == 5:
            result = AuditFailure(auditor="judge", auditor_version="1", kind="timeout", message="late", missing=scores)
        probability = one.inclusion_probability
        found.append(Recording(exchange=one, auditor="judge", result=result, seconds=0.1, probability=probability))
    return found


async def stored(database: Database, planned: Sequence[Recording]) -> None:
    await exchanges.insert_batch(database, [one.exchange for one in planned], {("other", "queued"): len(planned)})


def settling(one: Exchange) -> Settling:
    return Settling(exchange_id=one.id, quality=(one, answer_quality(one)))


async def numbers(database: Database) -> dict[str, object]:
    """All that audits leave, without times and ids of rows."""
    arms = await policy_arms.list_arms(database, limit=100)
    scored = await scores_of(database, limit=1000)
    return {
        "streams": {one.id: (one.key, one.state, one.alarm_exchange_id) for one in await list_streams(database)},
        "arms": {(one.key, one.version): one.state for one in arms},
        "counters": await counters.read(database),
        "ledger": await ledger.counts(database),
        "scores": sorted((one.exchange.id, str(one.group), one.value) for one in scored),
        "audits": await exchanges.audits(database, [one.exchange.id for one in planned()]),
    }


async def test_together_they_give_the_numbers_of_one_by_one(database: Database, tmp_path: Path) -> None:
    """Sums, detectors, gaps, arms, counters and the ledger of one transaction are those of a transaction each."""
    begun, rest = planned()[:4], planned()[4:]
    twin = await Database.open(f"sqlite:///{tmp_path}/twin.db")
    try:
        for store in (database, twin):
            await stored(store, planned())
            for one in begun:  # so that all streams are there: how many there are is a part of each threshold
                assert await record_all(store, [one]) == [True]
        for one in rest:
            assert await record_all(twin, [one]) == [True]
        for one in planned():
            await record_all(twin, [], [settling(one.exchange)])
        expected = await numbers(twin)
    finally:
        await twin.close()
    assert await record_all(database, rest) == [True] * len(rest)
    settled = [settling(one.exchange) for one in planned()]
    assert await record_all(database, [], settled) == []
    found = await numbers(database)
    assert found["arms"]
    assert any(one.alarm_since or one.state.detector for one in await list_streams(database))
    assert found == expected


async def test_repeats_of_all_kinds_change_nothing(database: Database) -> None:
    """Twice in one transaction, again in the next, beside new ones, and of an exchange that is gone."""
    first, second, third, gone = planned()[:4]
    await stored(database, [first, second, third])
    assert await record_all(database, [first, second, first]) == [True, True, False]
    before = await numbers(database)
    assert await record_all(database, [second, gone, first], [settling(gone.exchange)]) == [False] * 3
    assert await numbers(database) == before
    ends = [settling(one.exchange) for one in (first, second, first)]
    assert await record_all(database, [second, third], ends) == [False, True]
    assert await record_all(database, [], [settling(first.exchange)]) == []
    assert await ledger.counts(database) == {("other", "audited"): 2, ("other", "queued"): 1}
    assert (await counters.read(database))["exchanges", ("audited", "judge")] == 3


async def test_what_cannot_be_stored_leaves_nothing_of_its_transaction(database: Database) -> None:
    """One refused row undoes every audit that came with it; the caller tells them apart."""
    good, bad = planned()[:2]
    twice = msgspec.structs.replace(bad, result=[measurement(1.0, reference="man"), measurement(1.0, reference="man")])
    await stored(database, [good, bad])
    with pytest.raises(Exception, match=r"(?i)unique"):
        await record_all(database, [good, twice])
    assert await list_streams(database) == []
    assert await exchanges.audits(database, [bad.exchange.id]) == {bad.exchange.id: {}}
    assert await counters.read(database) == {}
    assert await record_all(database, [good]) == [True]


async def test_writers_in_different_orders_do_not_block_each_other(database: Database) -> None:
    """Auditors that record the same and other exchanges in any order all come to an end; each audit counts once."""
    await stored(database, planned())
    draw = random.Random(4)

    async def auditor() -> int:
        mine = planned()
        draw.shuffle(mine)
        count = 0
        for first in range(0, len(mine), 10):
            part = mine[first : first + 10]
            ends = [settling(one.exchange) for one in mine[max(0, first - 10) : first]]
            count += sum(await record_all(database, part, ends))
        return count

    counts = await asyncio.gather(*(auditor() for _ in range(4)))
    assert sum(counts) == N_AUDITS
    assert sum((await ledger.counts(database)).values()) == N_AUDITS
    assert len(await scores_of(database, limit=1000)) == sum(
        one.value is not None for recording in planned() for one in recording.found
    )
