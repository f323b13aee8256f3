"""Exchanges that others recorded and sent: each counts once, by its id; parts of an exchange wait for each other."""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from auditors.types import Exchange
from gateway.store import counters, ledger
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.exchanges import row_of
from gateway.store.tables import exchanges, ingested, ingested_parts
from gateway.turns import in_turns

DUPLICATE = ("", "duplicate")
"""Key in counts, next to (stratum, outcome), of exchanges that had come before."""
IDS_AT_ONCE = 500
PARTS_BYTES_AT_ONCE = 4 * 1024 * 1024
"""Most bytes of parts that are read together, unless those of a single exchange are more."""
OWNER_DIGITS = 8
"""That a part's digest begins with, and which tell whose it is: as many as of each owner's are counted together."""
ROWS_AT_ONCE = 100
"""The driver prepares them on the event loop."""

T = TypeVar("T")


class StoredPart(NamedTuple):
    """Part of an exchange, as bytes that the caller understands."""

    exchange_id: str
    body: bytes
    owner: str | None = None
    """Name of the key it came with."""


class Waiting(NamedTuple):
    """The waiting parts of a single exchange."""

    n_parts: int
    n_bytes: int
    """Bytes as stored."""


async def insert(
    database: Database, batch: Sequence[Exchange], verdicts: Mapping[str, tuple[str, str]]
) -> tuple[ledger.Deltas, set[str]]:
    """Count exchanges that were sent, and store the sampled `batch` as queued: all of it or nothing. `verdicts`:
    (stratum, outcome) of every exchange by its id, those of the batch as "queued". Returns: how many of each (stratum,
    outcome) were added to the ledger, and how many DUPLICATEs came to nothing; the ids that are new.
    """
    rows = {}
    for exchange in batch:
        rows[exchange.id] = row_of(database, exchange)
        await asyncio.sleep(0)  # each takes processor time in proportion to its text
    now = time.time()
    async with database.begin() as connection:
        new = set[str]()
        noting = upsert(connection, ingested).on_conflict_do_nothing().returning(ingested.c.id)
        for ids in portions(sorted(verdicts)):  # in one order, so that two gateways cannot deadlock
            new |= set((await connection.execute(noting, [{"id": id_, "at": now} for id_ in ids])).scalars())
        redactions = Counter[str]()
        stored = [row for key, row in rows.items() if key in new]
        for row in rows.values():
            row_redactions = row.pop("found")
            redactions.update(row_redactions if row["id"] in new else {})
        if stored:
            await connection.execute(upsert(connection, exchanges).on_conflict_do_nothing(), stored)
            await counters.add(connection, {("redactions", (kind,)): n for kind, n in redactions.items()})
        counts = Counter(verdicts[id_] for id_ in new)
        await ledger.add(connection, counts)
    counts[DUPLICATE] += len(verdicts) - len(new)
    return counts, new


async def add_parts(database: Database, parts: Iterable[StoredPart]) -> None:
    """Keep parts; a part that is there already changes nothing."""
    now = time.time()

    def row_of_part(stored_part: StoredPart) -> dict[str, Any]:
        digest = hashlib.blake2b(stored_part.body, digest_size=12).hexdigest()
        body, is_sealed = database.texts.sealed(stored_part.body)
        part = _owner_tag(stored_part.owner) + digest
        return {"exchange_id": stored_part.exchange_id, "part": part, "at": now, "body": body, "is_sealed": is_sealed}

    rows = await in_turns(row_of_part, parts)
    rows.sort(key=lambda row: (row["exchange_id"], row["part"]))
    if rows:
        async with database.begin() as connection:
            for some in portions(rows, ROWS_AT_ONCE):
                await connection.execute(upsert(connection, ingested_parts).on_conflict_do_nothing(), some)


