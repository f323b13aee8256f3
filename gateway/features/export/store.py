"""Stores the progress of an export to an address, with its current writer, and reads the rows to export."""

import asyncio
import calendar
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.types import JudgeStamp
from gateway.errors import BusyError, StoreError
from gateway.store import counters
from gateway.store.connections import Connections, put_row
from gateway.store.schema import exclusively
from gateway.store.tables import facts, measurements, runs

ROWS, PASSES = "export_rows", "exports"
"""Names of the counters: rows by data set, passes by outcome."""
LEASE_SECONDS = 600.0
"""Seconds without a sign of life after which another process may write."""
PATIENCE_SECONDS = 60.0
"""Seconds to wait for transactions under way that may still bring lower ids."""
RUNS_AT_ONCE = 20
VERSIONS_AT_ONCE = 1000
_LOCK = 0x6578706F  # "expo"
_DAY = 86400.0
_ENDED = ("done", "failed", "cancelled")
# A transaction that writes measurements holds this lock from before it draws an id until it ends.
_WRITERS = sa.text(
    "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'"
    " AND relation = to_regclass('measurements')"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an export to an address. Times are Unix seconds."""

    id: str | None = None
    """Id of this export, which its address knows too; None before the first pass."""
    measured: int = 0
    """Id up to which all measurements are at the address."""
    planned: int | None = None
    """Last id of the part that is being written, or was when its writer died; None between parts."""
    days: dict[str, str] = {}
    """Digest of the runs at the address, by UTC day."""
    since: float | None = None
    """Time of the first try."""
    moved_at: float | None = None
    """Time when something last arrived, or nothing was left to bring."""
    done_at: float | None = None
    """Time when a pass last came to its end."""
    tried_at: float | None = None
    error: str | None = None
    """Reason why the last pass failed; None if it did not."""
    owner: str | None = None
    """Id of the process that writes now, until `until`; None when no process writes."""
    until: float = 0.0
    """End of the writer's lease."""


class LostLeaseError(StoreError):
    """Another process writes now: this process showed no sign of life for longer than its lease."""


async def read_progress(database: Connections, address: str) -> Progress:
    """Reads the progress of an export to an address; the defaults for an address without an export."""
    async with database.read() as connection:
        return await _get(connection, _name(address))


async def read_failing(database: Connections, *, tried_after: float) -> list[Progress]:
    """Reads the progress of addresses tried since this Unix time whose last pass has failed."""
    query = sa.select(facts.c.value).where(facts.c.name.like("export %")).order_by(facts.c.name)
    stored = [msgspec.json.decode(value, type=Progress) for value in await database.fetch_column(query)]
    return [each for each in stored if each.error is not None and (each.tried_at or 0.0) > tried_after]


async def acquire_lease(
    database: Connections, address: str, owner: str, *, now: float, is_due: Callable[[Progress], bool] = lambda _: True
) -> Progress:
    """Make `owner` the only writer to an address. Raises BusyError while another writes, or if no pass is due now."""
    name = _name(address)
    async with database.begin() as connection:
        await exclusively(connection, _LOCK)
        current = await _get(connection, name)
        is_leased = now < current.until <= now + 2 * LEASE_SECONDS  # a later end: the clock was set back since
        if not is_due(current) or (current.owner is not None and is_leased):
            raise BusyError("another process exports there now, or died there within the last ten minutes: wait for it")
        until, since = now + LEASE_SECONDS, current.since or now
        mine = msgspec.structs.replace(current, owner=owner, until=until, tried_at=now, since=since)
        await put_row(connection, facts, {"name": name}, {"value": msgspec.json.encode(mine)})
    return mine


async def write_progress(
    database: Connections, address: str, owner: str, changed: Progress, *, raised: counters.Increments | None = None
) -> Progress:
    """Store progress and counts, and renew the lease unless it is given up. Raises LostLeaseError, storing nothing."""
    name, now = _name(address), time.time()
    async with database.begin() as connection:
        await exclusively(connection, _LOCK)
        if (await _get(connection, name)).owner != owner:
            raise LostLeaseError("another process has taken over the export: nothing is lost or doubled")
        updated = changed if changed.owner is None else msgspec.structs.replace(changed, until=now + LEASE_SECONDS)
        await put_row(connection, facts, {"name": name}, {"value": msgspec.json.encode(updated)})
        await counters.add(connection, raised or {})
    return updated


async def read_last_settled_id(database: Connections) -> int:
    """Return an id up to which no measurement is still to come. Ids are drawn before transactions end, so on PostgreSQL
    the transactions that write now are waited for. Raises StoreError if they take longer than PATIENCE_SECONDS.
    """
    newest = int(await database.fetch_value(sa.select(sa.func.max(measurements.c.id))) or 0)
    if database.dialect == "sqlite":  # writers are alone, and what is seen has ended
        return newest
    writing, deadline = await _writers(database), time.monotonic() + PATIENCE_SECONDS
    while writing:
        if time.monotonic() > deadline:
            raise StoreError(
                f"store {database.masked_url}: a transaction has been writing measurements for {PATIENCE_SECONDS:g} s: "
                "see pg_stat_activity"
            )
        await asyncio.sleep(0.05)
        writing &= await _writers(database)
    return newest


async def end_of_part(database: Connections, *, after: int, upto: int, rows: int) -> int | None:
    """Return the last id of a part of at most `rows` measurements in (after, upto]; None if there are none."""
    columns = measurements.c
    part = sa.select(columns.id).where(columns.id > after, columns.id <= upto).order_by(columns.id).limit(rows)
    return await database.fetch_value(sa.select(sa.func.max(part.subquery().c.id)))


class Measured(NamedTuple):
    """A measurement without its texts, as a reason may quote what a person wrote."""

    id: int
    exchange_id: str | None
    auditor: str
    auditor_version: str
    metric: str
    axis: str | None
    group: str | None
    reference: str | None
    model: str
    value: float | None
    status: str
    judge: JudgeStamp | None
    inclusion_probability: float
    rate_factor: float
    weight: float
    created_at: float
    stream: str | None


async def read_measurements(database: Connections, *, after: int, upto: int, limit: int) -> list[Measured]:
    """Return a page of at most `limit` measurements with ids in (after, upto], by id."""
    columns = measurements.c
    selected = [
        *(columns.id, columns.exchange_id, columns.auditor, columns.auditor_version, columns.metric, columns.axis),
        *(columns.group_name, columns.reference_name, columns.model, columns.value, columns.status, columns.judge),
        *(columns.inclusion_probability, columns.rate_factor, columns.weight, columns.created_at, columns.stream),
    ]
    query = sa.select(*selected).where(columns.id > after, columns.id <= upto).order_by(columns.id).limit(limit)
    return [Measured(*row)._replace(judge=_stamp(row.judge)) for row in await database.fetch_rows(query)]


async def days_of_runs(database: Connections) -> dict[str, str]:
    """Returns, for each UTC day with ended runs, a digest that changes when a run requested that day does."""
    columns = runs.c
    versions = [columns.status, columns.finished_at, columns.heartbeat_at, sa.func.length(columns.result)]
    query = sa.select(columns.created_at, columns.id, *versions).where(columns.status.in_(_ENDED))
    digests: dict[str, Any] = {}
    async for rows in _pages(database, query, VERSIONS_AT_ONCE):
        for row in rows:
            digests.setdefault(day_of(row.created_at), hashlib.sha256()).update(repr(tuple(row)).encode())
    return {day: digest.hexdigest()[:16] for day, digest in digests.items()}


def runs_of(database: Connections, day: str) -> AsyncIterator[Sequence[Any]]:
    """Return pages of rows of the runs that were requested on a UTC day and have ended."""
    columns = runs.c
    begin = float(calendar.timegm(time.strptime(day, "%Y-%m-%d")))
    selected = [column for column in columns if column.name not in ("report", "error")]
    within = (columns.created_at >= begin) & (columns.created_at < begin + _DAY) & columns.status.in_(_ENDED)
    return _pages(database, sa.select(*selected).where(within), RUNS_AT_ONCE)


async def _pages(database: Connections, query: sa.Select[Any], limit: int) -> AsyncIterator[Sequence[Any]]:
    """Yield the rows of a query of runs by time and id, `limit` at a time."""
    columns = runs.c
    page = query.order_by(columns.created_at, columns.id).limit(limit)
    rest: sa.ColumnElement[bool] = sa.true()
    while rows := await database.fetch_rows(page.where(rest)):
        yield rows
        if len(rows) < limit:
            return
        rest = sa.tuple_(columns.created_at, columns.id) > (rows[-1].created_at, rows[-1].id)


def day_of(at: float) -> str:
    """Return the UTC day of a Unix time, as 2026-11-25."""
    return time.strftime("%Y-%m-%d", time.gmtime(at))


async def _writers(database: Connections) -> set[str]:
    return set(await database.fetch_column(_WRITERS))


def _name(address: str) -> str:
    return f"export {hashlib.sha256(address.encode()).hexdigest()[:40]}"


async def _get(connection: AsyncConnection, name: str) -> Progress:
    stored = (await connection.execute(sa.select(facts.c.value).where(facts.c.name == name))).scalar()
    return Progress() if stored is None else msgspec.json.decode(stored, type=Progress)


def _stamp(judge: str | None) -> JudgeStamp | None:
    return None if judge is None else msgspec.json.decode(judge, type=JudgeStamp)
