"""Live streams in the store: kills, repeats, families of streams, gaps, missing judgements, windows."""

import asyncio
import math
import subprocess
import sys
from collections.abc import Sequence

import msgspec
import pytest
import sqlalchemy as sa

from auditors.metrics.intervals import Interval
from auditors.metrics.sequential import log_sum
from auditors.streams import state as live
from auditors.streams.drift import Detector, DriftSettings, Others
from auditors.streams.estimates import WINDOW_METHOD, bounds_of, window_estimate
from auditors.streams.scales import scaled
from auditors.streams.state import StreamState
from auditors.types import AuditFailure, Measurement
from gateway.reading.stream_pages import read_detectors, read_moved
from gateway.store import exchanges, tables, windows
from gateway.store.database import Database
from gateway.store.streams import Selection, Stream
from gateway.store.windows import Window
from gateway.streams.steps import log_evidence_of
from tests.support.store import recorder
from tests.support.store.made import exchange, list_streams, measurement, record

pytestmark = pytest.mark.stores("sqlite")

AUDITS = 120
CALM = DriftSettings(
    average_run_length=1000.0,
    reference_run="r",
    references={"favoritism/gender/women": Interval(0.0, 0.2), "favoritism/age/women": Interval(0.0, 0.2)},
)


async def audited(
    database: Database, found: Sequence[Measurement], *, settings: DriftSettings = CALM, probability: float = 0.5
) -> str:
    """Stores a new exchange and what an audit found; returns the exchange's id."""
    one = exchange()
    await exchanges.insert_batch(database, [one], {})
    await record(database, one, found, probability=probability, settings=settings)
    return one.id


