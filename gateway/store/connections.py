"""Connections to one database: engine, transactions, and the only place where a driver's error is a `StoreError`."""

import asyncio
import contextlib
import importlib.util
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, Self, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from auditors.addresses import mask_url
from gateway.errors import StoreError
from gateway.store import sqlite_file
from gateway.store.write_check import WriteCheck

logger = logging.getLogger(__name__)

Dialect = Literal["sqlite", "postgresql"]

BUSY_TIMEOUT_SECONDS = 10
CONNECT_TIMEOUT_SECONDS = 5
UNANSWERED_SECONDS = 10
"""Unacknowledged for so long, a connection is given up; the kernel's own pauses grew to 10 s after an outage."""
POSTGRESQL_CONNECT: Mapping[str, int | str] = {
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    "tcp_user_timeout": UNANSWERED_SECONDS * 1000,
    "keepalives_idle": UNANSWERED_SECONDS,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "client_encoding": "utf8",  # psycopg returns bytes for text where a database has the encoding SQL_ASCII
}
"""Settings that every connection to PostgreSQL is opened with, the job queue's too."""
POOL_TIMEOUT_SECONDS = 30.0
"""Longest wait for one of the connections, where all are in use."""


class Connections:
    """Transactions on one database, whatever its schema. Opens none before the first is asked for."""

    def __init__(self, url: str) -> None:
        """Raises StoreError when the URL names no database of a known kind, or an SQLite file that cannot be opened."""
        self._engine = _engine(url)
        self._write_lock = asyncio.Lock()
        self._damage: str | None = None
        self._write_check = WriteCheck(self._write_nothing, None if self.dialect == "postgresql" else _path_of(url))
        self.url = url
        """As configured, password included: for drivers, never for logs (see `masked_url`)."""

    @property
    def dialect(self) -> Dialect:
        return "sqlite" if self._engine.dialect.name == "sqlite" else "postgresql"

    @property
    def masked_url(self) -> str:
        return mask_url(self.url)

    @asynccontextmanager
    async def begin(self, *, waits_for_disk: bool = True) -> AsyncIterator[AsyncConnection]:
        """A transaction that may write: committed at the end, rolled back on an exception. SQLite takes the write lock
        at once. If it does not wait for PostgreSQL's disk, a crash of the server within moments undoes it and what came
        after it.
        """
        async with self._turn(), self._transaction(writes=True) as connection:
            if not waits_for_disk and self.dialect == "postgresql":
                await connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
            yield connection

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A consistent view that writes nothing and, on SQLite, waits for no writer."""
        async with self._transaction(writes=False) as connection:
            yield connection

    async def fetch_rows(self, query: sa.Executable) -> Sequence[Any]:
        """Return the rows of a query that needs no other in its transaction."""
        async with self.read() as connection:
            return (await connection.execute(query)).all()

    async def fetch_row(self, query: sa.Executable) -> Any | None:
        async with self.read() as connection:
            return (await connection.execute(query)).first()

    async def fetch_column(self, query: sa.Executable) -> list[Any]:
        return [value for (value,) in await self.fetch_rows(query)]

    async def fetch_value(self, query: sa.Executable) -> Any | None:
        """Return the only value of such a query; None where it has no row."""
        row = await self.fetch_row(query)
        return None if row is None else row[0]

    async def count(self, table: sa.FromClause, *which: sa.ColumnElement[bool]) -> int:
        """Return how many rows of a table there are of which all of this is true."""
        return await self.fetch_value(sa.select(sa.func.count()).select_from(table).where(*which)) or 0

    async def change_rows(self, statement: sa.Executable, rows: Sequence[Mapping[str, Any]] | None = None) -> int:
        """Make a change that needs no other in its transaction, once or for each of `rows`; return how many changed."""
        async with self.begin() as connection:
            return (await connection.execute(statement, rows)).rowcount

    async def forget_deleted(self) -> None:
        """Empties SQLite's write-ahead log, as far as no reader needs it: it still has what was just deleted."""
        if self.dialect == "sqlite":
            async with self._turn(), self._engine.connect() as connection:
                driver: Any = (await connection.get_raw_connection()).driver_connection  # no transaction is open here
                try:
                    await (await driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")).close()
                except sqlite3.DatabaseError as exc:
                    raise self._store_error(_sqlite_problem(str(exc), self.url), writes=True) from exc

    async def ping(self) -> None:
        """Raises StoreError unless the database answers."""
        await self.fetch_rows(sa.select(1))

    async def check(self) -> None:
        """Raises StoreError unless the database answers, takes writes, and has shown no damage to this process."""
        await self.ping()
        if problem := self._damage or await self._write_check.problem():
            raise StoreError(f"store {self.masked_url}: {problem}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._write_check.aclose()
        await self._engine.dispose()

    async def _write_nothing(self) -> None:
        """Write a row as it is, which takes the same locks and space as a change."""
        await self.change_rows(sa.text("UPDATE facts SET value = value WHERE name = 'user_salt'"))

    def _turn(self) -> AbstractAsyncContextManager[None]:
        # SQLite's own waiting polls; inside one process a lock hands over at once.
        return self._write_lock if self.dialect == "sqlite" else contextlib.nullcontext()

    @asynccontextmanager
    async def _transaction(self, *, writes: bool) -> AsyncIterator[AsyncConnection]:
        try:
            async with self._engine.connect() as connection:
                await connection.execution_options(biasgate_writes=writes)
                async with connection.begin():
                    yield connection
            if writes:
                self._write_check.note_success()
        except PoolTimeoutError as exc:
            raise StoreError(
                f"store {self.masked_url}: all its connections are in use, for {POOL_TIMEOUT_SECONDS:g} s: "
                "look whether it answers, or has more work than it can do"
            ) from exc
        except DBAPIError as exc:
            problem = _problem_of(exc, self.url)
            if problem is None:
                raise
            raise self._store_error(problem, writes=writes) from exc

    def _store_error(self, problem: str, *, writes: bool) -> StoreError:
        if sqlite_file.RESTORE in problem and self._damage is None:
            self._damage = problem
            logger.error("store %s: %s", self.masked_url, problem)
        if writes:
            self._write_check.note_failure(problem)
        return StoreError(f"store {self.masked_url}: {problem}")


def _engine(url: str) -> AsyncEngine:
    if url.startswith("sqlite:///"):
        return _sqlite_engine(url)
    if url.startswith("postgresql://"):
        return _postgresql_engine(url)
    raise StoreError(f'store "{mask_url(url)}": must start with sqlite:/// or postgresql://')


def _sqlite_engine(url: str) -> AsyncEngine:
    path = _path_of(url)
    _open_once(url, path)
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}",
        pool_timeout=POOL_TIMEOUT_SECONDS,
        connect_args={"timeout": BUSY_TIMEOUT_SECONDS},
        hide_parameters=True,
    )
    sa.event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    sa.event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def require_store(url: str) -> None:
    """Raises StoreError where this machine cannot use the store: its file, directory or driver. Asks no server."""
    if not url.startswith("sqlite:///"):
        _engine(url)
        if importlib.util.find_spec("procrastinate") is None or importlib.util.find_spec("psycopg_pool") is None:
            raise StoreError(_no_driver(url))
    elif problem := sqlite_file.problem_of(_path_of(url)):
        raise StoreError(f"store {url}: {problem}")


