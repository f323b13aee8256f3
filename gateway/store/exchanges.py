"""Sampled exchanges: written once, audited, settled, and deleted when they are old or someone asks for it."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.types import Exchange
from gateway.privacy.texts import StoredText, Texts, user_digest
from gateway.privacy.time_limit import TimeLimitError, processor_time_limit
from gateway.store import circuits, counters, deliveries, ledger
from gateway.store.connections import insert_rows
from gateway.store.database import Database
from gateway.store.deliveries import Delivery
from gateway.store.tables import annotations, audit_texts, exchange_audits, exchanges, measurements, streams

logger = logging.getLogger(__name__)

State = Literal["queued", "audited", "not_auditable", "failed", "expired", "sampled_out", "opted_out"]
"""queued waits; not_auditable: for all auditors; sampled_out: by each auditor's rate; opted_out: deleted unaudited."""

UNREDACTABLE = "unredactable"
"""Counted among the redactions: all the text was dropped, because redacting it took too long."""
NO_JSON = b"null"
"""Stored form of a request of which nothing was stored, as it was not JSON: auditors say so."""
AHEAD_SECONDS = 60.0
"""Seconds by which the clocks of two machines may differ."""
IDS_AT_ONCE = 500
"""Exchanges that one statement deletes, and that one call of `expire` or `delete_old` takes."""
TEXT_SECONDS = 1.0
SECONDS_PER_BYTE = 2e-6
"""Processor time for redacting and sealing one exchange; ten times what the slowest texts known take."""

_NOT_STORED = "content_encoding"
"""A stored body is not compressed."""
_FIELDS = [field.name for field in msgspec.structs.fields(Exchange) if field.name != _NOT_STORED]
_WIDTHS = {column.name: column.type.length for column in exchanges.c if isinstance(column.type, sa.String)}


async def insert_batch(
    database: Database, batch: Sequence[Exchange], deltas: ledger.Deltas, delivery: Delivery | None = None
) -> None:
    """Store exchanges as queued and add to the ledger, all or nothing; repeating a delivery changes nothing."""
    rows = []
    for exchange in batch:
        rows.append(row_of(database, exchange))
        await asyncio.sleep(0)  # each takes processor time in proportion to its text
    redactions = Counter[str]()
    for row in rows:
        redactions.update(row.pop("found"))
    async with database.begin() as connection:
        if delivery is not None and not await deliveries.is_new(connection, delivery):
            return
        if batch:
            await insert_rows(connection, exchanges, rows)
            await counters.add(connection, {("redactions", (kind,)): n for kind, n in redactions.items()})
        await ledger.add(connection, deltas)


async def get(database: Database, exchange_id: str) -> Exchange | None:
    """One exchange, or None; bodies that were dropped after the audit come back empty."""
    loaded = await load(database, [exchange_id])
    return loaded[0] if loaded else None


async def load(database: Database, ids: Sequence[str], *, state: State | None = None) -> list[Exchange]:
    """The exchanges of these ids that exist (and are in `state`), oldest first."""
    query = sa.select(*exchange_columns(), exchanges.c.redactions).where(exchanges.c.id.in_(ids))
    query = query.order_by(exchanges.c.received_at)
    if state is not None:
        query = query.where(exchanges.c.state == state)
    return [_with_request(row, database.texts) for row in await database.fetch_rows(query)]


def _with_request(row: Any, texts: Texts) -> Exchange:
    """Return the exchange; a request stored without JSON is NO_JSON, one that no key opens is empty."""
    exchange = exchange_of(row, texts)
    if exchange.request_body or row.request_body is None or UNREDACTABLE in (row.redactions or ""):
        return exchange
    if not texts.opens(row.request_body, is_sealed=row.is_sealed):
        return exchange
    return msgspec.structs.replace(exchange, request_body=NO_JSON)


