"""Notices in microseconds that another process wrote to an SQLite file; opens no transaction and takes no lock."""

import contextlib
import sqlite3


class Changes:
    """Call `seen` every now and then, in one thread; `close` at the end."""

    def __init__(self, url: str) -> None:
        self._path = url.removeprefix("sqlite:///")
        self._connection: sqlite3.Connection | None = None
        self._version: object = None

    def seen(self) -> bool:
        """Return whether anything was committed since the last call; True at first, and if it cannot be told."""
        before = self._version
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(self._path, timeout=0.0, isolation_level=None)
            self._version = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            self.close()
            return True
        return self._version != before

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
        self._connection = self._version = None
