"""Puts the numbers of all workers of a gateway together.

With a shared `metrics_dir` every worker leaves its numbers there as msgpack, and each reader adds up all files. What
workers that died had counted stays, hence counters never fall: their files are folded into one when there are many.
Gauges come from living workers only.
"""

import fcntl
import logging
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from gateway.telemetry.sums import sum_snapshots
from gateway.telemetry.worker_stats import Snapshot, WorkerStats

logger = logging.getLogger(__name__)

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
FOLDED = "folded.msgpack"
_SUFFIX = ".msgpack"


class SharedCounts:
    """The snapshot files of all workers in one directory; without a directory, this worker's numbers alone."""

    def __init__(self, stats: WorkerStats, directory: Path | None) -> None:
        self._stats = stats
        self._directory = directory
        self._file = directory / f"worker-{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}" if directory else None
        self._unreadable: set[str] = set()
        if directory is not None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def is_shared(self) -> bool:
        """Return whether there is anything for other workers to read."""
        return self._file is not None

    def flush(self) -> None:
        """Leave this worker's numbers for the others, who see the old file or the new file, never half."""
        if self._file is not None:
            _write(self._file, self._stats.snapshot())

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
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=Snapshot)
        except msgspec.MsgspecError as exc:
            if path.name not in self._unreadable:
                self._unreadable.add(path.name)
                logger.error("%s: no counts of a worker, they are left out: %s", path, exc)
            return None

    def _fold(self, directory: Path, dead: list[str]) -> None:
        """Put the counts of dead workers into a single file, which names theirs, and take theirs away.

        A process that is killed in between leaves files that are named, and so counted once; the next worker that folds
        takes them away.
        """
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
            _write(path, whole)
            for name in whole.folded:
                (directory / name).unlink(missing_ok=True)


def is_living(snapshot: Snapshot) -> bool:
    """Return whether the worker that left these numbers still runs."""
    if snapshot.pid == os.getpid():
        return True
    if time.time() - snapshot.written_at > GAUGE_LIFETIME_SECONDS:
        return False
    return _runs(snapshot.pid)


def _is_over(snapshot: Snapshot) -> bool:
    """Return whether these numbers are never written again."""
    return time.time() - snapshot.written_at > DEAD_SECONDS and not _runs(snapshot.pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _write(path: Path, snapshot: Snapshot) -> None:
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.msgpack.encode(snapshot))
    partial.replace(path)


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
