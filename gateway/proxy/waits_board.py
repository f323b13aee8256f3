"""Shows each worker's live waits to the others and to an auditor on this machine: a file per data plane in
`server.metrics_dir`, written in place at most every LOOK_SECONDS, with a checksum against half-written ones. Times are
the machine's monotonic clock. A file older than a second is of a worker that is dead, stuck, or of another boot.
"""

import logging
import os
import secrets
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.proxy.live_waits import Waits

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
"""Between two looks at what waits."""
HEARTBEAT_SECONDS = 0.25
"""An unchanged state is written again after this time."""
STALE_SECONDS = 1.0
LIST_SECONDS = 1.0
"""Between two listings of the directory: how late a new worker is noticed."""
ABANDONED_SECONDS = 60.0
LONGEST_BYTES = 256 * 1024

_SUFFIX = ".waits"
_CHECKSUM_BYTES = 4
_LENGTH_BYTES = 4

Board = Mapping[str, Waits]
"""Origin of an upstream to what is known of its live requests."""


class _Page(msgspec.Struct, array_like=True):
    written_at: float
    by_origin: dict[str, Waits]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Page).decode


class BoardFile:
    """The file of a single data plane. A disk that takes no byte costs the readers their knowledge and nothing else."""

    def __init__(self, directory: Path) -> None:
        """Makes the file. Raises OSError when the directory cannot be written."""
        directory.mkdir(parents=True, exist_ok=True)
        for path in directory.glob(f"*{_SUFFIX}"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()
        self._path = directory / f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._written: Board = {}
        self._written_at = float("-inf")
        self._has_failed = False

    @property
    def name(self) -> str:
        """The name by which a reader of the directory knows this file."""
        return self._path.name

    def show(self, board: Board, now: float) -> None:
        """Writes what holds at `now`, unless just that was written a moment ago."""
        if board == self._written and now - self._written_at < HEARTBEAT_SECONDS:
            return
        page = _encode(_Page(now, dict(board)))
        head = zlib.crc32(page).to_bytes(_CHECKSUM_BYTES) + len(page).to_bytes(_LENGTH_BYTES)
        try:
            os.pwrite(self._descriptor, head + page, 0)
        except OSError as exc:
            if not self._has_failed:
                logger.warning("what waits cannot be shown to the auditors, which ask the servers: %s", exc.strerror)
            self._has_failed = True
            return
        self._written, self._written_at = board, now

    def show_again(self, now: float) -> None:
        """Writes what was shown last, unless that was a moment ago."""
        if now - self._written_at >= HEARTBEAT_SECONDS:
            self.show(self._written, now)

    def close(self) -> None:
        os.close(self._descriptor)
        with suppress(OSError):
            self._path.unlink()


class BoardReader:
    """Adds up the files of all workers in a directory."""

    def __init__(self, directory: Path, *, without: str | None = None) -> None:
        """Opens nothing yet; `without` names a file that is left out, the reader's own."""
        self._directory = directory
        self._without = without
        self._open: dict[str, int] = {}
        self._listed_at = float("-inf")

    def read(self, now: float | None = None) -> Board | None:
        """Return the present knowledge; None when the workers have said nothing in the last second."""
        now = time.perf_counter() if now is None else now
        if now - self._listed_at >= LIST_SECONDS:
            there = {path.name for path in self._directory.glob(f"*{_SUFFIX}")} - {self._without}
            for name in self._open.keys() - there:
                os.close(self._open.pop(name))
            for name in there - self._open.keys():
                with suppress(OSError):  # it went away meanwhile
                    self._open[name] = os.open(self._directory / name, os.O_RDONLY | os.O_CLOEXEC)
            self._listed_at = now
        pages = [page for page in map(_read, self._open.values()) if page is not None]
        fresh = [page for page in pages if -STALE_SECONDS < now - page.written_at < STALE_SECONDS]
        if not fresh:
            return None
        waits_by_origin: dict[str, Waits] = {}
        for page in fresh:
            for origin, waits in page.by_origin.items():
                waits_by_origin[origin] = waits_by_origin[origin].plus(waits) if origin in waits_by_origin else waits
        return waits_by_origin

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


def _read(descriptor: int) -> _Page | None:
    data = os.pread(descriptor, LONGEST_BYTES, 0)
    length = int.from_bytes(data[_CHECKSUM_BYTES : _CHECKSUM_BYTES + _LENGTH_BYTES])
    page = data[_CHECKSUM_BYTES + _LENGTH_BYTES :][:length]
    if not page or zlib.crc32(page) != int.from_bytes(data[:_CHECKSUM_BYTES]):
        return None
    try:
        return _decode(page)
    except msgspec.DecodeError:  # of another version
        return None
