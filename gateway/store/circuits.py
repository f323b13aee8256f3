"""Open circuits, and the exchanges that wait for an auditor: shared by all auditor processes and the console. A row of
`circuits` is an open circuit; a closed one has none. A row of `waiting_audits` is an audit that was tried, or refused,
and is due again at `retry_at`, but not before its circuit is closed.
"""

import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store.connections import has_come, upsert
from gateway.store.database import Database
from gateway.store.tables import circuits, exchanges, waiting_audits

_ERROR_CHARS = 300
LONGEST_AHEAD_SECONDS = 120.0
"""Nothing here is planned for later than so many seconds from now (`gateway.store.connections.has_come`)."""


class Key(NamedTuple):
    """Names a circuit."""

    auditor: str
    server: str
    """Name of an upstream, or "auditors.NAME" for a server of an auditor's own."""


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """An open circuit. Times are Unix seconds."""

    auditor: str
    server: str
    opened_at: float
    probe_at: float
    """Time at which the known good exchange may be audited again."""
    pause_seconds: float
    """Pause before `probe_at`; it grows with each failure."""
    error: str
    """Description of the server's last failure, in our own words."""
    failed_at: float
    n_waiting: int

    def is_due(self, now: float) -> bool:
        """Return whether the known good exchange may be audited at this time, in Unix seconds."""
        # A time too far ahead was stored before the clock was set back.
        return self.probe_at <= now or self.probe_at > now + LONGEST_AHEAD_SECONDS

    @property
    def key(self) -> Key:
        return Key(self.auditor, self.server)


class Waiting(NamedTuple):
    """Exchanges that wait for an auditor."""

    n: int
    oldest: float
    """Unix seconds at which the oldest of the waiting exchanges was received."""


class WaitingAudit(msgspec.Struct, frozen=True, kw_only=True):
    """One audit that waits. Times are Unix seconds."""

    exchange_id: str
    auditor: str
    server: str
    error: str
    own_failures: int
    """Failures of this audit while the server answered others."""
    since: float
    failed_at: float | None


_AUDIT_COLUMNS = [waiting_audits.c[field.name] for field in msgspec.structs.fields(WaitingAudit)]


async def open_circuit(database: Database, key: Key, *, error: str, pause_seconds: float) -> bool:
    """Opens a circuit. False when it was open already."""
    now = time.time()
    values = {"opened_at": now, "probe_at": now + pause_seconds, "pause_seconds": pause_seconds, "failed_at": now}
    async with database.begin() as connection:
        row = upsert(connection, circuits).values(**key._asdict(), **values, error=error[:_ERROR_CHARS])
        opened = await connection.execute(row.on_conflict_do_nothing().returning(circuits.c.auditor))
        return opened.first() is not None


async def close_circuit(database: Database, key: Key) -> tuple[float, int] | None:
    """Close a circuit; what waits is due at once. Return its opening time and their number; None if closed."""
    now = time.time()
    async with database.begin() as connection:
        closed = await connection.execute(
            sa.delete(circuits).where(*_of(circuits, key)).returning(circuits.c.opened_at)
        )
        opened_at = closed.scalar()
        if opened_at is None:
            return None
        anew = {"own_failures": 0, "since": now, "failed_at": None, "retry_at": now}
        freed = await connection.execute(sa.update(waiting_audits).where(*_of(waiting_audits, key)).values(anew))
        return opened_at, freed.rowcount


async def claim_health_check(database: Database, key: Key) -> bool:
    """Return whether the caller may audit the known good exchange now: no other process may within the same pause."""
    now = time.time()
    is_due = has_come(circuits.c.probe_at, now, ahead=LONGEST_AHEAD_SECONDS)
    due = sa.update(circuits).where(*_of(circuits, key), is_due)
    return await database.change_rows(due.values(probe_at=now + circuits.c.pause_seconds)) == 1


async def postpone_health_check(database: Database, key: Key, *, error: str, pause_seconds: float) -> None:
    """Note that the known good exchange has failed again: the next audit of it comes after this pause, in seconds."""
    now = time.time()
    values = {"probe_at": now + pause_seconds, "pause_seconds": pause_seconds, "failed_at": now}
    mine = sa.update(circuits).where(*_of(circuits, key))
    await database.change_rows(mine.values(**values, error=error[:_ERROR_CHARS]))


async def reset_at_start(database: Database, keys: Collection[Key]) -> None:
    """Let open circuits be tried at once; forget those of servers that this auditor lacks, and the waits for them."""
    async with database.begin() as connection:
        for table in (circuits, waiting_audits):
            rows = await connection.execute(sa.select(table.c.auditor, table.c.server).distinct())
            for key in {Key(*row) for row in rows} - set(keys):
                await connection.execute(sa.delete(table).where(*_of(table, key)))
        await connection.execute(
            sa.update(circuits).where(circuits.c.probe_at > time.time()).values(probe_at=time.time())
        )


