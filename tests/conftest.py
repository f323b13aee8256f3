"""A fresh store for each test, on SQLite and on PostgreSQL."""

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from gateway.effective import mask_url
from gateway.store.database import Database
from tests.required import lacking

POSTGRES_DSN = os.environ.get("BIASGATE_TEST_POSTGRES", "postgresql://root@127.0.0.1:5432/test")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an empty database of this test's own, once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    name = f"biasgate_{uuid.uuid4().hex}"
    _administer(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield f"{POSTGRES_DSN.rpartition('/')[0]}/{name}"
    finally:
        _administer(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    """An open, migrated store."""
    opened = await Database.open(store_url)
    yield opened
    await opened.close()


def _administer(statement: sql.Composed) -> None:
    try:
        with psycopg.connect(POSTGRES_DSN, autocommit=True, connect_timeout=5) as connection:
            connection.execute(statement)
    except psycopg.OperationalError as exc:
        first_line = str(exc).strip().splitlines()[0]
        reason = f"no PostgreSQL at {mask_url(POSTGRES_DSN)} (set BIASGATE_TEST_POSTGRES): {first_line}"
        lacking(reason, "POSTGRES")
