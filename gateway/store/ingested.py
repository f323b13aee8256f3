"""Exchanges that others recorded and sent: each counts once, and parts of one wait for each other.

An id comes into `ingested` in the transaction in which its exchange is counted and, if it is sampled, stored: whoever
sends it again, after an answer that was lost or by another door, changes nothing.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from auditors.types import Exchange
from gateway.live.turns import in_turns
from gateway.store import counters, ledger
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.exchanges import row_of
from gateway.store.tables import exchanges, ingested, ingested_parts

DUPLICATE = ("", "duplicate")
"""In counts, beside (stratum, outcome): what had come before."""
IDS_AT_ONCE = 500
"""In one statement."""
ROWS_AT_ONCE = 100
"""The driver prepares them on the event loop."""

T = TypeVar("T")


class StoredPart(NamedTuple):
    """Part of an exchange, as bytes that the caller understands."""

    exchange_id: str
    body: bytes


async def insert(
    database: Database, batch: Sequence[Exchange], verdicts: Mapping[str, tuple[str, str]]
) -> tuple[ledger.Deltas, set[str]]:
    """Counts exchanges that were sent, and stores the sampled ones as queued: all of it or nothing.

    Args:
        database: the store; text enters it as `database.texts` says.
        batch: those that were sampled.
        verdicts: (stratum, outcome) of every exchange by its id, those of the batch as "queued".

    Returns: how many of each (stratum, outcome) were added to the ledger, and how many DUPLICATEs came to nothing; and
        the ids that are new.
    """
    rows = {}
    for exchange in batch:
        rows[exchange.id] = row_of(database, exchange)
        await asyncio.sleep(0)  # each takes processor time in proportion to its text
    now = time.time()
    async with database.begin() as connection:
        new = set[str]()
        noting = upsert(connection, ingested).on_conflict_do_nothing().returning(ingested.c.id)
        for ids in _portions(sorted(verdicts)):  # in one order, so that two gateways cannot deadlock
            new |= set((await connection.execute(noting, [{"id": one, "at": now} for one in ids])).scalars())
        redactions = Counter[str]()
        stored = [row for key, row in rows.items() if key in new]
        for row in rows.values():
            found = row.pop("found")
            redactions.update(found if row["id"] in new else {})
        if stored:
            await connection.execute(upsert(connection, exchanges).on_conflict_do_nothing(), stored)
            await counters.add(connection, {("redactions", (kind,)): n for kind, n in redactions.items()})
        counts = Counter(verdicts[one] for one in new)
        await ledger.add(connection, counts)
    counts[DUPLICATE] += len(verdicts) - len(new)
    return counts, new


async def add_parts(database: Database, parts: Iterable[StoredPart]) -> None:
    """Keeps parts; one that is there already changes nothing."""
    now = time.time()

    def row_of_part(one: StoredPart) -> dict[str, Any]:
        digest = hashlib.blake2b(one.body, digest_size=16).hexdigest()
        body, is_sealed = database.texts.sealed(one.body)
        return {"exchange_id": one.exchange_id, "part": digest, "at": now, "body": body, "is_sealed": is_sealed}

    rows = await in_turns(row_of_part, parts)
    rows.sort(key=lambda row: (row["exchange_id"], row["part"]))
    if rows:
        async with database.begin() as connection:
            for some in _portions(rows, ROWS_AT_ONCE):
                await connection.execute(upsert(connection, ingested_parts).on_conflict_do_nothing(), some)


async def parts_of(database: Database, ids: Collection[str]) -> dict[str, list[bytes]]:
    """All parts of these exchanges, by id, in the order in which they came; without those that no key opens."""
    columns = ingested_parts.c
    found: dict[str, list[bytes]] = {}
    async with database.read() as connection:
        for some in _portions(sorted(ids)):
            query = sa.select(ingested_parts).where(columns.exchange_id.in_(some)).order_by(columns.at, columns.part)
            rows = (await connection.execute(query)).all()
            bodies = await in_turns(lambda row: database.texts.leave(row.body, is_sealed=row.is_sealed), rows)
            for row, body in zip(rows, bodies, strict=True):
                if body:
                    found.setdefault(row.exchange_id, []).append(body)
    return found


async def with_many_parts(database: Database, ids: Collection[str], *, most: int) -> list[str]:
    """Those of these exchanges of which so many parts are there, or more."""
    columns = ingested_parts.c
    found: list[str] = []
    for some in _portions(sorted(ids)):
        query = sa.select(columns.exchange_id).where(columns.exchange_id.in_(some)).group_by(columns.exchange_id)
        async with database.read() as connection:
            found += (await connection.execute(query.having(sa.func.count() >= most))).scalars()
    return found


async def forget_parts(database: Database, ids: Collection[str]) -> None:
    """Deletes the parts of exchanges that are counted."""
    async with database.begin() as connection:
        for some in _portions(sorted(ids)):
            await connection.execute(sa.delete(ingested_parts).where(ingested_parts.c.exchange_id.in_(some)))


async def waited_too_long(database: Database, *, before: float, limit: int) -> list[str]:
    """Exchanges of which no part has come since this Unix time."""
    columns = ingested_parts.c
    newest = sa.func.max(columns.at)
    query = sa.select(columns.exchange_id).group_by(columns.exchange_id).having(newest < before).order_by(newest)
    async with database.read() as connection:
        return list((await connection.execute(query.limit(limit))).scalars())


async def count_parts(database: Database) -> int:
    """How many parts wait."""
    async with database.read() as connection:
        return (await connection.execute(sa.select(sa.func.count()).select_from(ingested_parts))).scalar_one()


async def forget(database: Database, *, before: float) -> None:
    """Forgets ids that came before this Unix time: their exchanges are deleted too."""
    async with database.begin() as connection:
        await connection.execute(sa.delete(ingested).where(ingested.c.at < before))


def _portions(ones: Sequence[T], most: int = IDS_AT_ONCE) -> Iterable[Sequence[T]]:
    return (ones[first : first + most] for first in range(0, len(ones), most))
