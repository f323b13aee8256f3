"""Opening a store: errors a user can act on, migrations that several processes may start at once."""

import asyncio
import contextlib
import hashlib
import multiprocessing
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.schema import CreateIndex, CreateTable

from gateway.errors import StoreError
from gateway.store import schema
from gateway.store.database import Database
from gateway.store.tables import metadata

OTHER_KEYS_ON_POSTGRESQL = (
    *("fk_measurements_exchange_id", "uq_measurements_one", "ix_measurements_series", "ix_measurements_created_at"),
    "ix_measurements_id",
)
"""Keys of measurements that only one of the databases has (ADR 29)."""

spawn = multiprocessing.get_context("spawn")


async def test_migrations_make_exactly_the_tables(database: Database) -> None:
    """After migrating, autogenerate finds nothing that the tables have and the database has not."""

    def is_ours(name: str | None, kind: str, _parents: object) -> bool:
        others = ("procrastinate_", "measurements_")  # the queue's, which earlier tests leave, and partitions
        return kind != "table" or not str(name).startswith(others)

    def is_here(_object: object, name: str | None, *_: object) -> bool:
        return database.dialect == "sqlite" or name not in OTHER_KEYS_ON_POSTGRESQL

    def differences(connection: sa.Connection) -> list[object]:
        opts = {"compare_type": True, "target_metadata": metadata, "include_name": is_ours}
        opts["include_object"] = is_here
        context = MigrationContext.configure(connection, opts=opts)
        return list(compare_metadata(context, metadata))

    async with database.begin() as connection:
        assert await connection.run_sync(differences) == []


def test_version_is_the_newest_migration() -> None:
    """The version the code names is the head of the migration scripts."""
    assert ScriptDirectory.from_config(schema.alembic_config()).get_current_head() == schema.VERSION


def test_version_stands_for_these_tables() -> None:
    """A change of a table needs a new revision: the first one makes the tables as they are declared."""
    statements: list[str] = []
    for url in ("sqlite://", "postgresql+asyncpg://"):
        dialect = sa.create_mock_engine(url, lambda *_: None).dialect
        for table in metadata.sorted_tables:
            statements.append(str(CreateTable(table).compile(dialect=dialect)))
            statements += sorted(str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes)
    digest = hashlib.sha256("".join(statements).encode()).hexdigest()
    assert (schema.VERSION, digest[:16]) == ("0026", "136ec45b6fb9495c")


