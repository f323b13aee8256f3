"""Alarms that a single change raises are shown as a single change."""

import pytest

from auditors.metrics.intervals import Interval
from auditors.streams import drift
from auditors.streams.drift import DriftSettings
from auditors.streams.state import StreamKey, StreamState
from gateway.reading.alarms import Alarm, alarm_of, by_change, by_measure
from gateway.store.streams import Stream

SETTINGS = DriftSettings(average_run_length=100.0)


def alarm(metric: str, group: str, y: float, axis: str = "gender") -> Alarm:
    """An alarm of values that moved to y."""
    detector = drift.start(Interval(0.45, 0.55), SETTINGS)
    for _ in range(60):
        detector = drift.step(detector, y, 1.0, SETTINGS)
    assert detector.alarm
    key = StreamKey(auditor="judge", metric=metric, axis=axis, group=group, model="m", instrument="v1")
    state = StreamState(detector=detector)
    stream = Stream(
        id=f"{metric} {group} {axis}",
        key=key,
        state=state,
        updated_at=0.0,
        alarm_since=0.0,
        alarm_exchange_id=None,
        acknowledged_at=None,
    )
    return alarm_of(stream, SETTINGS.log_threshold())


MAN, WOMAN = alarm("favoritism", "man", 1.0), alarm("favoritism", "woman", 1.0)
MAN_GAP, WOMAN_GAP = alarm("favoritism_gap", "man", 1.0), alarm("favoritism_gap", "woman", 0.0)


@pytest.mark.parametrize(
    ("alarmed", "n_changes"),
    [
        ([MAN, MAN_GAP, WOMAN_GAP], 1),
        ([MAN, WOMAN_GAP], 1),
        ([MAN, WOMAN], 2),
        ([MAN, WOMAN, MAN_GAP], 2),
        ([MAN, alarm("favoritism", "man", 1.0, "age")], 2),
        ([MAN, alarm("refusal_rate", "man", 1.0)], 2),
        ([MAN, alarm("favoritism_gap", "man", 0.0)], 2),
    ],
)
def test_mirror_images_are_one_change_and_no_alarm_is_hidden(alarmed: list[Alarm], n_changes: int) -> None:
    """A group, its gap and the others' gap to the other side belong together; other series and sides do not."""
    changes = [change for listed in by_measure(alarmed) for change in by_change(listed)]

    assert len(changes) == n_changes
    assert sorted(alarm.stream for change in changes for alarm in change) == sorted(one.stream for one in alarmed)
    assert all(alarm.since_change is not None for alarm in alarmed)
