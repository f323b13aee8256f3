"""The history of a stream as it is shown: means of periods, and the conclusions of its detector."""

import math
from collections.abc import Iterable

import msgspec

from auditors.judge_reference import AUDITOR as REFERENCE
from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import WINDOW_METHOD, window_estimate
from auditors.streams.scales import GAP_SUFFIX
from auditors.streams.state import MISSING
from auditors.structs import combine
from gateway.store.histories import MOST_READ, Read
from gateway.store.served import ModelChange
from gateway.store.streams import Stream
from gateway.store.windows import WindowSums
from gateway.streams.detectors import Bounds, State, bounds_of
from gateway.streams.series import ShownSeries, labels_of

MOST_CHANGES = 20
"""Changes of the model that are shown: the newest."""


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of a period. A period without measurements is not listed; without a value, `value` is null."""

    start: float
    """Unix seconds of its beginning."""
    end: float
    """End of the bucket; that of the newest bucket may lie ahead."""
    value: float | None
    lower: float | None
    upper: float | None
    """Pointwise: the interval holds for one period chosen beforehand. Missing values do not widen it."""
    n: int
    """Audits with a value."""
    n_missing: int
    """Excluded audits whose value is missing: it exists, but is unknown."""
    excluded: dict[str, int]
    """Audits without a value, by status."""


class History(ShownSeries, frozen=True, kw_only=True):
    """One stream over time. Values are in the metric's own unit, times Unix seconds."""

    window: str | None
    """Window of the request; null for all measurements."""
    bucket_seconds: int | None
    buckets: list[Bucket]
    """Buckets, at most 60, in order of time."""
    confidence_level: float = 0.95
    method: str = WINDOW_METHOD
    n: int
    n_missing: int
    n_measurements: int
    """Measurements that were read, with or without a value."""
    is_cut: bool
    """True if older measurements were left out: the newest `most_measurements` are read."""
    most_measurements: int = MOST_READ
    reason: str | None
    """Reason why the list of buckets is empty; else null."""
    state: State
    reference: Bounds | None
    """Reference of the detector; null while it is learned."""
    limits: Bounds | None
    """The reference with `drift.tolerance` on both sides."""
    since: float | None
    """Time at which the change of a standing alarm began, by the times of the exchanges; null without an alarm."""
    alarm_since: float | None
    acknowledged_at: float | None
    log_evidence: float | None
    """Current log evidence; null before the first audit that the detector sees."""
    log_threshold: float
    model_changes: list[ModelChange]
    """Changes since the start of the first bucket, the newest 20."""
    updated_at: float


def history_of(
    stream: Stream,
    read: Read | None,
    *,
    window: str | None,
    settings: DriftSettings,
    n_streams: int,
    changes: Iterable[ModelChange] = (),
) -> History:
    """Return the history of a stream. `n_streams`: number of streams in the store, for the threshold."""
    key, detector = stream.key, stream.state.detector
    buckets = [] if read is None else [_bucket(stream, read.length, *period) for period in read.periods.items()]
    first_start = buckets[0].start if buckets else math.inf
    evidence = -math.inf if detector is None else detector.log_evidence
    return History(
        **labels_of(stream),
        window=window,
        bucket_seconds=None if read is None else read.length,
        buckets=buckets,
        n=sum(bucket.n for bucket in buckets),
        n_missing=sum(bucket.n_missing for bucket in buckets),
        n_measurements=sum(bucket.n + sum(bucket.excluded.values()) for bucket in buckets),
        is_cut=read is not None and read.is_cut,
        reason=None if buckets else _reason_without_buckets(stream, window),
        state="learning" if detector is None else "alarm" if detector.alarm else "watching",
        reference=None if detector is None else bounds_of(key.metric, detector.reference),
        limits=None if detector is None else bounds_of(key.metric, detector.limits),
        since=detector.change_evidence.since if detector is not None and detector.alarm else None,
        alarm_since=stream.alarm_since,
        acknowledged_at=stream.acknowledged_at,
        log_evidence=evidence if math.isfinite(evidence) else None,
        log_threshold=settings.log_threshold(n_streams),
        model_changes=[change for change in changes if change.at >= first_start][-MOST_CHANGES:],
        updated_at=stream.updated_at,
    )


def _bucket(stream: Stream, length: int, number: int, sums: WindowSums) -> Bucket:
    computed = window_estimate(stream.key, sums.values, sums.excluded)
    return combine(
        Bucket,
        computed,
        start=float(number * length),
        end=float((number + 1) * length),
        n_missing=sum(sums.excluded.get(status, 0) for status in MISSING),
        excluded=sums.excluded,
    )


def _reason_without_buckets(stream: Stream, window: str | None) -> str:
    if stream.key.metric.endswith(GAP_SUFFIX):
        return "no history: a gap is formed from blocks of audits, which are not stored; its groups have histories"
    if stream.key.auditor == REFERENCE:
        return "no history: judgements of a reference set update the sums of the stream and are not stored singly"
    if window is not None:
        return f"no history: no measurement in the window {window}: ask for a longer window, or for all measurements"
    return "no history: a version that did not store the stream of a measurement recorded them; only sums are left"
