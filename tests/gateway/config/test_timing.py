"""When something is due."""

import pytest

from gateway.config.loading import validate
from gateway.config.timing import Timing
from gateway.errors import ConfigError, RequestError

MONDAY = 1_735_516_800.0  # 2024-12-30 00:00 UTC
DAY = 86_400.0


def test_cron_is_read_in_utc() -> None:
    """A cron line names minutes, hours and weekdays of UTC, whatever the machine's zone."""
    assert Timing.of("30 3 * * *", None).next_after(MONDAY, since=MONDAY) == MONDAY + 3.5 * 3600
    assert Timing.of("0 0 * * 1", None).next_after(MONDAY, since=MONDAY) == MONDAY + 7 * DAY


def test_an_interval_keeps_its_beat_and_missed_times_collapse() -> None:
    """After a pause of any length the next time is one, in the future, on the old beat."""
    hourly = Timing.of(None, 3600)
    assert hourly.next_after(MONDAY, since=MONDAY) == MONDAY + 3600
    assert hourly.next_after(MONDAY + 10 * 3600 + 7, since=MONDAY) == MONDAY + 11 * 3600


@pytest.mark.parametrize(
    ("cron", "every_seconds", "message"),
    [
        (None, None, "give either"),
        ("0 3 * * *", 3600.0, "give either"),
        ("0 3 * *", None, 'cron "0 3 . ." has 4 fields'),
        ("0 25 * * *", None, 'cron "0 25 . . ."'),
        ("0 0 30 2 *", None, "failed to find next date"),
        (None, 5.0, "the interval is 5 s: the shortest is 60 s"),
        (None, float("nan"), "the interval is nan"),
    ],
)
def test_what_cannot_be_is_refused(cron: str | None, every_seconds: float | None, message: str) -> None:
    """A line nobody can read, one that never comes true, and an interval too short are one clear sentence."""
    with pytest.raises(RequestError, match=message):
        Timing.of(cron, every_seconds)


def test_a_bad_schedule_in_the_file_is_named() -> None:
    """The configuration's error says which schedule and why."""
    one = {"name": "nightly", "suites": ["stereoset"], "model": "m", "cron": "nightly"}
    with pytest.raises(ConfigError, match=r'audits.schedules "nightly": cron "nightly" has 1 fields'):
        validate({"audits": {"schedules": [one]}})
    hourly = one | {"cron": None, "every_hours": 1}
    with pytest.raises(ConfigError, match='two schedules are named "nightly"'):
        validate({"audits": {"schedules": [hourly, hourly]}})