async def parts_of(database: Database, ids: Collection[str]) -> dict[str, list[bytes]]:
    """All parts of these exchanges, by id, in the order in which they came; without those that no key opens."""
    columns = ingested_parts.c
    bodies_by_id: dict[str, list[bytes]] = {}
    for some in portions(sorted(ids)):
        query = sa.select(ingested_parts).where(columns.exchange_id.in_(some)).order_by(columns.at, columns.part)
        rows = await database.fetch_rows(query)
        bodies = await in_turns(lambda row: database.texts.leave(row.body, is_sealed=row.is_sealed), rows)
        for row, body in zip(rows, bodies, strict=True):
            if body:
                bodies_by_id.setdefault(row.exchange_id, []).append(body)
    return bodies_by_id


async def waiting_of(database: Database, ids: Collection[str]) -> dict[str, Waiting]:
    """Return how much waits of each of these exchanges; those of which nothing does are left out."""
    columns = ingested_parts.c
    waiting_by_id: dict[str, Waiting] = {}
    for some in portions(sorted(ids)):
        sums = sa.select(columns.exchange_id, sa.func.count(), sa.func.sum(sa.func.length(columns.body)))
        query = sums.where(columns.exchange_id.in_(some)).group_by(columns.exchange_id)
        waiting_by_id |= {key: Waiting(count, size) for key, count, size in await database.fetch_rows(query)}
    return waiting_by_id


def in_groups(waiting: Mapping[str, Waiting], ids: Iterable[str]) -> Iterable[list[str]]:
    """The ids in groups whose parts are of PARTS_BYTES_AT_ONCE together, unless one has more."""
    group: list[str] = []
    n_bytes = 0
    for key in ids:
        more = waiting[key].n_bytes if key in waiting else 0
        if group and n_bytes + more > PARTS_BYTES_AT_ONCE:
            yield group
            group, n_bytes = [], 0
        group.append(key)
        n_bytes += more
    if group:
        yield group


async def counted_of(database: Database, ids: Collection[str]) -> set[str]:
    """Return those of these exchanges that count already."""
    counted = set[str]()
    for some in portions(sorted(ids)):
        counted |= set(await database.fetch_column(sa.select(ingested.c.id).where(ingested.c.id.in_(some))))
    return counted


async def forget_parts(database: Database, ids: Collection[str]) -> None:
    """Deletes the parts of exchanges that are counted."""
    for some in portions(sorted(ids)):
        await database.change_rows(sa.delete(ingested_parts).where(ingested_parts.c.exchange_id.in_(some)))


async def waited_too_long(
    database: Database, *, before: float, limit: int, since: float = 0.0
) -> tuple[list[str], float]:
    """Return ids of exchanges without a new part since `before`, by their oldest part, and when the last part that was
    read came, from which the next call goes on (`since`). `limit`: most parts read. Times are Unix seconds.
    """
    columns, newer = ingested_parts.c, ingested_parts.alias()
    has_newer = sa.exists().where(newer.c.exchange_id == columns.exchange_id, newer.c.at >= before)
    query = sa.select(columns.exchange_id, columns.at).where(columns.at >= since, columns.at < before, ~has_newer)
    rows = await database.fetch_rows(query.order_by(columns.at).limit(limit))
    return list(dict.fromkeys(row.exchange_id for row in rows)), rows[-1].at if rows else before


async def count_parts_of(database: Database, owner: str | None) -> int:
    """Return how many parts wait that came with the key of this name."""
    mine = sa.func.substr(ingested_parts.c.part, 1, OWNER_DIGITS) == _owner_tag(owner)
    return await database.count(ingested_parts, mine)


def _owner_tag(owner: str | None) -> str:
    return hashlib.blake2b((owner or "").encode("utf-8", "replace"), digest_size=OWNER_DIGITS // 2).hexdigest()


async def forget(database: Database, *, before: float) -> None:
    """Forgets ids that came before this Unix time: their exchanges are deleted too."""
    await database.change_rows(sa.delete(ingested).where(ingested.c.at < before))


def portions(ones: Sequence[T], most: int = IDS_AT_ONCE) -> Iterable[Sequence[T]]:
    return (ones[first : first + most] for first in range(0, len(ones), most))
