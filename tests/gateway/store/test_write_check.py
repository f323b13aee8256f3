"""A store that cannot be written, or whose file is damaged, says so: in each call, and in readiness."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.config.schema import SamplingConfig
from gateway.errors import StoreError
from gateway.sampling.tap import SamplingTap
from gateway.store import sqlite_file, tables, write_check
from gateway.store.database import Database
from gateway.store.write_check import WriteCheck
from tests.support.waiting import eventually


async def add_bytes(database: Database, name: str, n_bytes: int) -> None:
    await database.change_rows(sa.insert(tables.facts), [{"name": name, "value": bytes(n_bytes)}])


async def make(path: Path) -> None:
    database = await Database.open(f"sqlite:///{path}")
    await add_bytes(database, "large", 200_000)
    await database.forget_deleted()  # everything is in the file, and nothing in its log
    await database.close()


def zero_the_runs(path: Path) -> None:
    """Overwrite the page where the table begins, as a broken disk does."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()[0]
    with path.open("r+b") as file:
        file.seek((root - 1) * page_bytes)
        file.write(bytes(page_bytes))


async def test_a_damaged_page_is_told_and_stays_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One line for each call, one in the log, and not ready from then on, whatever else can be read."""
    path = tmp_path / "b.db"
    await make(path)
    database = await Database.open(f"sqlite:///{path}")
    await database.check()
    zero_the_runs(path)
    actions: list[Callable[[], Awaitable[Any]]] = [
        lambda: database.fetch_rows(sa.select(tables.runs)),
        lambda: database.change_rows(sa.update(tables.runs).values(model="m")),
        database.check,
        database.check,
    ]
    for action in actions:
        with pytest.raises(StoreError) as raised:
            await action()
        assert str(raised.value) == (
            f"store sqlite:///{path}: the file is damaged (database disk image is malformed): stop every biasgate "
            "process that uses it, and put a backup in its place"
        )
    await database.ping()
    await database.close()
    assert [record.levelname for record in caplog.records if "is damaged" in record.message] == ["ERROR"]


@pytest.mark.parametrize("n_bytes", [0, 20, 100_000])
async def test_a_file_that_was_cut_off_is_one_line(n_bytes: int, tmp_path: Path) -> None:
    """When it is opened, and while it is open; an empty one is a new store."""
    path = tmp_path / "b.db"
    await make(path)
    is_open = await Database.open(f"sqlite:///{path}")
    with path.open("r+b") as file:
        file.truncate(n_bytes)
    with pytest.raises(StoreError, match=r"is damaged|not an SQLite database|I/O error"):
        await add_bytes(is_open, "another", 100_000)
    await is_open.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)  # noqa: ASYNC240 - the loop has nothing else to do
    if n_bytes:
        with pytest.raises(StoreError, match=r"is damaged|not an SQLite database"):
            await Database.open(f"sqlite:///{path}")


async def test_a_full_disk_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what SQLite says of a write that needed room, for a while after; or by the space that is left."""
    database = await Database.open(f"sqlite:///{tmp_path}/b.db")
    await database.check()

    async def fill() -> None:
        async with database.begin() as connection:
            await connection.exec_driver_sql("PRAGMA max_page_count = 1")  # SQLite's own way to be full
            await connection.execute(sa.insert(tables.facts), [{"name": "x", "value": bytes(100_000)}])

    with pytest.raises(StoreError, match="the disk is full: free some space"):
        await fill()
    async with database.begin() as connection:
        await connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    with pytest.raises(StoreError, match="the disk is full"):
        await database.check()
    monkeypatch.setattr(write_check, "HOLD_SECONDS", 0.0)
    await add_bytes(database, "small", 10)
    await database.check()

    monkeypatch.setattr(write_check, "LEAST_FREE_BYTES", 1 << 62)
    with pytest.raises(StoreError, match="the disk is full"):
        await database.check()
    await database.close()


async def test_a_store_that_takes_no_write_is_not_ready(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was written for a while: the check writes itself, and hears that it may not."""
    monkeypatch.setattr(write_check, "INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(write_check, "HOLD_SECONDS", 0.0)
    await database.check()
    statement = "PRAGMA query_only = ON" if database.dialect == "sqlite" else "SET default_transaction_read_only = on"
    sync_engine = database._engine.sync_engine

    def forbid(connection: Any, _record: Any, _proxy: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()

    sa.event.listen(sync_engine, "checkout", forbid)
    with pytest.raises(StoreError, match=r"is read-only: make the file|read-only transaction: this server takes no"):
        await database.check()
    await database.ping()


async def test_a_check_waits_for_no_long_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells what is known, starts no second write meanwhile, and hears of the first in time; a lock is no fault."""
    monkeypatch.setattr(write_check, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(write_check, "INTERVAL_SECONDS", 0.0)
    going_on, n_writes = asyncio.Event(), 0

    async def write() -> None:
        nonlocal n_writes
        n_writes += 1
        await going_on.wait()
        check.note_failure(f"it {sqlite_file.LOCKED}")
        check.note_failure("the disk gives an I/O error")
        raise StoreError("x")

    check = WriteCheck(write)
    assert [await check.problem() for _ in range(3)] == [None] * 3
    assert n_writes == 1
    check.note_failure(sqlite_file.LOCKED)
    assert await check.problem() is None
    going_on.set()
    await check.aclose()
    assert await check.problem() == "the disk gives an I/O error"


async def test_what_the_writer_cannot_store_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker tells why its copies wait, once it is more than a writer that starts again."""
    database = await Database.open(f"sqlite:///{tmp_path}/b.db")

    class Refusing:
        refusal: str | None = "store x: the disk is full: free some space"

        async def write(self, *_: object) -> dict[tuple[str, str], int]:
            if self.refusal is not None:
                raise StoreError(self.refusal)
            return {}

        async def close(self) -> None:
            pass

    sink: Any = Refusing()
    tap = SamplingTap(SamplingConfig(), b"s", database, sink)
    monkeypatch.setattr("gateway.sampling.tap.BATCH_SECONDS", 0.01)
    await tap.start()
    tap.drop("other", "failed")
    await eventually(lambda: tap._refusal is not None)
    assert tap.store_problem is None
    monkeypatch.setattr("gateway.sampling.tap.REFUSED_SECONDS", 0.0)
    assert tap.store_problem == sink.refusal
    sink.refusal = None
    await eventually(lambda: tap.store_problem is None)
    await tap.stop()
    await database.close()
