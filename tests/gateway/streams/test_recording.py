"""Recording: once per exchange and auditor, with measurements, streams and counters in one transaction."""

import asyncio

import pytest

from auditors.types import AuditFailure
from gateway.store import counters, exchanges
from gateway.store.database import Database
from tests.support.store.made import audited, exchange, list_streams, measurement, record
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
    found_streams = await list_streams(database)
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


async def test_failed_audit_is_recorded_without_a_number(database: Database) -> None:
    """A failure leaves its kind and a count, no measurement and no stream; NUL characters do not stop it."""
    one = exchange()
    await exchanges.insert_batch(database, [one], {})
    failure = AuditFailure(auditor="judge", auditor_version="1", kind="malformed", message="no verdict\x00")
    assert await record(database, one, failure)
    assert await exchanges.audits(database, [one.id]) == {one.id: {"judge": "failed"}}
    assert await list_streams(database) == []
    assert await counters.read(database) == {("exchanges", ("failed", "judge")): 1}


async def test_new_judge_starts_a_new_stream(database: Database) -> None:
    """Scores of different auditor versions never share a series."""
    await audited(database, measurement(1.0))
    await audited(database, measurement(1.0, auditor_version="2"))
    found = await list_streams(database)
    assert [stream.state.sums.n for stream in found] == [1, 1]
    assert len({stream.key.instrument for stream in found}) == 2
