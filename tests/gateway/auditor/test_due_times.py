"""When scheduled suites are due: by cron and by interval, with and without a run that has finished."""

from typing import Any

import pytest

from gateway.auditor.scheduling import due_times
from gateway.config.audit_request import AuditRequest
from gateway.store.runs import Run
from gateway.store.schedules import Schedule
from tests.gateway.auditor.test_metrics import run
from tests.support.gateway.control_plane import STEREOSET

HOUR, DAY = 3600.0, 86400.0


def schedule(suites: Any = ("stereoset",), *, cron: str | None = None, every: float | None = None) -> Schedule:
    """Made at the beginning of time, with its last time taken ten days later."""
    return Schedule(
        id="s",
        name="nightly",
        source="config",
        cron=cron,
        every_seconds=every,
        request=AuditRequest(suites=suites if isinstance(suites, str) else list(suites), model="m"),
        created_at=0.0,
        next_due_at=10 * DAY,
        last_due_at=None,
        last_run_ids=[],
        last_error=None,
    )


def finished(at: float, suite: str = "stereoset", model: str = "m") -> Run:
    return run(suite=suite, model=model, finished_at=at)


@pytest.mark.parametrize(
    ("timing", "at", "due"),
    [
        pytest.param({"cron": "0 3 * * *"}, 3.2 * HOUR, DAY + 3 * HOUR, id="the next night"),
        pytest.param({"every": DAY}, 1.5 * DAY, 2 * DAY, id="a whole number of intervals from a time of the schedule"),
        pytest.param({"every": DAY}, 30.5 * DAY, 31 * DAY, id="later than the next time"),
    ],
)
def test_due_after_the_newest_run(timing: dict[str, Any], at: float, due: float) -> None:
    """The first time of the schedule later than the end of the newest run; older runs and other models say nothing."""
    runs = [finished(at), finished(at - 1000.0), finished(99 * DAY, model="other"), finished(99 * DAY, suite="bbq")]
    assert due_times([schedule(**timing)], runs, []) == {("stereoset", "m"): due}


def test_the_earliest_time_of_schedules_without_a_run_counts() -> None:
    """Failing every hour for ten days makes it ten days late; of two schedules of one suite the first time counts."""
    assert due_times([schedule(every=HOUR)], [], []) == {("stereoset", "m"): HOUR}
    both = [schedule(every=7 * DAY), schedule(("bbq", "stereoset"), every=DAY)]
    assert due_times(both, [finished(2.5 * DAY)], []) == {("stereoset", "m"): 3 * DAY, ("bbq", "m"): DAY}


def test_all_stands_for_what_the_auditors_can_run() -> None:
    """Nothing is due by "all" while no auditor has said what it can run."""
    everything = schedule("all", every=DAY)
    assert due_times([everything], [], []) == {}
    assert due_times([everything], [], [STEREOSET | {"data": "ok"}]) == {("stereoset", "m"): DAY}
