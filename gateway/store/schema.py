"""Knows the schema of this code, and brings a database to it. Safe when several processes start at once."""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import StoreError
from gateway.store.connections import Connections

VERSION = "0026"
"""The newest revision under migrations/versions; a test keeps the two together."""
FIRST = "0026"
"""The oldest revision that can be upgraded: earlier ones were never released."""

_ADVISORY_LOCK = 0x62696173  # "bias": one number all processes agree on


async def migrate(database: Connections) -> None:
    """Upgrades to `VERSION`, one process at a time. Raises StoreError for a newer or unreleased schema."""
    if await _stored_version(database) == VERSION:
        return
    async with database.begin() as connection:
        await exclusively(connection)
        stored = await connection.run_sync(_version)
        _refuse_newer(stored, database)
        _refuse_unreleased(stored, database)
        if stored != VERSION:
            await connection.run_sync(_upgrade, VERSION)


async def check(database: Connections) -> None:
    """Raises StoreError unless the database has exactly the schema this code knows."""
    stored = await _stored_version(database)
    _refuse_newer(stored, database)
    if stored != VERSION:
        raise StoreError(
            f"store {database.masked_url}: has schema {stored or 'none'}, this biasgate needs {VERSION}: "
            "start `biasgate serve`, `gateway` or `auditor` once, they upgrade it"
        )


async def exclusively(connection: AsyncConnection, lock: int = _ADVISORY_LOCK) -> None:
    """Lets one process at a time pass until the transaction ends (PostgreSQL; SQLite's writers are alone anyway)."""
    if connection.dialect.name == "postgresql":
        await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))


async def _stored_version(database: Connections) -> str | None:
    async with database.read() as connection:
        return await connection.run_sync(_version)


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _refuse_newer(stored: str | None, database: Connections) -> None:
    if stored is not None and stored > VERSION:
        raise StoreError(
            f"store {database.masked_url}: has schema {stored}, newer than the {VERSION} of this biasgate: "
            "upgrade biasgate, or name another database"
        )


def _refuse_unreleased(stored: str | None, database: Connections) -> None:
    if stored is not None and stored < FIRST:
        raise StoreError(
            f"store {database.masked_url}: has schema {stored}, which was never released and cannot be upgraded: "
            "name another database, or empty this one"
        )


def alembic_config(connection: sa.Connection | None = None) -> Any:
    """An `alembic.config.Config` over the migrations of this package, without an ini file."""
    from alembic.config import Config  # loaded only when there is something to migrate

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: sa.Connection, revision: str) -> None:
    from alembic import command

    command.upgrade(alembic_config(connection), revision)
