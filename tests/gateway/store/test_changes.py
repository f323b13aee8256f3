"""Looking for writes of others in an SQLite file."""

import sqlite3
from pathlib import Path

from gateway.store.changes import Changes


def test_it_sees_what_others_commit_and_nothing_else(tmp_path: Path) -> None:
    """True at first and after each commit of another connection, False in between and while one is under way."""
    file = tmp_path / "store.db"
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("CREATE TABLE t (n INTEGER)")
    changes = Changes(f"sqlite:///{file}")
    assert [changes.seen(), changes.seen()] == [True, False]
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO t VALUES (1)")
    assert not changes.seen()
    other.execute("COMMIT")
    assert [changes.seen(), changes.seen()] == [True, False]
    other.close()
    assert not changes.seen()
    changes.close()
    assert changes.seen()
    changes.close()


def test_what_cannot_be_told_is_a_change(tmp_path: Path) -> None:
    """A file that cannot be read is looked at again every time."""
    file = tmp_path / "store.db"
    file.write_bytes(b"no database" * 1000)
    changes = Changes(f"sqlite:///{file}")
    assert [changes.seen(), changes.seen()] == [True, True]
    missing = Changes(f"sqlite:///{tmp_path}/absent/store.db")
    assert [missing.seen(), missing.seen()] == [True, True]
