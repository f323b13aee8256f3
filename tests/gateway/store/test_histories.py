"""Histories of live streams: what lies in which period, what is read, and what it weighs."""

import math
import time
from typing import Any

import pytest
import sqlalchemy as sa

from auditors.streams.estimates import window_estimate
from auditors.streams.scales import unscaled
from gateway.store import histories, streams, tables
from gateway.store.database import Database
from gateway.store.histories import FEWEST_PERIODS, LENGTHS, MOST_PERIODS, Read
from gateway.store.windows import Window
from tests.support.store.made import audited, measurement

pytestmark = pytest.mark.stores("sqlite")

START = 1_767_225_600.0
"""2026-01-01 00:00 UTC."""


async def recorded(
    database: Database,
    value: float | None,
    at: float,
    *,
    probability: float = 1.0,
    rate_factor: float = 1.0,
    **given: str,
) -> str:
    """An audit that was recorded at a time of our own; returns the id of its stream."""
    one = await audited(database, measurement(value, **given), probability=probability, rate_factor=rate_factor)
    columns = tables.measurements.c
    mine = columns.exchange_id == one.id
    async with database.begin() as connection:
        await connection.execute(sa.update(tables.measurements).where(mine).values(created_at=at))
        return str((await connection.execute(sa.select(columns.stream).where(mine))).scalar())


def shown(read: Read | None) -> dict[float, tuple[int, Any, dict[str, int]]]:
    """By start of each period: values, their mean as favouritism, what has no value."""
    assert read is not None
    return {
        number * read.length - START: (
            one.values.n,
            unscaled("favoritism", one.values.wy / one.values.w) if one.values.n else math.nan,
            one.excluded,
        )
        for number, one in read.periods.items()
    }


@pytest.mark.stores("sqlite", "postgresql")
async def test_measurements_lie_in_periods_of_equal_length(database: Database) -> None:
    """Each in the period in which it was recorded; one without any is absent, one without a value has no mean."""
    stream = ""
    for at, value in ((0.0, -1.0), (599.9, 1.0), (600.0, 2.0), (3000.0, None), (6000.0, 0.5)):
        stream = await recorded(database, value, START + at)
    await recorded(database, None, START + 3000.0, status="error")
    await recorded(database, 2.0, START, group="men")  # of another stream
    read = await histories.read(database, stream)

    assert await histories.read(database, "0" * 32) is None
    assert read is not None
    assert read.length == 600
    found = shown(read)
    assert list(found) == [0.0, 600.0, 3000.0, 6000.0]
    assert found[0.0] == (2, pytest.approx(0.0), {})
    assert found[600.0] == (1, pytest.approx(2.0), {})
    assert found[3000.0][0] == 0
    assert found[3000.0][2] == {"refusal": 1, "error": 1}
    assert found[6000.0] == (1, pytest.approx(0.5), {})
    assert not read.is_cut


async def test_a_value_weighs_as_in_the_live_mean(database: Database) -> None:
    """The inverse of its inclusion probability, bounded where the rates of its moment were low."""
    stream = await recorded(database, 1.0, START, probability=1.0)
    await recorded(database, -1.0, START, probability=0.25)
    await recorded(database, 2.0, START, probability=1 / 64, rate_factor=1 / 64)
    read = await histories.read(database, stream)
    [live] = await streams.load(database, [stream])

    assert read is not None
    [one] = read.periods.values()
    assert one.values.w == pytest.approx(1.0 + 4.0 + 8.0)
    assert one.values.wy == pytest.approx(live.state.sums.wy)
    assert window_estimate(live.key, one.values, {}).value == pytest.approx((1.0 - 4.0 + 16.0) / 13.0)


@pytest.mark.stores("sqlite", "postgresql")
async def test_the_newest_are_read(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a bound, and it is said that there are older ones; a window narrows it, by number or by time."""
    now = time.time()
    monkeypatch.setattr(histories, "MOST_READ", 3)
    stream = ""
    for ago in (500.0, 400.0, 300.0, 200.0, 10.0):
        stream = await recorded(database, 1.0, now - ago)

    async def found(window: Window | None) -> tuple[int, bool]:
        read = await histories.read(database, stream, window)
        assert read is not None
        return sum(one.values.n for one in read.periods.values()), read.is_cut

    assert await found(None) == (3, True)
    assert await found(Window(audits=2)) == (2, False)
    assert await found(Window(audits=4)) == (3, True)
    assert await found(Window(seconds=250.0)) == (2, False)
    assert await found(Window(seconds=450.0)) == (3, True)
    assert await histories.read(database, stream, Window(seconds=5.0)) is None


@pytest.mark.parametrize("span", [0.0, 0.5, 59.0, 3600.0, 86_400.0, 40 * 86_400.0, 50 * 365 * 86_400.0, 1e13])
@pytest.mark.parametrize("n", [1, 30, 1199, 1_000_000])
def test_there_are_at_most_sixty_periods(span: float, n: int) -> None:
    """However long it went on; of few measurements fewer, but the shortest length that leaves them."""
    end = START + span
    length = histories.length_of(START, end, n)
    most = max(FEWEST_PERIODS, min(MOST_PERIODS, n // 100))
    assert end // length - START // length + 1 <= most
    shorter = [one for one in LENGTHS if one < length]
    if length in LENGTHS and shorter:
        assert end // shorter[-1] - START // shorter[-1] + 1 > most
