"""Files in which the workers of a gateway leave values for each other, each in its own. They survive kill -9, not a
crash of the machine, and nobody waits for the disk: a value is written in place, as renaming a file over another took
0.6 ms and, on a busy disk, 200 ms at the 99th percentile (in place 0.05 and 0.2).

A file is a table of two heads, then records: the newest and the record before it, which a process that dies while it
writes leaves whole. Rate limits share single numbers instead (`shared_number`), which any process writes.
"""

import errno
import mmap
import os
import secrets
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")

_PLACE = struct.Struct(">QII")
"""Number of a record, its offset, its length; then the checksum of these and of the record."""
_CHECKSUM_BYTES = 4
_HEAD_BYTES = _PLACE.size + _CHECKSUM_BYTES
RECORDS_AT = 2 * _HEAD_BYTES
"""Offset of the first record."""
READS = 20
"""Reads of a file of which a writer changes just what is read."""
LIST_SECONDS = 1.0
"""Between two listings of a directory: how late a new worker is noticed."""
ABANDONED_SECONDS = 60.0
"""Seconds after which the file of a process that does not run is removed."""
NUMBER_BYTES = 8


class Record(NamedTuple):
    """The record of a file when it was read."""

    number: int
    offset: int
    text: bytes


class RecordFile:
    """The writer's end of a file, for one thread. It owns the descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._number = 0
        self._start = self._end = RECORDS_AT

    @classmethod
    def create(cls, path: Path, text: bytes) -> "RecordFile":
        """The file at `path` with its first record, in place of any other; nobody sees it without. Raises OSError."""
        new = path.with_suffix(".new")
        file = cls(os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        try:
            file.write(text)
            new.replace(path)
        except OSError:
            file.close()
            raise
        return file

    def write(self, text: bytes, offset: int | None = None) -> None:
        """Replaces the record; at `offset`, or beside the last record. OSError: the last record stays."""
        if offset is None:
            offset = RECORDS_AT if RECORDS_AT + len(text) <= self._start else self._end
        number = self._number + 1
        place = _PLACE.pack(number, offset, len(text))
        checksum = zlib.crc32(text, zlib.crc32(place)).to_bytes(_CHECKSUM_BYTES)
        if os.pwrite(self._descriptor, text, offset) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.pwrite(self._descriptor, place + checksum, number % 2 * _HEAD_BYTES)
        self._number, self._start, self._end = number, offset, offset + len(text)

    def close(self) -> None:
        os.close(self._descriptor)


def read_record(descriptor: int) -> Record | None:
    """Return the newest whole record; None for a file that holds none. Raises OSError."""
    for _ in range(READS):
        content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        records = list(_records(content))
        if records:
            return max(records)
        if not any(content[:RECORDS_AT]):
            return None
    return None


def _records(content: bytes) -> Iterator[Record]:
    for start in range(0, min(RECORDS_AT, len(content) - _HEAD_BYTES + 1), _HEAD_BYTES):
        place = content[start : start + _PLACE.size]
        number, offset, length = _PLACE.unpack(place)
        text = content[offset : offset + length]
        checksum = int.from_bytes(content[start + _PLACE.size : start + _HEAD_BYTES])
        if number and len(text) == length and zlib.crc32(text, zlib.crc32(place)) == checksum:
            yield Record(number, offset, text)


class WorkerFile(Generic[T]):
    """The present value of a single worker, in a file of its own. Times are the machine's monotonic clock."""

    def __init__(self, directory: Path, suffix: str) -> None:
        """Makes the file, removes those that dead workers left. Raises OSError: the directory cannot be written."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in directory.glob(f"*{suffix}"):
            pid = path.name.partition("-")[0]
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS and not (pid.isdigit() and runs(int(pid))):
                    path.unlink()
        self._path = directory / f"{os.getpid()}-{secrets.token_hex(4)}{suffix}"
        self._file = RecordFile(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    @property
    def name(self) -> str:
        """The name by which a reader of the directory knows this file."""
        return self._path.name

    def write(self, value: T, now: float) -> None:
        """Replaces the value. OSError: it stays."""
        self._file.write(msgspec.msgpack.encode((now, value)))

    def close(self) -> None:
        self._file.close()
        with suppress(OSError):
            self._path.unlink()


class WorkerFiles(Generic[T]):
    """The present values of all workers in a directory."""

    def __init__(
        self, directory: Path, suffix: str, kind: type[T], *, fresh_seconds: float, without: str | None = None
    ) -> None:
        """Opens nothing yet. Older values are of workers that are dead, stuck, or of another boot; `without` names the
        reader's own file.
        """
        self._directory = directory
        self._suffix = suffix
        self._fresh_seconds = fresh_seconds
        self._without = without
        self._kind = kind
        self._open: dict[str, int] = {}
        self._listed_at = float("-inf")

    def read(self, now: float) -> list[T]:
        """Return the values that are fresh at `now`."""
        if now - self._listed_at >= LIST_SECONDS:
            self._list()
            self._listed_at = now
        values = []
        for descriptor in self._open.values():
            with suppress(OSError, msgspec.DecodeError):  # no file of a worker, or of another version
                record = read_record(descriptor)
                if record is not None:
                    written_at, value = msgspec.msgpack.decode(record.text, type=tuple[float, msgspec.Raw])
                    if abs(now - written_at) < self._fresh_seconds:
                        values.append(msgspec.msgpack.decode(value, type=self._kind))
        return values

    def _list(self) -> None:
        there = {path.name for path in self._directory.glob(f"*{self._suffix}")} - {self._without}
        for name in self._open.keys() - there:
            os.close(self._open.pop(name))
        for name in there - self._open.keys():
            with suppress(OSError):  # it went away meanwhile
                self._open[name] = os.open(self._directory / name, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


def shared_number(path: Path) -> "memoryview[float]":
    """A double that all processes with this path see and set; 0.0 at first. Raises OSError if it cannot be written."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.truncate(NUMBER_BYTES)
        return memoryview(mmap.mmap(file.fileno(), NUMBER_BYTES)).cast("d")


def runs(pid: int) -> bool:
    """Return whether there is a process of this id."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError) as exc:
        return isinstance(exc, PermissionError)
    return True
