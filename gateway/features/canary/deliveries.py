"""Deliveries of canaries' verdicts to the webhook: rows of `facts`, each leased by an auditor for `LEASE_SECONDS`."""

import time
from typing import Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import facts

LEASE_SECONDS = 60.0
"""Seconds that an attempt may take before another auditor may try: longer than its time limit."""
_PREFIX = "canary webhook "


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict on its way to the webhook. Times are Unix seconds."""

    status: Literal["pending", "delivered", "failed"]
    """failed: all attempts were made."""
    attempts: int = 0
    """Attempts that have begun."""
    problem: str | None = None
    """Why the last attempt failed."""
    next_at: float | None = None
    """Unix seconds at which the next attempt is due; None when no attempt is due."""
    delivered_at: float | None = None


async def add(connection: AsyncConnection, canary_id: str) -> None:
    """Store, in the transaction of the verdict, that it is to be delivered."""
    pending = msgspec.json.encode(Delivery(status="pending", next_at=time.time()))
    row = upsert(connection, facts).values(name=_PREFIX + canary_id, value=pending)
    await connection.execute(row.on_conflict_do_nothing())


async def read(connection: AsyncConnection, canary_id: str) -> Delivery | None:
    """Return the delivery of a canary's verdict; None when none is owed."""
    query = sa.select(facts.c.value).where(facts.c.name == _PREFIX + canary_id)
    value = (await connection.execute(query)).scalar()
    return None if value is None else msgspec.json.decode(value, type=Delivery)


async def take_due(database: Database) -> tuple[str, Delivery] | None:
    """Take the delivery that is due for longest, and count the attempt that begins. Return it with the canary's id."""
    now = time.time()
    query = sa.select(facts.c.name, facts.c.value).where(facts.c.name.startswith(_PREFIX, autoescape=True))
    due: list[tuple[float, str, bytes, Delivery]] = []
    for row in await database.fetch_rows(query):
        delivery = msgspec.json.decode(row.value, type=Delivery)
        if delivery.status == "pending" and delivery.next_at is not None and delivery.next_at <= now:
            due.append((delivery.next_at, row.name, bytes(row.value), delivery))
    for _, name, value, delivery in sorted(due, key=lambda row: row[:2]):
        begun = msgspec.structs.replace(delivery, attempts=delivery.attempts + 1, next_at=now + LEASE_SECONDS)
        if await _replace(database, name, value, begun):
            return name.removeprefix(_PREFIX), begun
    return None


async def settle(database: Database, canary_id: str, begun: Delivery, settled: Delivery) -> bool:
    """Store the outcome of an attempt. Return False when another auditor has taken the delivery meanwhile."""
    return await _replace(database, _PREFIX + canary_id, msgspec.json.encode(begun), settled)


async def _replace(database: Database, name: str, before: bytes, after: Delivery) -> bool:
    """Compare and swap, so that one of several auditors wins."""
    change = sa.update(facts).where(facts.c.name == name, facts.c.value == before)
    return await database.change_rows(change.values(value=msgspec.json.encode(after))) == 1