async def audits(database: Database, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the outcome of each exchange at the auditors that are done: id to auditor to outcome."""
    done: dict[str, dict[str, str]] = {exchange_id: {} for exchange_id in ids}
    query = sa.select(exchange_audits.c.exchange_id, exchange_audits.c.auditor, exchange_audits.c.outcome).where(
        exchange_audits.c.exchange_id.in_(ids)
    )
    for exchange_id, auditor, outcome in await database.fetch_rows(query):
        done[exchange_id][auditor] = outcome
    return done


async def settle_all(
    connection: AsyncConnection, states: Mapping[str, State], *, keep_text: bool
) -> tuple[set[str], ledger.Deltas]:
    """End queued exchanges in the caller's transaction, in order of ids; return which, and the ledger's changes."""
    if not states:
        return set(), {}
    await circuits.forget(connection, list(states))
    settled: set[str] = set()
    moved = Counter[tuple[str, str]]()
    for state in sorted(set(states.values())):
        ids = [exchange_id for exchange_id in states if states[exchange_id] == state]
        settled_now, deltas = await _settle(connection, [exchanges.c.id.in_(ids)], state, keep_text=keep_text)
        settled.update(settled_now)
        moved.update(deltas)
    return settled, moved


def state_after(outcomes: Collection[str]) -> State:
    """Audited when any auditor gave a result; otherwise failed when any failed, and sampled out when none was due."""
    if "audited" in outcomes:
        return "audited"
    if "failed" in outcomes:
        return "failed"
    return "not_auditable" if outcomes else "sampled_out"


async def waiting(database: Database, *, received_before: float, limit: int) -> list[str]:
    """Return ids of queued exchanges older than this Unix time, or dated ahead of the clock, that may be audited."""
    now = time.time()
    may_be_audited = circuits.may_be_audited(now)
    is_old = (exchanges.c.received_at < received_before) | (exchanges.c.received_at > now + AHEAD_SECONDS)
    query = (
        sa.select(exchanges.c.id)
        .where(exchanges.c.state == "queued", is_old, may_be_audited)
        .order_by(exchanges.c.received_at)
        .limit(limit)
    )
    return await database.fetch_column(query)


async def backlog(database: Database) -> tuple[int, float | None]:
    """Return how many exchanges are queued, and when the oldest was received (Unix seconds; None without any)."""
    query = sa.select(sa.func.count(), sa.func.min(exchanges.c.received_at)).where(exchanges.c.state == "queued")
    [(count, oldest)] = await database.fetch_rows(query)
    return count, oldest


async def count_waiting(database: Database, *, at_most: int) -> int:
    """Return how many exchanges are queued; `at_most` stands for any larger number, so that counting costs little."""
    queued = sa.select(sa.literal(1)).select_from(exchanges).where(exchanges.c.state == "queued").limit(at_most)
    return await database.count(queued.subquery())


async def expire(database: Database, *, received_before: float, keep_text: bool) -> int:
    """Give up on up to IDS_AT_ONCE exchanges that waited too long for an auditor, not its server; return how many."""
    too_old = (exchanges.c.received_at < received_before, exchanges.c.state == "queued", ~circuits.has_waiting_audit())
    async with database.begin() as connection:
        if chosen := await _oldest(connection, too_old):
            expired, moved = await _settle(connection, [exchanges.c.id.in_(chosen)], "expired", keep_text=keep_text)
            await _count(connection, "expired", len(expired), moved)
        return len(chosen)


async def delete_old(database: Database, *, received_before: float) -> int:
    """Delete up to IDS_AT_ONCE settled exchanges older than this Unix time; their numbers stay. Return how many."""
    too_old = (exchanges.c.received_at < received_before, exchanges.c.state != "queued")
    async with database.begin() as connection:
        if chosen := await _oldest(connection, too_old):
            await _forget(connection, chosen)
        return len(chosen)


class Deletion(NamedTuple):
    """The result of a deletion."""

    exchanges: int
    measurements_kept: int
    """Their measurements, which stay without link and words: numbers that estimates keep."""


async def delete(
    database: Database, *, request_id: str | None = None, user: str | None = None, tag: str | None = None
) -> Deletion:
    """Delete every exchange to which all that is given applies, in any state. `user`: as the client named them in the
    request. Numbers stay: estimates keep what the exchange added, as a detector's evidence cannot be taken back;
    measurements and annotations lose their link and every word, and a waiting exchange moves to "opted_out".
    ValueError: nothing is given.
    """
    which = []
    if request_id is not None:
        which.append(exchanges.c.request_id == fitted("request_id", request_id))
    if user is not None:
        which.append(exchanges.c.user_digest == user_digest(user, database.user_salt))
    if tag is not None:
        which.append(exchanges.c.tag == fitted("tag", tag))
    if not which:
        raise ValueError("nothing says which exchanges to delete")
    async with database.begin() as connection:
        deleted = await _delete(connection, which)
    await database.forget_deleted()
    return deleted


def fitted(column: str, text: str) -> str:
    """A text as this column keeps it, which is also how to look for it."""
    # Clients choose model names and request ids; PostgreSQL refuses what is too long and the NUL character.
    return text.replace("\x00", "")[: _WIDTHS[column]]


def exchange_columns() -> list[sa.Column[Any]]:
    """The columns that make an Exchange."""
    return [*(exchanges.c[name] for name in _FIELDS), exchanges.c.is_sealed]


def exchange_of(row: sa.Row[Any], texts: Texts) -> Exchange:
    """The Exchange in a row that has its columns; bodies that were dropped or cannot be opened are empty."""
    fields = {name: row._mapping[name] for name in _FIELDS}
    for body in ("request_body", "response_body"):
        fields[body] = texts.leave(fields[body], is_sealed=row._mapping["is_sealed"])
    return Exchange(**fields)


async def _settle(
    connection: AsyncConnection, which: Sequence[sa.ColumnElement[bool]], state: State, *, keep_text: bool
) -> tuple[list[str], ledger.Deltas]:
    """Ids of what was queued, and what the ledger does not know yet."""
    values: dict[str, Any] = {"state": state, "settled_at": time.time()}
    if not keep_text:
        values |= {"request_body": None, "response_body": None}
        ended = sa.select(exchanges.c.id).where(*which, exchanges.c.state == "queued")
        await connection.execute(sa.delete(audit_texts).where(audit_texts.c.exchange_id.in_(ended)))
    change = sa.update(exchanges).where(*which, exchanges.c.state == "queued").values(values)
    rows = (await connection.execute(change.returning(exchanges.c.id, exchanges.c.stratum))).all()
    moved = Counter[tuple[str, str]]()
    for row in rows:
        moved[row.stratum, "queued"] -= 1
        moved[row.stratum, state] += 1
    return [row.id for row in rows], moved


async def _oldest(connection: AsyncConnection, which: Sequence[sa.ColumnElement[bool]]) -> list[str]:
    """Return ids of up to IDS_AT_ONCE of these exchanges, locked; those that another process has are left to it."""
    query = sa.select(exchanges.c.id).where(*which).order_by(exchanges.c.received_at).limit(IDS_AT_ONCE)
    return list((await connection.execute(query.with_for_update(of=exchanges, skip_locked=True))).scalars())


async def _delete(connection: AsyncConnection, which: Sequence[sa.ColumnElement[bool]]) -> Deletion:
    waiting = [*which, exchanges.c.state == "queued"]
    withdrawn, moved = await _settle(connection, waiting, "opted_out", keep_text=False)
    chosen = sa.select(exchanges.c.id).where(*which).order_by(exchanges.c.id).with_for_update()
    gone = list((await connection.execute(chosen)).scalars())
    n_kept = 0
    for first in range(0, len(gone), IDS_AT_ONCE):
        n_kept += await _forget(connection, gone[first : first + IDS_AT_ONCE])
    await _count(connection, "opted_out", len(withdrawn), moved)
    return Deletion(len(gone), n_kept)


async def _forget(connection: AsyncConnection, ids: Sequence[str]) -> int:
    unlinked: dict[str, None] = {"reason": None, "detail": None, "exchange_id": None}
    unlink = sa.update(measurements).where(measurements.c.exchange_id.in_(ids)).values(unlinked)
    n_kept = (await connection.execute(unlink)).rowcount
    await connection.execute(sa.update(annotations).where(annotations.c.exchange_id.in_(ids)).values(note=None))
    alarmed = streams.c.alarm_exchange_id.in_(ids)
    await connection.execute(sa.update(streams).where(alarmed).values(alarm_exchange_id=None))
    await connection.execute(sa.delete(exchanges).where(exchanges.c.id.in_(ids)))
    return n_kept


async def _count(connection: AsyncConnection, outcome: State, number: int, moved: ledger.Deltas) -> None:
    if number:
        await counters.add(connection, {("exchanges", (outcome, "")): number})
    await ledger.add(connection, moved)


def row_of(database: Database, exchange: Exchange) -> dict[str, Any]:
    text = _text(database.texts, exchange)
    row: dict[str, Any] = msgspec.structs.asdict(exchange) | {
        "state": "queued",
        "request_body": text.request_body,
        "response_body": text.response_body,
        "is_sealed": text.is_sealed,
        "redactions": msgspec.json.encode(text.redactions).decode() if text.redactions else None,
        "user_digest": None if text.user is None else user_digest(text.user, database.user_salt),
        "found": text.redactions,
    }
    del row[_NOT_STORED]
    return row | {name: fitted(name, row[name]) for name in _WIDTHS if row.get(name) is not None}


def _text(texts: Texts, exchange: Exchange) -> StoredText:
    size = len(exchange.request_body) + len(exchange.response_body)
    try:
        with processor_time_limit(TEXT_SECONDS + size * SECONDS_PER_BYTE):
            return texts.enter(exchange)
    except TimeLimitError:
        logger.error("exchange %s: redaction of %d bytes took too long, its text is dropped", exchange.request_id, size)
        return StoredText(request_body=b"", response_body=b"", is_sealed=False, user=None, redactions={UNREDACTABLE: 1})