async def open_circuits(database: Database) -> list[Circuit]:
    waiting = sa.select(sa.func.count()).select_from(waiting_audits)
    mine = waiting.where(
        waiting_audits.c.auditor == circuits.c.auditor, waiting_audits.c.server == circuits.c.server
    ).scalar_subquery()
    query = sa.select(circuits, mine.label("n_waiting")).order_by(circuits.c.opened_at)
    return [Circuit(**row._mapping) for row in await database.fetch_rows(query)]


async def count_waiting(database: Database) -> dict[str, Waiting]:
    """Return the exchanges that wait because a server failed, by auditor, for open and closed circuits."""
    joined = waiting_audits.join(exchanges, waiting_audits.c.exchange_id == exchanges.c.id)
    query = sa.select(waiting_audits.c.auditor, sa.func.count(), sa.func.min(exchanges.c.received_at))
    query = query.select_from(joined).group_by(waiting_audits.c.auditor)
    return {auditor: Waiting(count, oldest) for auditor, count, oldest in await database.fetch_rows(query)}


async def waiting_audit(database: Database, exchange_id: str, auditor: str) -> WaitingAudit | None:
    """Return the facts about an audit that waits; None when it does not."""
    which = (waiting_audits.c.exchange_id == exchange_id, waiting_audits.c.auditor == auditor)
    row = await database.fetch_row(sa.select(*_AUDIT_COLUMNS).where(*which))
    return None if row is None else WaitingAudit(**row._mapping)


async def defer_audit(database: Database, audit: WaitingAudit, *, retry_at: float, keep_failures: bool = False) -> None:
    """Let an audit of a queued exchange wait; `keep_failures` keeps the failures stored for it."""
    values = msgspec.structs.asdict(audit) | {"retry_at": retry_at, "error": audit.error[:_ERROR_CHARS]}
    queued = sa.select(*(sa.literal(value, waiting_audits.c[name].type) for name, value in values.items()))
    queued = queued.where(
        sa.select(exchanges.c.id).where(exchanges.c.id == audit.exchange_id, exchanges.c.state == "queued").exists()
    )
    changed = {"server", "error", "retry_at"} | (set() if keep_failures else {"own_failures", "failed_at"})
    async with database.begin() as connection:
        row = upsert(connection, waiting_audits)
        await connection.execute(
            row.from_select(list(values), queued).on_conflict_do_update(
                index_elements=[waiting_audits.c.exchange_id, waiting_audits.c.auditor],
                set_={name: row.excluded[name] for name in changed},
            )
        )


async def model_waiting(database: Database, key: Key) -> str | None:
    """Return the served model of the exchange that waits longest for an auditor's server; None where none waits."""
    query = (
        sa.select(exchanges.c.served_model)
        .select_from(waiting_audits.join(exchanges, waiting_audits.c.exchange_id == exchanges.c.id))
        .where(*_of(waiting_audits, key))
        .order_by(waiting_audits.c.since)
        .limit(1)
    )
    return await database.fetch_value(query)


async def read_overdue(database: Database, *, received_before: float, limit: int) -> list[WaitingAudit]:
    """Return the audits that wait, of exchanges received before this time, oldest first."""
    joined = waiting_audits.join(exchanges, waiting_audits.c.exchange_id == exchanges.c.id)
    query = (
        sa.select(*_AUDIT_COLUMNS)
        .select_from(joined)
        .where(exchanges.c.received_at < received_before)
        .order_by(exchanges.c.received_at)
        .limit(limit)
    )
    return [WaitingAudit(**row._mapping) for row in await database.fetch_rows(query)]


def _of(table: sa.Table, key: Key) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return table.c.auditor == key.auditor, table.c.server == key.server


def may_be_audited(now: float) -> sa.ColumnElement[bool]:
    """Return the condition on an exchange that no audit of it waits, or an audit is due whose circuit is closed."""
    is_open = sa.select(sa.literal(1)).where(
        circuits.c.auditor == waiting_audits.c.auditor, circuits.c.server == waiting_audits.c.server
    )
    is_due = has_come(waiting_audits.c.retry_at, now, ahead=LONGEST_AHEAD_SECONDS)
    return sa.or_(~has_waiting_audit(), has_waiting_audit(is_due, ~is_open.exists()))


def has_waiting_audit(*which: sa.ColumnElement[bool]) -> sa.Exists:
    """Return the condition on an exchange that an audit of it waits (and all of this applies to that)."""
    return sa.select(sa.literal(1)).where(waiting_audits.c.exchange_id == exchanges.c.id, *which).exists()


async def forget(connection: AsyncConnection, exchange_ids: Sequence[str], *, auditor: str | None = None) -> None:
    """Inside the caller's transaction: nothing of these exchanges waits any more (for this auditor)."""
    gone = sa.delete(waiting_audits).where(waiting_audits.c.exchange_id.in_(exchange_ids))
    await connection.execute(gone if auditor is None else gone.where(waiting_audits.c.auditor == auditor))
