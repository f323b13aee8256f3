"""Requests per minute of one key: a token bucket in eight bytes, shared by all workers of a gateway.

The bucket is kept as the time at which it will be full again, so taking from it is one read and one write of a number.
Workers map the same file, and their clocks are the machine's monotonic one. Nothing is locked: two workers that take in
the same microsecond may count one request between them, and one that the machine interrupts between its read and its
write, which is rare, gives back what the others took meanwhile.
"""

import hashlib
import mmap
from pathlib import Path

WINDOW_SECONDS = 60.0
_ROUNDING = 1e-6
_CELL_BYTES = 8


class TokenBucket:
    """Allows `per_minute` requests a minute, all of them at once if they come at once."""

    __slots__ = ("_cell", "_seconds_each", "per_minute")

    def __init__(self, per_minute: int, cell: "memoryview[float] | None" = None) -> None:
        """Starts as `cell` says, one double of shared memory; without one, full and alone."""
        self.per_minute = per_minute
        self._seconds_each = WINDOW_SECONDS / per_minute
        self._cell = cell if cell is not None else memoryview(bytearray(_CELL_BYTES)).cast("d")

    def take(self, now: float) -> float:
        """0 when a request may pass at time `now` (time.perf_counter()), else the seconds until one may."""
        full_at = self._cell[0]
        # More than a window ahead: written before the machine's clock began anew.
        if full_at < now or full_at > now + WINDOW_SECONDS + _ROUNDING:
            full_at = now
        full_at += self._seconds_each
        wait = full_at - now - WINDOW_SECONDS
        if wait > _ROUNDING:
            return wait
        self._cell[0] = full_at
        return 0.0


def shared_bucket(per_minute: int, key_name: str, directory: Path) -> TokenBucket:
    """The bucket that every process with this directory shares for a key of this name.

    Raises: OSError when the directory cannot be made or written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.blake2b(key_name.encode(), digest_size=16).hexdigest()
    with (directory / f"{name}.limit").open("a+b") as file:
        file.truncate(_CELL_BYTES)
        return TokenBucket(per_minute, memoryview(mmap.mmap(file.fileno(), _CELL_BYTES)).cast("d"))
