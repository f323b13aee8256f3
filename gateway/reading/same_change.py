"""Alarms that a single change raises: a group, the group against the others, and its mirror image in the others."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from auditors.streams.scales import GAP_SUFFIX
from gateway.reading.alarms import Alarm
from gateway.streams.detectors import ShownDetector

A = TypeVar("A", Alarm, ShownDetector)


def by_measure(alarmed: Iterable[A]) -> list[list[A]]:
    """Return the alarms by what is measured of which axis: only within a list can two speak of the same change."""
    lists: dict[tuple[str | None, ...], list[A]] = {}
    for alarm in alarmed:
        metric = alarm.metric.removesuffix(GAP_SUFFIX)
        lists.setdefault((alarm.auditor, metric, alarm.axis, alarm.model, alarm.instrument), []).append(alarm)
    return list(lists.values())


def by_change(alarmed: Sequence[A]) -> list[list[A]]:
    """Return the alarms of a single measure (`by_measure`), each once, in lists of those of the same change."""
    changes: list[list[A]] = []
    for alarm in alarmed:
        near: list[list[A]] = [change for change in changes if any(_is_same_change(alarm, other) for other in change)]
        changes = [change for change in changes if not any(change is other for other in near)]
        joined: list[A] = [other for change in near for other in change]
        joined.append(alarm)
        changes.append(joined)
    return changes


def _is_same_change(a: A, b: A) -> bool:
    """Return whether the same scores move both: a group and its gap to the same side, or a gap of another group to the
    other side. Two groups that both moved are two changes, unless a gap joins them.
    """
    if a.direction is None or b.direction is None:
        return False
    if a.group == b.group:
        return a.direction == b.direction
    return a.direction != b.direction and (a.metric.endswith(GAP_SUFFIX) or b.metric.endswith(GAP_SUFFIX))
