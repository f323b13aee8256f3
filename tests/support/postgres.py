"""PostgreSQL for tests: a database that is made once in a process and emptied for each test."""

import os
import uuid

import psycopg
from psycopg import sql

from auditors.addresses import mask_url
from gateway.store.schema import VERSION
from tests.support.required import lacking

DSN = os.environ.get("BIASGATE_TEST_POSTGRES", "postgresql://root@127.0.0.1:5432/test")


class Scratch:
    """A database of this process. To make and drop one for each test took two seconds each time."""

    def __init__(self) -> None:
        self._name = f"biasgate_{uuid.uuid4().hex}"
        self._is_made = False
        self._url = f"{DSN.rpartition('/')[0]}/{self._name}"

    def emptied(self, *, keep_tables: bool) -> str:
        """Its URL, once nobody is connected to it and nothing is left in it, or nothing but tables without rows."""
        if not self._is_made:
            self._administer("CREATE DATABASE {}")
            self._is_made = True
            self._administer("ALTER DATABASE {} SET synchronous_commit = off")  # no test kills the server itself
        self._administer("ALTER DATABASE {} ALLOW_CONNECTIONS true")  # a test that failed may have left it closed
        with psycopg.connect(self._url, autocommit=True, connect_timeout=5) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            tables = {str(name) for (name,) in found}
            if keep_tables and _version(connection, tables) == VERSION:
                named = sql.SQL(", ").join(map(sql.Identifier, sorted(tables - {"alembic_version"})))
                connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(named))
            else:
                connection.execute("DROP SCHEMA public CASCADE")
                connection.execute("CREATE SCHEMA public")
        return self._url

    def drop(self) -> None:
        if self._is_made:
            self._administer("DROP DATABASE {} WITH (FORCE)")

    def _administer(self, statement: str) -> None:
        try:
            with psycopg.connect(DSN, autocommit=True, connect_timeout=5) as connection:
                connection.execute(sql.SQL(statement).format(sql.Identifier(self._name)))
        except psycopg.OperationalError as exc:
            first_line = str(exc).strip().splitlines()[0]
            reason = f"no PostgreSQL at {mask_url(DSN)} (set BIASGATE_TEST_POSTGRES): {first_line}"
            lacking(reason, "POSTGRES")


def _version(connection: psycopg.Connection[tuple[object, ...]], tables: set[str]) -> object:
    if "alembic_version" not in tables:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return row[0] if row else None
