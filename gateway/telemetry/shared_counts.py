"""Adds up the numbers of all workers: each leaves its own in `metrics_dir` (`gateway.worker_files`). Counts of dead
workers stay, folded into one file when there are many, so counters never fall. Gauges come from living workers only.
"""

import fcntl
import logging
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gateway.telemetry.worker_stats import Ended, Gauges, Histogram, Series, Snapshot, WorkerStats
from gateway.worker_files import RecordFile, read_record, runs

logger = logging.getLogger(__name__)

Key = TypeVar("Key")

LATENCIES = ("duration", "overhead", "first_chunk")
"""Histograms of a `Series`."""
COUNTS = (
    *("exchanges", "reloads", "spans", "filtered", "ignored_rates"),
    *("evicted", "wasted_prompt_tokens", "wasted_generation_tokens"),
)
"""Counts of a `Snapshot` by a single label."""

SNAPSHOT_SECONDS = 0.2
GAUGE_LIFETIME_SECONDS = 15.0
"""A file older than this says nothing about the present, even if its process id is in use again."""
DEAD_SECONDS = 600.0
"""A file that has not been written for so long, by a process that is gone, may be folded."""
FOLD_AT = 16
"""Number of such files at which they are folded."""
MOST_AT_ONCE = 64
"""More wait for the next scrape, as the event loop waits for this one."""
ATTEMPTS = 20
FOLDED = "folded.counts"
_SUFFIX = ".counts"


class SharedCounts:
    """The snapshot files of all workers in one directory; without a directory, this worker's numbers alone."""

    def __init__(self, stats: WorkerStats, directory: Path | None) -> None:
        self._stats = stats
        self._directory = directory
        self._path = directory / f"worker-{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}" if directory else None
        self._file: RecordFile | None = None
        self._unreadable: set[str] = set()
        if directory is not None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def is_shared(self) -> bool:
        """Return whether there is anything for other workers to read."""
        return self._path is not None

    def flush(self) -> None:
        """Leave this worker's numbers for the others, who see the old ones or the new ones, never half."""
        if self._path is None:
            return
        counts = msgspec.msgpack.encode(self._stats.snapshot())
        if self._file is None:
            self._file = RecordFile.create(self._path, counts)
        else:
            self._file.write(counts)

    def read(self) -> list[Snapshot]:
        """Own numbers, fresh, and those that every other worker of this directory left last."""
        if self._directory is None:
            return [self._stats.snapshot()]
        self.flush()
        snapshots = self._read(self._directory)
        dead = [name for name, snapshot in snapshots.items() if name != FOLDED and _is_over(snapshot)]
        if len(dead) >= FOLD_AT:
            self._fold(self._directory, dead[:MOST_AT_ONCE])
        return [*snapshots.values()]

    def _read(self, directory: Path) -> dict[str, Snapshot]:
        """Return the snapshots by name of the file. Another process may be folding: then they are read again."""
        for _ in range(ATTEMPTS):
            names = sorted(path.name for path in directory.glob(f"*{_SUFFIX}"))  # before the file they are folded into
            folded = self._decoded(directory / FOLDED) if FOLDED in names else None
            counted = set(folded.folded) if folded else set()
            try:
                snapshots = {name: self._decoded(directory / name) for name in names if name not in counted}
            except FileNotFoundError:
                continue
            return {name: snapshot for name, snapshot in snapshots.items() if snapshot is not None}
        raise OSError(f"{directory}: files of workers come and go all the time")

    def _decoded(self, path: Path) -> Snapshot | None:
        """Return the snapshot; None, and a line in the log, for bytes that no worker can have written."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            record = read_record(descriptor)
        finally:
            os.close(descriptor)
        with suppress(msgspec.MsgspecError):
            if record is not None:
                return msgspec.msgpack.decode(record.text, type=Snapshot)
        if path.name not in self._unreadable:
            self._unreadable.add(path.name)
            logger.error("%s: no counts of a worker, they are left out", path)
        return None

    def _fold(self, directory: Path, dead: list[str]) -> None:
        """Fold the counts of dead workers into one file, which names theirs: a kill in between counts none twice."""
        with _only_one(directory) as is_alone:
            if not is_alone:
                return
            path = directory / FOLDED
            before = self._decoded(path) if path.exists() else None
            left = [name for name in (before.folded if before else []) if (directory / name).exists()]
            added = {}
            for name in dead:
                if name not in left and (directory / name).exists():
                    added[name] = self._decoded(directory / name)
            parts = [snapshot for snapshot in (before, *added.values()) if snapshot is not None]
            whole = sum_snapshots(parts)
            whole.folded = sorted((*left, *added))
            RecordFile.create(path, msgspec.msgpack.encode(whole)).close()
            for name in whole.folded:
                (directory / name).unlink(missing_ok=True)


def is_living(snapshot: Snapshot) -> bool:
    """Return whether the worker that left these numbers still runs."""
    is_fresh = time.time() - snapshot.written_at <= GAUGE_LIFETIME_SECONDS
    return snapshot.pid == os.getpid() or (is_fresh and runs(snapshot.pid))


def _is_over(snapshot: Snapshot) -> bool:
    return time.time() - snapshot.written_at > DEAD_SECONDS and not runs(snapshot.pid)


@contextmanager
def _only_one(directory: Path) -> Iterator[bool]:
    """Yield whether this process holds the lock of the directory; the kernel releases a dead process's lock."""
    descriptor = os.open(directory / "folding.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    is_locked = False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        yield is_locked
    finally:
        os.close(descriptor)


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
    return [
        max((ended for ended in seen if ended is not None), key=lambda ended: ended.at, default=None)
        for seen in zip_longest(*lists)
    ]