async def test_newer_schema_is_refused(store_url: str, database: Database) -> None:
    """A database ahead of the code, or of an unreleased revision, is refused in a line that says what to do."""
    await database.change_rows(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    for migrate in (True, False):
        with pytest.raises(StoreError, match=rf"schema 9999, newer than the {schema.VERSION} .* upgrade biasgate"):
            await Database.open(store_url, migrate=migrate)
    await database.change_rows(sa.text("UPDATE alembic_version SET version_num = '0024'"))
    with pytest.raises(StoreError, match=r"schema 0024, which was never released .* name another database"):
        await Database.open(store_url)


async def test_missing_schema_is_named(store_url: str) -> None:
    """Without migrating, an empty database is refused and the message says what makes the schema."""
    if store_url.startswith("sqlite:///"):
        await asyncio.to_thread(Path(store_url.removeprefix("sqlite:///")).touch)
    with pytest.raises(StoreError, match=f"has schema none, this biasgate needs {schema.VERSION}"):
        await Database.open(store_url, migrate=False)


def _open_at_once(url: str, start: "multiprocessing.synchronize.Barrier") -> None:
    async def run() -> None:
        await (await Database.open(url)).close()

    start.wait(30)
    asyncio.run(run())


def test_processes_that_start_together_migrate_once(store_url: str) -> None:
    """Three processes opening an empty database at the same moment all succeed."""
    start = spawn.Barrier(3)
    processes = [spawn.Process(target=_open_at_once, args=(store_url, start)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(50)
    assert [process.exitcode for process in processes] == [0, 0, 0]


async def test_concurrent_read_then_write_transactions_all_commit(database: Database) -> None:
    """Transactions that read first and write later do not fail each other, on one connection pool."""

    async def add_one() -> None:
        async with database.begin() as connection:
            await connection.execute(sa.text("SELECT * FROM ledger"))
            await connection.execute(
                sa.text(
                    "INSERT INTO ledger VALUES ('s', 'o', 1) "
                    "ON CONFLICT (stratum, outcome) DO UPDATE SET count = ledger.count + 1"
                )
            )

    await asyncio.gather(*(add_one() for _ in range(20)))
    assert await database.fetch_value(sa.text("SELECT count FROM ledger")) == 20


async def test_file_that_is_no_database(tmp_path: Path) -> None:
    """Another kind of file is refused, not overwritten."""
    file = tmp_path / "notes.txt"
    file.write_text("some notes, certainly more than a header's worth of bytes " * 20)
    with pytest.raises(StoreError, match="not an SQLite database"):
        await Database.open(f"sqlite:///{file}")
    assert file.read_text().startswith("some notes")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sqlite:///{}/none/store.db", "cannot be opened: check that the directory exists"),
        ("sqlite:///file:{}/store.db?mode=ro&uri=true", "is read-only"),
        ("sqlite:///:memory:", "in memory cannot be shared"),
    ],
    ids=["no directory", "read-only", "in memory"],
)
async def test_addresses_that_cannot_be_a_store(tmp_path: Path, address: str, message: str) -> None:
    """Each is a one-line error that says why."""
    sqlite3.connect(tmp_path / "store.db").close()
    with pytest.raises(StoreError, match=message):
        await Database.open(address.format(tmp_path))


async def test_locked_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write lock held elsewhere for longer than the busy timeout is a one-line error."""
    monkeypatch.setattr("gateway.store.connections.BUSY_TIMEOUT_SECONDS", 0.2)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    database = await Database.open(url)
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="is locked by another process"):
        async with database.begin():
            pass
    assert await database.fetch_value(sa.text("SELECT COUNT(*) FROM ledger")) == 0
    other.close()
    await database.close()


async def test_postgresql_that_is_not_there_hides_the_password() -> None:
    """An unreachable server is named without its password."""
    with pytest.raises(StoreError, match="PostgreSQL says") as caught:
        await Database.open("postgresql://user:secret@127.0.0.1:1/db")
    assert "secret" not in str(caught.value)
    assert "user:***@127.0.0.1:1/db" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.stores("postgresql")
async def test_a_server_that_sends_text_without_an_encoding(store_url: str) -> None:
    """A PostgreSQL that was made in the locale C has the encoding SQL_ASCII, and its client gets UTF-8 all the same."""
    name = store_url.rpartition("/")[2]
    first = await Database.open(store_url)
    try:
        await first.change_rows(sa.text(f"ALTER DATABASE {name} SET client_encoding = 'SQL_ASCII'"))
        second = await Database.open(store_url)
        try:
            async with second.begin() as connection:
                assert (await connection.execute(sa.text("SELECT 'Åsa 🙂'"))).scalar() == "Åsa 🙂"
        finally:
            await second.close()
    finally:
        await first.change_rows(sa.text(f"ALTER DATABASE {name} RESET client_encoding"))
        await first.close()


async def test_whoever_only_looks_makes_no_store(tmp_path: Path) -> None:
    """A store that is not there is one line with its name, and no empty file appears under it."""
    missing = tmp_path / "no.db"
    with pytest.raises(StoreError, match=r"no\.db: no such file: name the gateway's file with --config"):
        await Database.open(f"sqlite:///{missing}", migrate=False)
    assert not missing.exists()


async def test_connections_that_are_all_in_use(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for one too long comes again, as when the server is away: nothing of theirs is refused for good."""
    monkeypatch.setattr("gateway.store.connections.POOL_TIMEOUT_SECONDS", 0.2)
    database = await Database.open(store_url)

    async def take_all() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(100):
                await stack.enter_async_context(database.read())

    try:
        with pytest.raises(StoreError, match="all its connections are in use"):
            await take_all()
        await database.ping()
    finally:
        await database.close()


@pytest.mark.stores("postgresql")
async def test_a_server_that_ends_an_idle_transaction(database: Database) -> None:
    """Managed servers do so to a client that was cut off: the next transaction has a connection of its own."""

    async def be_idle() -> None:
        async with database.begin() as connection:
            await connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 50")
            await asyncio.sleep(0.3)
            await connection.execute(sa.select(1))

    with pytest.raises(StoreError, match="idle-in-transaction"):
        await be_idle()
    await database.ping()
