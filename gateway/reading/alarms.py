"""The API's form of an active drift alarm: since when, against which reference, and the exchanges that caused it."""

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from auditors.metrics.intervals import Interval
from auditors.streams.scales import GAP_SUFFIX, unscaled
from gateway.store.streams import Stream
from gateway.streams.detectors import ShownDetector
from gateway.streams.estimates import SinceChange, since_change_of

MOST_SHOWN = 200
"""Exchanges on one page of `GET /live/exchanges`."""


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that drifted and was not acknowledged since."""

    stream: str
    auditor: str
    metric: str
    axis: str | None
    group: str | None
    model: str
    since: float | None
    exchange_id: str | None
    """The exchange whose audit raised it."""
    exchange_ids: list[str]
    """Exchanges that spoke most for the change since it began, the strongest first."""
    exchanges: str | None
    """Path and query that show those exchanges and the exchange that raised it; null when none is known any more."""
    direction: str | None
    """rising or falling."""
    reference: tuple[float, float] | None
    """Interval that the stream is compared with, in the metric's own unit; drift.tolerance comes on top."""
    reference_run: str | None
    """The suite run that the reference comes from; null for the stream's own first audits."""
    log_evidence: float | None
    log_threshold: float
    audits_seen: int
    instrument: str
    since_change: SinceChange | None
    """The mean since the change with its interval; null if no value of that time is known."""
    same_change: list[str] = []
    """The streams, this one among them, whose alarms the same change raised: one alarm with several series."""


def alarm_of(stream: Stream, log_threshold: float) -> Alarm:
    """Return the alarm of a stream whose alarm stands."""
    detector = stream.state.detector
    evidence = detector.log_evidence if detector else -math.inf
    behind = detector.behind if detector else []
    return Alarm(
        stream=stream.id,
        auditor=stream.key.auditor,
        metric=stream.key.metric,
        axis=stream.key.axis or None,
        group=stream.key.group or None,
        model=stream.key.model,
        since=stream.alarm_since,
        exchange_id=stream.alarm_exchange_id,
        exchange_ids=behind,
        exchanges=exchanges_link(
            stream.key.auditor, stream.key.axis, [*behind, *filter(None, [stream.alarm_exchange_id])]
        ),
        direction=detector.direction if detector else None,
        reference=_in_own_unit(stream.key.metric, detector.reference) if detector else None,
        reference_run=detector.reference_run if detector else None,
        log_evidence=evidence if math.isfinite(evidence) else None,
        log_threshold=log_threshold,
        audits_seen=detector.n_seen if detector else 0,
        instrument=stream.key.instrument,
        since_change=since_change_of(stream),
    )


def exchanges_link(auditor: str, axis: str | None, ids: Sequence[str]) -> str | None:
    """Path and query that show these exchanges; None when there are none."""
    where = [
        ("auditor", auditor),
        ("axis", axis),
        *(("exchange_id", exchange_id) for exchange_id in dict.fromkeys(ids)),
    ]
    query = urlencode([*((name, value) for name, value in where if value), ("limit", MOST_SHOWN)])
    return f"/live/exchanges?{query}" if ids else None


def _in_own_unit(metric: str, interval: Interval) -> tuple[float, float]:
    return unscaled(metric, interval.lower), unscaled(metric, interval.upper)


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
