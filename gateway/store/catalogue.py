"""Lists which suites the auditors can run and which data they have: written by them, read by the gateway."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from gateway.store.connections import put_row
from gateway.store.database import Database
from gateway.store.tables import catalogue


async def publish(database: Database, suites: Sequence[dict[str, Any]]) -> None:
    """Replaces the catalogue by these entries, each with a "name"."""
    now = time.time()
    async with database.begin() as connection:
        for suite in sorted(suites, key=lambda suite: str(suite["name"])):
            values = {"body": msgspec.json.encode(suite).decode(), "updated_at": now}
            await put_row(connection, catalogue, {"name": suite["name"]}, values)
        names = [suite["name"] for suite in suites]
        await connection.execute(sa.delete(catalogue).where(catalogue.c.name.not_in(names)))


async def read(database: Database) -> list[dict[str, Any]]:
    """The entries by name; empty while no auditor has reported."""
    bodies = await database.fetch_column(sa.select(catalogue.c.body).order_by(catalogue.c.name))
    return [msgspec.json.decode(body, type=dict[str, Any]) for body in bodies]
