"""The counts of several workers, added up."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from gateway.telemetry.worker_stats import Ended, Gauges, Histogram, Series, Snapshot

Key = TypeVar("Key")

LATENCIES = ("duration", "overhead", "first_chunk")
"""Histograms of a `Series`."""
COUNTS = (
    *("exchanges", "reloads", "spans", "filtered", "ignored_rates"),
    *("evicted", "wasted_prompt_tokens", "wasted_generation_tokens"),
)
"""Counts of a `Snapshot` by a single label."""


def by_labels(snapshots: Iterable[Snapshot]) -> list[Sequence[Series]]:
    """The series of all of them, those of the same labels together."""
    series_by_labels: dict[tuple[str, str, str, str], list[Series]] = {}
    for snapshot in snapshots:
        for series in snapshot.series:
            series_by_labels.setdefault((series.upstream, series.model, series.endpoint, series.outcome), []).append(
                series
            )
    return [*series_by_labels.values()]


def sum_series(parts: Sequence[Series]) -> Series:
    """One series of several with the same labels; of each bucket the request that was counted last."""
    first = parts[0]
    sums: dict[str, Any] = {}
    for name in LATENCIES:
        sums[name] = _columns(getattr(part, name) for part in parts)
        sums[f"{name}_sum"] = sum(getattr(part, f"{name}_sum") for part in parts)
        sums[f"{name}_last"] = _newest(getattr(part, f"{name}_last") for part in parts)
    return Series(first.upstream, first.model, first.endpoint, first.outcome, **sums)


def sum_histograms(parts: Sequence[Histogram]) -> Histogram:
    return Histogram(_columns(part.counts for part in (Histogram(), *parts)), sum(part.total for part in parts))


def sum_by_key(counts: Iterable[Mapping[Key, int]]) -> dict[Key, int]:
    total: Counter[Key] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def sum_filters(snapshots: Iterable[Snapshot]) -> dict[tuple[str, str], tuple[list[int], float]]:
    """Return for each (policy, action) its counts by bucket and the sum of seconds."""
    sums_by_action: dict[tuple[str, str], tuple[list[int], float]] = {}
    for snapshot in snapshots:
        for policy, action, counts, seconds in snapshot.mitigation_seconds:
            before, total = sums_by_action.get((policy, action), ([0] * len(counts), 0.0))
            sums_by_action[policy, action] = _columns((before, counts)), total + seconds
    return sums_by_action


def sum_snapshots(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Return all that was ever counted, like the snapshot of a single worker that is gone."""
    counts: dict[str, Any] = {name: sum_by_key(getattr(snapshot, name) for snapshot in snapshots) for name in COUNTS}
    return Snapshot(
        pid=0,
        written_at=0.0,
        series=[*map(sum_series, by_labels(snapshots))],
        gauges=Gauges(),
        lag=sum_histograms([snapshot.lag for snapshot in snapshots]),
        mitigations=[
            (*key, n) for key, n in sum_by_key(snapshot.mitigations_by_labels for snapshot in snapshots).items()
        ],
        mitigation_seconds=[(*key, *seen) for key, seen in sum_filters(snapshots).items()],
        ingested=[(*key, n) for key, n in sum_by_key(snapshot.ingested_by_labels for snapshot in snapshots).items()],
        **counts,
    )


def _columns(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _newest(lists: Iterable[Sequence[Ended | None]]) -> list[Ended | None]:
    """Bucket by bucket; a list may be empty."""
    return [
        max((ended for ended in seen if ended is not None), key=lambda ended: ended.at, default=None)
        for seen in zip_longest(*lists)
    ]
