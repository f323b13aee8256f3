"""Ticks of a time axis: round moments in UTC, each with the time or the date that a reader wants there."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

MINUTE, HOUR, DAY, MONTH = 60, 3600, 86_400, 30 * 86_400
SIXTIETHS = (1, 2, 5, 10, 15, 30)
LONGER = (*(HOUR * n for n in (1, 2, 3, 6, 12)), *(DAY * n for n in (1, 2, 7, 14)))
STEPS = (*SIXTIETHS, *(MINUTE * n for n in SIXTIETHS), *LONGER)
"""Seconds between two ticks."""
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 12_000)
"""Months between two ticks, where a fortnight is too short."""
NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
START = datetime(1970, 1, 1, tzinfo=UTC)
LAST = 253_402_300_799.0
"""End of the year 9999, the last second that has a date."""


class Tick(msgspec.Struct, frozen=True):
    """A moment, Unix seconds, and what stands below it."""

    at: float
    words: str
    day: str
    """The day, on a line of its own, if it differs from the day of the tick before; empty elsewhere."""


def format_time(at: float) -> str:
    """A moment for people: "24 Nov 2026 13:05:09 UTC"."""
    if not _has_date(at):
        return "a time without a date"
    then = _at(at)
    return f"{_date(then)} {then:%H:%M:%S} UTC"


def ticks(start: float, end: float, most: int) -> list[Tick]:
    """Return 2 to `most` round moments, Unix seconds, between `start` and `end`; none beyond years with dates."""
    if not start < end or not _has_date(start) or not _has_date(end):
        return []
    for step in STEPS:
        moments = range(int(-(-start // step) * step), int(end) + 1, step)
        if len(moments) <= most:
            return _label(moments, step)
    first, last = (12 * moment.year + moment.month - 1 for moment in (_at(start), _at(end)))
    for step in MONTHS:
        months = range(-(-first // step) * step, last + 1, step)
        dates = [datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp() for month in months]
        within = [int(at) for at in dates if start <= at <= end]
        if len(within) <= most:
            return _label(within, step * MONTH)
    return []


def _label(moments: Sequence[int], step: int) -> list[Tick]:
    """Return the ticks with their words and, on a line of its own where it changes, the day or the year."""
    labels, before = [], ""
    for then in map(_at, moments):
        month, year = NAMES[then.month - 1], str(then.year)
        if step >= 12 * MONTH:
            words, line = year, ""
        elif step >= MONTH:
            words, line = month, year
        elif step >= DAY:
            words, line = f"{then.day} {month}", year
        else:
            words, line = (f"{then:%H:%M:%S}" if step < MINUTE else f"{then:%H:%M}"), _date(then)
        labels.append(Tick(then.timestamp(), words, line if line != before else ""))
        before = line
    return labels


def _has_date(at: float) -> bool:
    return 0.0 <= at <= LAST


def _at(at: float) -> datetime:
    return START + timedelta(seconds=at)


def _date(then: datetime) -> str:
    return f"{then.day} {NAMES[then.month - 1]} {then.year}"