def read_until(process: subprocess.Popen[str], number: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= number:
            return
    raise AssertionError(f"it ended before audit {number}")


def replayed() -> dict[tuple[str, str], StreamState]:
    """The same audits, each once, without any store: single streams by metric and group."""
    states: dict[tuple[str, str], StreamState] = {}
    n_streams = 0
    for number in range(AUDITS):
        one, found = recorder.planned(number)
        [only] = found
        group = str(only.group)
        n_streams = 1 if number == 0 and not states else 4  # a second group brings its own stream and both gaps
        states["favoritism", group] = live.record(
            states.get(("favoritism", group), StreamState()),
            only,
            recorder.PROBABILITY,
            recorder.SETTINGS,
            others=others_than(states, ("favoritism", group), n_streams),
            exchange_id=one.id,
            at=one.received_at,
        )
        if only.value is None or number == 0:
            continue
        y = scaled("favoritism", only.value)
        for gap in ("man", "woman"):
            states["favoritism_gap", gap] = live.record_gap(
                states.get(("favoritism_gap", gap), StreamState()),
                [y] if gap == group else [],
                [] if gap == group else [y],
                recorder.PROBABILITY,
                recorder.SETTINGS,
                others=others_than(states, ("favoritism_gap", gap), n_streams),
                exchange_id=one.id,
                at=one.received_at,
            )
    return states


@pytest.mark.stores("sqlite", "postgresql")
def test_kills_and_repeats_change_nothing(store_url: str) -> None:
    """A recorder killed halfway and repeated twice ends in exactly the state of an undisturbed replay."""
    command = [sys.executable, "-m", "tests.support.store.recorder", store_url, str(AUDITS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        read_until(process, AUDITS // 2)
        process.kill()
    for _ in range(2):
        asyncio.run(recorder.record_planned(store_url, AUDITS))

    found = {(one.key.metric, one.key.group): one for one in _listed(store_url)}

    expected = replayed()
    assert {place: stream.state for place, stream in found.items()} == expected
    assert any(state.alarm for state in expected.values())
    assert all((stream.alarm_since is not None) == stream.state.alarm for stream in found.values())


def others_than(states: dict[tuple[str, str], StreamState], place: tuple[str, str], n_streams: int) -> Others:
    evidence = [log_evidence_of(state) for other, state in states.items() if other != place]
    return Others(count=n_streams - 1, log_evidence=log_sum([value for value in evidence if value is not None]))


def _listed(url: str) -> list[Stream]:
    async def listed() -> list[Stream]:
        database = await Database.open(url)
        try:
            return await list_streams(database)
        finally:
            await database.close()

    return asyncio.run(listed())


async def test_more_streams_ask_for_more_evidence(database: Database) -> None:
    """With K streams in the store an alarm needs K times the evidence while the others have none."""
    settings = CALM
    for axis in range(9):
        await audited(database, [measurement(0.0, axis=f"axis-{axis}")], settings=settings)
    logs = [-math.inf]
    while True:
        await audited(database, [measurement(2.0)], settings=settings)
        detector = await detector_of(database, "gender")
        logs.append(detector.log_evidence)
        if detector.alarm:
            break

    for _ in range(5):
        await audited(database, [measurement(2.0)], settings=settings)
    [moved] = await read_moved(database, settings)
    page = (await read_detectors(database, Selection(), settings)).read()

    assert settings.log_threshold(1) < logs[-2] < settings.log_threshold(10) <= logs[-1]
    assert (moved.axis, moved.shift) == ("gender", "moved")
    assert [one.axis for one in page if one.has_moved] == ["gender"]


async def test_evidence_of_other_streams_counts(database: Database) -> None:
    """A stream at A alarms when another brings the family there; an alarmed one brings nothing more."""
    settings = msgspec.structs.replace(CALM, average_run_length=1e6)
    await audited(database, [measurement(-1.0, axis="age")], settings=settings)
    by_age = sa.update(tables.streams).where(tables.streams.c.axis == "age")
    await database.change_rows(by_age.values(log_evidence=math.log(1e12)))
    for _ in range(40):
        await audited(database, [measurement(2.0)], settings=settings)
        if (await detector_of(database, "gender")).alarm:
            break
    detector = await detector_of(database, "gender")

    assert detector.alarm
    assert settings.log_threshold(1) <= detector.log_evidence
    query = sa.select(tables.streams.c.log_evidence).where(tables.streams.c.axis == "gender")
    assert await database.fetch_value(query) is None


async def detector_of(database: Database, axis: str) -> Detector:
    [stream] = [one for one in await list_streams(database) if one.key.axis == axis]
    assert stream.state.detector is not None
    return stream.state.detector


async def test_a_missing_score_widens_the_gaps_of_its_axis(database: Database) -> None:
    """A judge that gave nothing about men widens the gap of men and that of women, and no other axis' gaps."""
    for axis in ("gender", "age"):
        for _ in range(24):
            await audited(
                database, [measurement(1.0, group="man", axis=axis), measurement(0.0, group="woman", axis=axis)]
            )
    before = {one.id: one for one in await list_streams(database) if one.key.metric == "favoritism_gap"}
    one = exchange()
    await exchanges.insert_batch(database, [one], {})
    missing = [measurement(None, status="malformed", group="man")]
    failure = AuditFailure(auditor="judge", auditor_version="1", kind="malformed", message="no", missing=missing)
    await record(database, one, failure, settings=CALM)
    after = {one.id: one for one in await list_streams(database) if one.key.metric == "favoritism_gap"}
    moved = [after[key] for key in before if after[key].state != before[key].state]

    assert {(one.key.axis, one.key.group) for one in moved} == {("gender", "man"), ("gender", "woman")}
    for stream in moved:
        old, new = before[stream.id].state, stream.state
        assert (new.sums, new.n_missing) == (old.sums, 1)
        assert bounds_of(new).lower < bounds_of(old).lower
        assert bounds_of(new).upper > bounds_of(old).upper


@pytest.mark.stores("sqlite", "postgresql")
async def test_a_window_is_the_newest_audits_of_each_stream(database: Database) -> None:
    """By number, each stream has its own newest; weighted as all estimates are, with what had no value beside it."""
    for value in (2.0, 2.0, -1.0, None, 0.0):
        await audited(database, [measurement(value)], probability=0.5)
    await audited(database, [measurement(1.0)], probability=0.1)
    await audited(database, [measurement(2.0, axis="age")])
    by_axis = {one.key.axis: one for one in await list_streams(database)}
    found = await windows.sums(database, Window(audits=3))
    gender = window_estimate(by_axis["gender"].key, found[by_axis["gender"].id].values, {})

    assert gender.value == pytest.approx((2 * 0.0 + 10 * 1.0) / 12)
    assert gender.n == 2
    assert found[by_axis["gender"].id].excluded == {"refusal": 1}
    assert found[by_axis["age"].id].values.n == 1
    assert gender.method == WINDOW_METHOD