def _path_of(url: str) -> str:
    path = url.removeprefix("sqlite:///")
    if path in ("", ":memory:"):
        raise StoreError(f'store "{url}": a database in memory cannot be shared between processes: name a file')
    return path


def _no_driver(url: str) -> str:
    return f'store {mask_url(url)}: the PostgreSQL driver is not installed: pip install "biasgate[postgres]"'


def _open_once(url: str, path: str) -> None:
    # The async driver's thread reports a failed connect to the event loop, which at start may be closed by then.
    try:
        _make_private(path)
        sqlite3.connect(path).close()
    except sqlite3.OperationalError as exc:
        raise StoreError(f"store {url}: {_sqlite_problem(str(exc), url)}") from exc


def _make_private(path: str) -> None:
    """Make a new file its user's alone, and with it the log and the index that SQLite puts next to it."""
    with contextlib.suppress(OSError):  # there already, or SQLite says better what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver's own implicit BEGIN would come too late; see _begin_sqlite
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten, not left in free pages


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("biasgate_writes", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgresql_engine(url: str) -> AsyncEngine:
    try:
        engine = create_async_engine(
            "postgresql+psycopg://" + url.removeprefix("postgresql://"),
            pool_pre_ping=True,
            pool_timeout=POOL_TIMEOUT_SECONDS,
            hide_parameters=True,
            connect_args=dict(POSTGRESQL_CONNECT),
        )
        sa.event.listen(engine.sync_engine, "connect", _prepare_postgresql)
        return engine
    except (ArgumentError, ValueError) as exc:  # ValueError: a port that is no number
        raise StoreError(f'store "{mask_url(url)}": not a database URL: write postgresql://USER@HOST/DB') from exc
    except ModuleNotFoundError as exc:
        raise StoreError(_no_driver(url)) from exc


def _prepare_postgresql(connection: Any, _record: Any) -> None:
    connection.autocommit = True
    try:
        with contextlib.closing(connection.cursor()) as cursor:
            # Our longest queries take a fraction of a second: compiling one over all days costs more than it can save.
            cursor.execute("SET jit = off")
    finally:
        connection.autocommit = False


_SQLITE_REMEDIES = {
    "unable to open": sqlite_file.CANNOT_OPEN,
    "is locked": sqlite_file.LOCKED,
    "readonly": sqlite_file.READ_ONLY,
    "disk is full": sqlite_file.FULL,
    "disk I/O error": "the disk gives an I/O error: check the file system",
}


_DAMAGE = ("disk image is malformed", "malformed database schema")
_POSTGRESQL_REMEDIES = {
    "53100": "free some space where the server keeps its data",
    "25006": "this server takes no writes: name the primary in store.url",
    "XX001": "the server's files are damaged: look into its log, and restore a backup",
    "XX002": "an index is damaged: look into the server's log, and REINDEX it",
}
"""Remedies by SQLSTATE."""


def _sqlite_problem(reason: str, url: str) -> str:
    if any(fragment in reason for fragment in _DAMAGE):
        return sqlite_file.damaged(reason)
    if "file is not a database" in reason:
        return sqlite_file.NOT_A_DATABASE
    remedies = (remedy for fragment, remedy in _SQLITE_REMEDIES.items() if fragment in reason)
    return next(remedies, f"SQLite says: {reason}")


def _problem_of(exc: DBAPIError, url: str) -> str | None:
    """Return what is wrong with the store and what to do; None where the statement itself was wrong."""
    # Internal errors are a server that may only be read, and a transaction that it ended for being idle.
    is_of_the_server = isinstance(exc, OperationalError | InterfaceError | InternalError)
    lines = str(exc.orig).strip().splitlines()
    reason = lines[0] if lines else type(exc.orig).__name__
    if url.startswith("sqlite:///"):
        # Of a damaged file SQLite raises the parent class of all its errors.
        return _sqlite_problem(reason, url) if is_of_the_server or type(exc) is DatabaseError else None
    if not is_of_the_server:
        return None
    remedy = _POSTGRESQL_REMEDIES.get(
        getattr(exc.orig, "sqlstate", None) or "",
        "check that the server runs and that store.url names it, its user and database",
    )
    return f"PostgreSQL says: {reason}: {remedy}"


def clock(connection: AsyncConnection) -> sa.ColumnElement[float]:
    """Return when the statement began, in Unix seconds of the database's clock, or an SQLite file's machine."""
    if connection.dialect.name == "sqlite":
        return sa.literal(time.time())
    return sa.cast(sa.func.extract("epoch", sa.func.statement_timestamp()), sa.Float)


def has_come(planned: sa.ColumnElement[float], now: float, *, ahead: float) -> sa.ColumnElement[bool]:
    """Return the condition that a planned time has come, or is over `ahead` seconds off, as the clock was set back."""
    return (planned <= now) | (planned > now + ahead)


def upsert(connection: AsyncConnection, table: sa.Table) -> sqlite.Insert:
    """An INSERT that takes on_conflict_do_update or on_conflict_do_nothing; both dialects have the same methods."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return cast(sqlite.Insert, postgresql.insert(table))


async def put_row(
    connection: AsyncConnection, table: sa.Table, key: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    """Write values into the row with this unique key; insert the row where there is none."""
    row = upsert(connection, table).values({**key, **values})
    await connection.execute(row.on_conflict_do_update(index_elements=list(key), set_=dict(values)))


async def insert_rows(connection: AsyncConnection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows, which all have the same columns: by COPY on PostgreSQL. Raises DBAPIError."""
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        await connection.execute(sa.insert(table), rows)
        return
    import psycopg  # with it this is PostgreSQL's process, which has it loaded

    names = list(rows[0])
    columns = psycopg.sql.SQL(", ").join(map(psycopg.sql.Identifier, names))
    into = psycopg.sql.SQL("COPY {} ({}) FROM STDIN").format(psycopg.sql.Identifier(table.name), columns)
    driver: Any = (await connection.get_raw_connection()).driver_connection
    try:
        async with driver.cursor() as cursor, cursor.copy(into) as copy:
            for row in rows:
                await copy.write_row([row[name] for name in names])
    except psycopg.Error as exc:
        raise DBAPIError.instance(
            f"COPY {table.name}", None, exc, psycopg.Error, hide_parameters=True, dialect=connection.dialect
        ) from exc
