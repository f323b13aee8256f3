"""The figure of a stream's history; draws with the benchmarks, so whoever serves live traffic imports it when asked."""

from auditors.streams.scales import scale_of
from benchmarks.figures import history as drawing
from benchmarks.figures.figure import Figure
from gateway.store.served import ModelChange
from gateway.streams.detectors import Bounds
from gateway.streams.history import Bucket, History

USUAL_RATIO = 4.0
"""A ratio has no end of its own; its chart is scaled as if this were it, and holds what is above all the same."""


def figure_of(found: History) -> Figure:
    """The control chart of one stream with its legend and notes, as every page, report and print shows it."""
    return drawing.figure(chart_of(found), notes=_notes(found))


def chart_of(found: History) -> drawing.Chart:
    """What is drawn of a history."""
    low, high = found.range
    return drawing.Chart(
        title=_title(found),
        buckets=[_bucket(bucket) for bucket in found.buckets],
        low=low,
        high=min(high, USUAL_RATIO) if scale_of(found.metric).is_ratio else high,
        reference=_ends(found.reference),
        limits=_ends(found.limits),
        since=found.since,
        alarm=found.alarm_since,
        acknowledged=found.acknowledged_at,
        changes=[_change(change) for change in found.model_changes],
        log_evidence=found.log_evidence,
        log_threshold=found.log_threshold,
        reason=found.reason,
    )


def _title(found: History) -> str:
    about = ", ".join(name for name in (found.axis, found.group) if name)
    return f"{found.metric.replace('_', ' ')}{f' ({about})' if about else ''} of {found.model}"


def _bucket(one: Bucket) -> drawing.Bucket:
    return drawing.Bucket(
        start=one.start,
        end=one.end,
        value=one.value,
        lower=one.lower,
        upper=one.upper,
        n=one.n,
        n_missing=one.n_missing,
    )


def _change(one: ModelChange) -> drawing.Change:
    words = f"{one.upstream} serves {one.fingerprint_after[:12]} after {one.fingerprint_before[:12]}"
    return drawing.Change(at=one.at, words=words)


def _ends(bounds: Bounds | None) -> tuple[float, float] | None:
    return None if bounds is None else (bounds.lower, bounds.upper)


def _notes(found: History) -> list[str]:
    if not found.buckets:
        return []
    low, high = found.range
    ends = " to ".join(f"{end:g}".replace("-", "−") for end in (low, high))
    notes = [f"The vertical scale is of what is seen; the metric goes from {ends}."]
    if found.is_cut:
        notes.append(f"Older measurements are left out: the newest {found.most_measurements:,} are read.")
    if found.window is not None:
        notes.append(f"Of the window {found.window}.")
    return notes
