"""Linear scales and the ticks of numbers and of times."""

import math
from datetime import UTC, datetime

import pytest

from benchmarks.figures import clock
from benchmarks.figures.panels import Scale, ticks

NOVEMBER = datetime(2026, 11, 24, 2, 15, 9, tzinfo=UTC).timestamp()


def test_a_number_lies_where_its_share_is() -> None:
    """Either way round, and on an end where it lies beyond it."""
    down = Scale(low=-1.0, high=3.0, start=200.0, end=0.0)

    assert [down.at(value) for value in (-1.0, 0.0, 3.0, 9.0, -9.0)] == [200.0, 150.0, 0.0, 0.0, 200.0]
    assert [down.holds(value) for value in (-1.0, 3.0, 3.1, -1.1)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("low", "high", "found", "places"),
    [
        (-1.0, 2.0, [-1.0, 0.0, 1.0, 2.0], 0),
        (0.0, 0.05, [0.0, 0.01, 0.02, 0.03, 0.04, 0.05], 2),
        (0.13, 0.31, [0.15, 0.2, 0.25, 0.3], 2),
        (0.0, 1e9, [0.0, 2e8, 4e8, 6e8, 8e8, 1e9], 0),
        (-0.02, 0.02, [-0.02, -0.01, 0.0, 0.01, 0.02], 2),
    ],
)
def test_ticks_are_round(low: float, high: float, found: list[float], places: int) -> None:
    """As many decimals as they need, and no negative zero."""
    values, decimals = ticks(low, high)

    assert values == pytest.approx(found)
    assert decimals == places
    assert all(math.copysign(1.0, value) > 0 for value in values if value == 0)


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.inf), (-1e308, 1e308)])
def test_a_range_that_is_none_has_no_ticks(ends: tuple[float, float]) -> None:
    """Instead of an error or an endless list."""
    assert ticks(*ends) == ([], 0)


@pytest.mark.parametrize(
    ("seconds", "most", "words", "days"),
    [
        (30, 4, ["02:15:10", "02:15:20", "02:15:30"], ["24 Nov 2026", "", ""]),
        (4000, 4, ["02:30", "02:45", "03:00", "03:15"], ["24 Nov 2026", "", "", ""]),
        (86_400, 4, ["06:00", "12:00", "18:00", "00:00"], ["24 Nov 2026", "", "", "25 Nov 2026"]),
        (5 * 86_400, 4, ["25 Nov", "27 Nov", "29 Nov"], ["2026", "", ""]),
        (60 * 86_400, 3, ["Dec", "Jan"], ["2026", "2027"]),
        (10 * 365 * 86_400, 4, ["2030", "2035"], ["", ""]),
    ],
)
def test_ticks_of_time_are_round_in_utc(seconds: int, most: int, words: list[str], days: list[str]) -> None:
    """Times on a day, dates over days, months, years; the day or the year where it is another than before."""
    found = clock.ticks(NOVEMBER, NOVEMBER + seconds, most)

    assert [one.words for one in found] == words
    assert [one.day for one in found] == days
    assert all(NOVEMBER <= one.at <= NOVEMBER + seconds for one in found)


@pytest.mark.parametrize("ends", [(-5.0, 5.0), (0.0, 1e15), (math.nan, 1.0), (5.0, 5.0), (0.0, math.inf)])
def test_times_without_a_date_have_no_ticks(ends: tuple[float, float]) -> None:
    """Instead of an error."""
    assert clock.ticks(*ends, 5) == []
