"""An SQLite file before it is opened: whether it can be, and whether part of it is missing. Makes no file."""

import os
from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_LARGEST_PAGE = 65536

CANNOT_OPEN = "cannot be opened: check that the directory exists and may be written"
READ_ONLY = "is read-only: make the file and its directory writable for this user"
FULL = "the disk is full: free some space"
LOCKED = "is locked by another process: stop it, or use a postgresql:// store for several writers"
NOT_A_DATABASE = "this file is not an SQLite database: name another"
RESTORE = "stop every biasgate process that uses it, and put a backup in its place"


def damaged(reason: str) -> str:
    """Return what to say of a damaged file, and what to do."""
    return f"the file is damaged ({reason}): {RESTORE}"


def problem_of(path: str) -> str | None:
    """Return what keeps a process of this user from reading and writing the file, or None."""
    file = Path(path)
    try:
        if not file.parent.is_dir() or (file.exists() and not file.is_file()):
            return CANNOT_OPEN
        if not os.access(file.parent, os.W_OK | os.X_OK):
            return READ_ONLY
        if not file.exists():
            return None
        if not os.access(file, os.R_OK | os.W_OK):
            return READ_ONLY
        return _content_problem(file)
    except OSError:
        return CANNOT_OPEN


def _content_problem(file: Path) -> str | None:
    with file.open("rb") as opened:
        head = opened.read(100)
    if not head:  # SQLite takes an empty file for a new database
        return None
    if not head.startswith(_MAGIC):
        return NOT_A_DATABASE
    log = Path(f"{file}-wal")
    if log.exists() and log.stat().st_size:  # the log may hold what the file does not have yet
        return None
    page_bytes = int.from_bytes(head[16:18], "big")
    page_bytes = _LARGEST_PAGE if page_bytes == 1 else page_bytes
    expected, size = page_bytes * int.from_bytes(head[28:32], "big"), file.stat().st_size
    if size < expected:
        return damaged(f"it has {size} bytes of {expected}")
    return None
