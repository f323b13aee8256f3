"""Measurements by day: partitions made ahead and dropped when old, rows that have none, links of deleted exchanges."""

import asyncio
import time
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.auditor import maintenance
from gateway.config.loading import validate
from gateway.store import exchanges, partitions
from gateway.store.database import Database
from gateway.store.partitions import A_DAY, DAYS_AHEAD
from gateway.store.tables import measurements
from tests.support.store.made import exchange, measurement, record, settle

TODAY = int(time.time()) // A_DAY * A_DAY


def row(at: float, exchange_id: str | None = None) -> dict[str, Any]:
    about = {"auditor": "judge", "auditor_version": "1", "metric": "favoritism", "model": "m", "status": "ok"}
    return about | {"inclusion_probability": 1.0, "created_at": at, "exchange_id": exchange_id, "reason": "some words"}


async def insert(database: Database, *rows: dict[str, Any]) -> None:
    await database.change_rows(sa.insert(measurements), list(rows))


async def times(database: Database, table: str = "measurements") -> list[float]:
    return await database.fetch_column(sa.text(f"SELECT created_at FROM {table} ORDER BY created_at"))


async def drop(database: Database, start: int) -> None:
    """As if nobody had made the partition of this day."""
    async with database.begin() as connection:
        name = time.strftime("measurements_d%Y%m%d", time.gmtime(start))
        await connection.execute(sa.text(f"DROP TABLE IF EXISTS {name}"))


async def bounds(database: Database) -> list[tuple[float, float]]:
    async with database.read() as connection:
        return [(one.start, one.end) for one in await partitions.listed(connection)]


@pytest.mark.stores("postgresql")
async def test_days_are_ready_ahead_of_time(database: Database) -> None:
    """Yesterday, today and the next week have a partition each, from midnight to midnight UTC; again adds none."""
    await partitions.prepare(database)
    first = await bounds(database)
    await partitions.prepare(database)
    assert await bounds(database) == first
    assert {(TODAY + n * A_DAY, TODAY + (n + 1) * A_DAY) for n in range(-1, DAYS_AHEAD + 1)} <= set(first)


@pytest.mark.stores("postgresql")
async def test_a_missing_partition_loses_no_row(database: Database) -> None:
    """Rows of a day that nobody made a partition for, at both ends of it, move into it when it is made; others stay."""
    day = TODAY + 3 * A_DAY
    await drop(database, day)
    inside, outside = [float(day), day + A_DAY - 0.001], [day + 400.0 * A_DAY]
    await insert(database, *map(row, inside + outside))
    assert await times(database, "measurements_other") == inside + outside

    await partitions.prepare(database)

    assert await times(database, "measurements_other") == outside
    assert await times(database, time.strftime("measurements_d%Y%m%d", time.gmtime(day))) == inside
    assert await times(database) == inside + outside


async def test_old_measurements_are_deleted_by_whole_days(database: Database) -> None:
    """What was recorded before the day in which the limit lies is gone, wherever it lay; that day is kept."""
    await partitions.prepare(database, since=TODAY - 5 * A_DAY)
    in_days = [TODAY - n * A_DAY + 1.0 for n in range(5, -1, -1)]
    elsewhere = [TODAY - 100.0 * A_DAY, TODAY + 300.0 * A_DAY]
    await insert(database, *map(row, in_days + elsewhere))

    await partitions.retire(database, recorded_before=TODAY - 2 * A_DAY + 60.0)

    assert await times(database) == [*in_days[3:], elsewhere[1]]
    if database.dialect == "postgresql":
        assert min(start for start, _ in await bounds(database)) == TODAY - 2 * A_DAY


async def test_the_auditors_pass_keeps_measurements_unless_told_otherwise(database: Database) -> None:
    """Exchanges go after their days and leave their numbers, unlinked and without words; numbers go after their own."""
    now = time.time()
    await partitions.prepare(database, since=now - 50 * A_DAY)
    one = exchange(id="old", request_id="r", received_at=now - 40 * A_DAY)
    await exchanges.insert_batch(database, [one], {("other", "queued"): 1})
    await settle(database, "old", "audited", keep_text=True)
    await insert(database, row(now - 40 * A_DAY, "old"), row(now - 5.0))

    await maintenance.retire(database, validate({}), asyncio.Event())
    kept = await database.fetch_rows(sa.select(measurements.c.exchange_id, measurements.c.reason))
    assert sorted(kept, key=str) == [(None, "some words"), (None, None)]
    assert await exchanges.get(database, "old") is None

    await maintenance.retire(database, validate({"store": {"measurement_retention_days": 35}}), asyncio.Event())
    assert await times(database) == [pytest.approx(now - 5.0)]


async def test_whoever_deletes_exchanges_unlinks_their_measurements(database: Database) -> None:
    """Also an earlier version, which leaves that to the database: of all days, and of those exchanges alone."""
    now = time.time()
    await partitions.prepare(database, since=now - 3 * A_DAY)
    made = [exchange(id=name, request_id=name) for name in ("gone", "kept")]
    await exchanges.insert_batch(database, made, {("other", "queued"): 2})
    for days in range(3):
        await insert(database, row(now - days * A_DAY, "gone"), row(now - days * A_DAY, "kept"))
    await database.change_rows(sa.text("DELETE FROM exchanges WHERE id = 'gone'"))
    linked = await database.fetch_column(sa.select(measurements.c.exchange_id))
    assert sorted(linked, key=str) == [None, None, None, "kept", "kept", "kept"]


@pytest.mark.stores("postgresql")
async def test_a_busy_partition_is_dropped_later(database: Database) -> None:
    """Whoever reads old measurements for long keeps them for the next pass, and nobody waits for more than a moment."""
    await partitions.prepare(database, since=TODAY - 5 * A_DAY)
    await insert(database, row(TODAY - 5 * A_DAY + 1.0))
    async with database.read() as reading:
        await reading.execute(sa.text("SELECT count(*) FROM measurements"))
        started = time.monotonic()
        await partitions.retire(database, recorded_before=TODAY - 3.0 * A_DAY)
        assert time.monotonic() - started < partitions.LOCK_SECONDS + 10
    assert len(await times(database)) == 1
    await partitions.retire(database, recorded_before=TODAY - 3.0 * A_DAY)
    assert await times(database) == []


@pytest.mark.stores("postgresql")
async def test_audits_are_recorded_while_partitions_come_and_go(database: Database) -> None:
    """Through the path of the auditor, on a day whose partition is missing."""
    await drop(database, TODAY)
    one = exchange(id="e", request_id="r", received_at=time.time())
    await exchanges.insert_batch(database, [one], {("other", "queued"): 1})
    assert await record(database, one, [measurement(1.0)])
    await partitions.prepare(database)
    assert not await record(database, one, [measurement(1.0)])
    assert len(await times(database)) == 1
    assert await times(database, "measurements_other") == []
