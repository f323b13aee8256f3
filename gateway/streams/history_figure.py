"""The figure of a stream's history. It imports the benchmarks' drawing, so it is imported when asked for."""

from auditors.streams.scales import scale_of
from auditors.structs import combine
from benchmarks.figures import history as drawing
from benchmarks.figures.figure import Figure
from gateway.store.served import ModelChange
from gateway.streams.detectors import Bounds
from gateway.streams.history import History

USUAL_RATIO = 4.0
"""A ratio has no end of its own; its chart is scaled as if this were it, and holds what is above all the same."""


def figure_of(history: History) -> Figure:
    """Return the control chart of a stream with its legend and notes, as pages, reports and prints show it."""
    return drawing.figure(chart_of(history), notes=_notes(history))


def chart_of(history: History) -> drawing.Chart:
    low, high = history.range
    return combine(
        drawing.Chart,
        history,
        title=_title(history),
        buckets=[combine(drawing.Bucket, bucket) for bucket in history.buckets],
        low=low,
        axis=f"mean {history.metric.replace('_', ' ')}",
        high=min(high, USUAL_RATIO) if scale_of(history.metric).is_ratio else high,
        reference=_ends(history.reference),
        limits=_ends(history.limits),
        alarm=history.alarm_since,
        acknowledged=history.acknowledged_at,
        changes=[_change(change) for change in history.model_changes],
    )


def _title(history: History) -> str:
    about = ", ".join(name for name in (history.axis, history.group) if name)
    return f"{history.metric.replace('_', ' ')}{f' ({about})' if about else ''} of {history.model}"


def _change(change: ModelChange) -> drawing.Change:
    words = f"{change.upstream} serves {change.fingerprint_after[:12]} after {change.fingerprint_before[:12]}"
    return drawing.Change(at=change.at, words=words)


def _ends(bounds: Bounds | None) -> tuple[float, float] | None:
    return None if bounds is None else (bounds.lower, bounds.upper)


def _notes(history: History) -> list[str]:
    if not history.buckets:
        return []
    low, high = history.range
    ends = " to ".join(f"{end:g}".replace("-", "−") for end in (low, high))
    notes = [f"The vertical scale is of what is seen; the metric goes from {ends}."]
    if history.is_cut:
        notes.append(f"Older measurements are left out: the newest {history.most_measurements:,} are read.")
    if history.window is not None:
        notes.append(f"Of the window {history.window}.")
    return notes
