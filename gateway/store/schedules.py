"""Schedules of suite runs: each due time is taken once, by the auditor that comes first."""

import time
from collections.abc import Sequence
from typing import Any, Literal
from uuid import uuid4

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from gateway.config.audit_request import AuditRequest
from gateway.config.timing import Timing
from gateway.errors import ConflictError, NotFoundError
from gateway.store import runs
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import schedules

Source = Literal["api", "config"]

STILL_GOING = "passed over: the runs of the time before have not ended"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Suites to run, and the times at which they run. Times are Unix seconds."""

    id: str
    name: str
    source: Source
    """api: made over HTTP. config: from the configuration file, and changed only there."""
    cron: str | None
    every_seconds: float | None
    request: AuditRequest
    created_at: float
    next_due_at: float
    last_due_at: float | None
    last_run_ids: list[str]
    last_error: str | None
    """Reason why the last due time started no run; None if it did."""

    @property
    def timing(self) -> Timing:
        return Timing(self.cron, self.every_seconds)


async def create(database: Database, name: str, timing: Timing, request: AuditRequest) -> Schedule:
    """Create a schedule made over HTTP. Raises ConflictError if the name is taken."""
    row = _new(name, "api", timing, request, time.time())
    try:
        async with database.begin() as connection:
            stored_row = (await connection.execute(sa.insert(schedules).values(row).returning(schedules))).one()
    except IntegrityError as exc:
        raise ConflictError(f'there is a schedule named "{name}": delete it first, or choose another name') from exc
    return _schedule(stored_row)


async def list_schedules(database: Database) -> list[Schedule]:
    return [_schedule(row) for row in await database.fetch_rows(sa.select(schedules).order_by(schedules.c.name))]


async def get(database: Database, schedule_id: str) -> Schedule:
    """Return a schedule by its id. Raises NotFoundError."""
    row = await database.fetch_row(sa.select(schedules).where(schedules.c.id == schedule_id))
    if row is None:
        raise NotFoundError(f'no schedule has the id "{schedule_id}": GET /schedules lists them')
    return _schedule(row)


async def delete(database: Database, schedule_id: str) -> None:
    """Delete a schedule. Raises NotFoundError, or ConflictError for a schedule from the configuration."""
    schedule = await get(database, schedule_id)
    if schedule.source == "config":
        raise ConflictError(
            f'schedule "{schedule.name}" is from the configuration: take it out of [[audits.schedules]]'
        )
    await database.change_rows(sa.delete(schedules).where(schedules.c.id == schedule_id))


async def adopt(database: Database, configured: Sequence[tuple[str, Timing, AuditRequest]]) -> None:
    """Make these the configuration's schedules, replacing others so named; unchanged schedules keep their due time."""
    now = time.time()
    names = [name for name, _, _ in configured]
    gone = sa.delete(schedules).where(schedules.c.source == "config", schedules.c.name.not_in(names))
    async with database.begin() as connection:
        await connection.execute(gone)
        for name, timing, request in configured:
            row = _new(name, "config", timing, request, now)
            columns = ("source", "cron", "every_seconds", "request")
            same = sa.and_(*(schedules.c[column].is_not_distinct_from(row[column]) for column in columns))
            unchanged = sa.select(schedules.c.id).where(schedules.c.name == name, same)
            if (await connection.execute(unchanged)).first() is None:
                values = {column: row[column] for column in (*columns, "next_due_at")}
                insert = upsert(connection, schedules).values(row)
                await connection.execute(insert.on_conflict_do_update(index_elements=[schedules.c.name], set_=values))


async def due(database: Database, now: float) -> list[Schedule]:
    """Return the schedules whose time has come, longest overdue first."""
    query = sa.select(schedules).where(schedules.c.next_due_at <= now).order_by(schedules.c.next_due_at)
    return [_schedule(row) for row in await database.fetch_rows(query)]


async def pull_forward(database: Database, now: float) -> None:
    """Bring forward the next due times that were computed before the clock was set back."""
    for schedule in await list_schedules(database):
        following = schedule.timing.next_after(now, since=schedule.next_due_at)
        if following < schedule.next_due_at:
            mine = sa.update(schedules).where(
                schedules.c.id == schedule.id, schedules.c.next_due_at == schedule.next_due_at
            )
            await database.change_rows(mine.values(next_due_at=following))


async def take(
    database: Database, schedule: Schedule, now: float, options: Sequence[dict[str, Any]], *, error: str | None = None
) -> list[str]:
    """Take a due time, with which later times up to `now` count as one: queue its runs and set the next due time, once
    even if others try. Returns the ids of the runs; none if another took it, or if the last runs have not ended.
    """
    ids = [uuid4().hex for _ in options]
    following = schedule.timing.next_after(now, since=schedule.next_due_at)
    mine = sa.update(schedules).where(schedules.c.id == schedule.id, schedules.c.next_due_at == schedule.next_due_at)
    async with database.begin() as connection:
        values: dict[str, Any] = {"next_due_at": following, "last_due_at": schedule.next_due_at, "last_error": error}
        if not (await connection.execute(mine.values(values))).rowcount:
            return []
        if await runs.unfinished(connection, ids=schedule.last_run_ids):
            ids, values = [], {"last_error": STILL_GOING}
        else:
            values = {"last_run_ids": msgspec.json.encode(ids).decode()}
            for run_id, option in zip(ids, options, strict=True):
                await runs.add(connection, run_id, option)
        await connection.execute(sa.update(schedules).where(schedules.c.id == schedule.id).values(values))
    return ids


def _new(name: str, source: Source, timing: Timing, request: AuditRequest, now: float) -> dict[str, Any]:
    return {
        "id": uuid4().hex,
        "name": name,
        "source": source,
        "cron": timing.cron,
        "every_seconds": timing.every_seconds,
        "request": msgspec.json.encode(request).decode(),
        "created_at": now,
        "next_due_at": timing.next_after(now, since=now),
        "last_run_ids": "[]",
    }


def _schedule(row: sa.Row[Any]) -> Schedule:
    fields = dict(row._mapping)
    fields["request"] = msgspec.json.decode(fields["request"], type=AuditRequest)
    fields["last_run_ids"] = msgspec.json.decode(fields["last_run_ids"])
    return Schedule(**fields)
