"""Checks that a store takes writes: by how its latest ended, the space left, and a small write now and then."""

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.errors import StoreError
from gateway.store import sqlite_file

INTERVAL_SECONDS = 5.0
"""Between two writes that were made for the check alone."""
PATIENCE_SECONDS = 1.0
"""Seconds that a check waits for its write; a slow write goes on, and the next check tells how it ended."""
HOLD_SECONDS = 10.0
"""A failure counts for this long whatever succeeds after it: a full disk takes a small write between two large ones."""
LEAST_FREE_BYTES = 1024 * 1024


class WriteCheck:
    """Use in one event loop. `write`: a small write. `path`: SQLite file, on a disk that needs space; None: server."""

    def __init__(self, write: Callable[[], Awaitable[None]], path: str | None = None) -> None:
        self._write = write
        self._path = path
        self._problem: str | None = None
        self._failed_at = self._succeeded_at = self._tried_at = -math.inf
        self._task: asyncio.Task[None] | None = None

    def note_success(self) -> None:
        self._succeeded_at = time.monotonic()

    def note_failure(self, problem: str) -> None:
        """Note why a transaction has not written. A database that another process has locked is not broken."""
        if sqlite_file.LOCKED not in problem:
            self._problem, self._failed_at = problem, time.monotonic()

    async def problem(self) -> str | None:
        if self._path is not None and _is_full(self._path):
            return sqlite_file.FULL
        if self._task is None and time.monotonic() - max(self._succeeded_at, self._tried_at) >= INTERVAL_SECONDS:
            self._tried_at = time.monotonic()
            self._task = asyncio.create_task(self._try())
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=PATIENCE_SECONDS)
        has_recovered = self._succeeded_at > self._failed_at and time.monotonic() - self._failed_at > HOLD_SECONDS
        return None if has_recovered else self._problem

    async def aclose(self) -> None:
        """Wait for a write that is under way."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _try(self) -> None:
        try:
            await self._write()
        except StoreError:
            pass  # the transaction has noted it
        finally:
            self._task = None


def _is_full(path: str) -> bool:
    try:
        space = os.statvfs(Path(path).parent)
    except OSError:
        return False  # the write says better what is wrong
    free_blocks = space.f_bfree if os.geteuid() == 0 else space.f_bavail
    return free_blocks * space.f_frsize < LEAST_FREE_BYTES
