"""Recording: once per exchange and auditor, with measurements, streams and counters in one transaction."""

import asyncio

import pytest

from auditors.types import AuditFailure
from gateway.store import counters, exchanges, streams
from gateway.store.database import Database
from gateway.streams import alarms, recording
from tests.support.store.made import SETTINGS, audited, exchange, measurement, record
from tests.support.store.scored import scores_of

pytestmark = pytest.mark.stores("sqlite")


@pytest.mark.stores("sqlite", "postgresql")
async def test_second_recording_changes_nothing(database: Database) -> None:
    """Ten processes record the same audit; one does, and every sum moves once."""
    one = exchange()
    await exchanges.insert_batch(database, [one], {})
    found = [measurement(2.0, group="woman"), measurement(-1.0, group="man")]
    recorded = await asyncio.gather(*(record(database, one, found, probability=0.25) for _ in range(10)))
    assert sorted(recorded) == [False] * 9 + [True]
    found_streams = await streams.list_streams(database)
    assert [(one.key.metric, one.key.group, one.state.sums.n) for one in found_streams] == [
        ("favoritism", "man", 1),
        ("favoritism", "woman", 1),
        ("favoritism_gap", "man", 1),
        ("favoritism_gap", "woman", 1),
    ]
    assert (await counters.read(database))["exchanges", ("audited", "judge")] == 1
    scored = await scores_of(database)
    assert sorted((one.group, one.value, one.inclusion_probability) for one in scored) == [
        ("man", -1.0, 0.25),
        ("woman", 2.0, 0.25),
    ]
    assert scored[0].exchange == one


@pytest.mark.stores("sqlite", "postgresql")
async def test_concurrent_audits_all_move_one_stream(database: Database) -> None:
    """Auditors of different exchanges that meet in one stream lose no update, the stream's first included."""
    await asyncio.gather(*(audited(database, measurement(1.0)) for _ in range(12)))
    [stream] = await streams.list_streams(database)
    assert stream.state.sums.n == 12
    assert stream.key.model == "m"
    assert (await counters.read(database))["exchanges", ("audited", "judge")] == 12


async def test_failed_audit_is_recorded_without_a_number(database: Database) -> None:
    """A failure leaves its kind and a count, no measurement and no stream; NUL characters do not stop it."""
    one = exchange()
    await exchanges.insert_batch(database, [one], {})
    failure = AuditFailure(auditor="judge", auditor_version="1", kind="malformed", message="no verdict\x00")
    assert await record(database, one, failure)
    assert await exchanges.audits(database, [one.id]) == {one.id: {"judge": "failed"}}
    assert await streams.list_streams(database) == []
    assert await counters.read(database) == {("exchanges", ("failed", "judge")): 1}


async def test_refusal_is_excluded_not_scored(database: Database) -> None:
    """A measurement without a value moves only the count of exclusions."""
    await audited(database, measurement(None))
    [stream] = await streams.list_streams(database)
    assert stream.state.sums.n == 0
    assert stream.state.excluded == {"refusal": 1}
    assert await scores_of(database) == []


async def test_scores_fall_into_their_own_buckets(database: Database) -> None:
    """Each of the scores -1, 0, 1, 2 has a bucket; the sum is of (score + 1) / 3."""
    for value in (-1.0, 0.0, 1.0, 2.0, 2.0):
        await audited(database, measurement(value))
    series = ("judge", "gender", "women", "m")
    found = await counters.read(database)
    buckets = [found["live_score", (*series, str(bound))] for bound in recording.SCORE_BOUNDS]
    assert buckets == [1, 1, 1, 2]
    assert found["live_score_sum", series] == pytest.approx(3.0)


async def test_drift_raises_an_alarm_that_can_be_acknowledged(database: Database) -> None:
    """After a reference of low scores a run of high ones alarms, names the exchange, and is lowered on demand."""
    for _ in range(SETTINGS.reference_window):
        await audited(database, measurement(-1.0))
    [calm] = await streams.list_streams(database)
    assert (calm.state.alarm, calm.alarm_since, calm.alarm_exchange_id) == (False, None, None)
    alarmed = calm
    for _ in range(200):
        await audited(database, measurement(2.0))
        [alarmed] = await streams.list_streams(database)
        if alarmed.state.alarm:
            break
    assert alarmed.state.alarm
    assert alarmed.alarm_since is not None
    assert alarmed.alarm_exchange_id is not None
    assert await exchanges.get(database, alarmed.alarm_exchange_id) is not None
    await audited(database, measurement(2.0))
    [later] = await streams.list_streams(database)
    assert (later.alarm_since, later.alarm_exchange_id) == (alarmed.alarm_since, alarmed.alarm_exchange_id)
    lowered = await alarms.acknowledge(database, alarmed.id, SETTINGS, by="ann", reason="checked")
    assert lowered is not None
    assert [lowered] == await streams.list_streams(database)
    assert (lowered.state.alarm, lowered.alarm_since) == (False, None)
    assert lowered.acknowledged_at is not None
    assert lowered.state.sums == later.state.sums
    assert await alarms.acknowledge(database, "absent", SETTINGS, by="ann", reason="checked") is None


async def test_new_judge_starts_a_new_stream(database: Database) -> None:
    """Scores of different auditor versions never share a series."""
    await audited(database, measurement(1.0))
    await audited(database, measurement(1.0, auditor_version="2"))
    found = await streams.list_streams(database)
    assert [stream.state.sums.n for stream in found] == [1, 1]
    assert len({stream.key.instrument for stream in found}) == 2
