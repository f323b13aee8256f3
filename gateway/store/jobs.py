"""The embedded queue's table (SQLite): one atomic claim, a lease per claimed job, deletion when it is done."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from gateway.store.connections import has_come
from gateway.store.database import Database
from gateway.store.tables import jobs

LONGEST_AHEAD_SECONDS = 60.0
"""No job is put off for longer (`gateway.store.connections.has_come`)."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed job."""

    id: int
    task: str
    payload: dict[str, Any]
    attempts: int
    """Including this one."""


async def insert(database: Database, task: str, payload: dict[str, Any], *, lock: str | None, priority: int) -> bool:
    """Adds a job that is ready at once. False when one with the same lock is waiting already."""
    async with database.begin() as connection:
        if lock is not None:
            same = sa.select(jobs.c.id).where(jobs.c.lock == lock, jobs.c.lease_owner.is_(None))
            if (await connection.execute(same)).first() is not None:
                return False
        await connection.execute(sa.insert(jobs), [_row(task, payload, lock=lock, priority=priority)])
    return True


async def insert_many(database: Database, task: str, payloads: Sequence[dict[str, Any]]) -> None:
    """Adds jobs that are ready at once, in one transaction."""
    rows = [_row(task, payload, lock=None, priority=0) for payload in payloads]
    await database.change_rows(sa.insert(jobs), rows)


def _row(task: str, payload: dict[str, Any], *, lock: str | None, priority: int) -> dict[str, Any]:
    now = time.time()
    row = {"task": task, "payload": msgspec.json.encode(payload).decode(), "lock": lock, "priority": priority}
    return row | {"available_at": now, "created_at": now}


async def claim(database: Database, tasks: Sequence[str], *, owner: str, lease_seconds: float) -> Job | None:
    """Takes the next ready job of these tasks: largest priority first, then the oldest. None when there is none."""
    if await database.fetch_row(_next(tasks)) is None:  # looking costs no write lock, and most looks find nothing
        return None
    lease = {"lease_owner": owner, "lease_until": time.time() + lease_seconds, "attempts": jobs.c.attempts + 1}
    update = sa.update(jobs).where(jobs.c.id == _next(tasks).scalar_subquery()).values(lease)
    async with database.begin() as connection:
        columns = (jobs.c.id, jobs.c.task, jobs.c.payload, jobs.c.attempts)
        row = (await connection.execute(update.returning(*columns))).first()
    if row is None:
        return None
    return Job(id=row.id, task=row.task, payload=msgspec.json.decode(row.payload), attempts=row.attempts)


async def next_at(database: Database, tasks: Sequence[str]) -> float | None:
    """Return when a job of these tasks is ready or its lease runs out, in Unix seconds; None without jobs."""
    ready = sa.case((jobs.c.lease_owner.is_(None), jobs.c.available_at), else_=jobs.c.lease_until)
    query = sa.select(sa.func.min(ready)).where(jobs.c.task.in_(tasks))
    return await database.fetch_value(query)


async def renew(database: Database, ids: Sequence[int], *, owner: str, lease_seconds: float) -> None:
    """Shows that the owner lives and still works on these jobs."""
    mine = sa.update(jobs).where(jobs.c.id.in_(ids), jobs.c.lease_owner == owner)
    await database.change_rows(mine.values(lease_until=time.time() + lease_seconds))


async def finish(database: Database, job: Job, *, owner: str) -> None:
    """Deletes a job that is done or given up, unless its lease has gone to someone else."""
    await database.change_rows(sa.delete(jobs).where(jobs.c.id == job.id, jobs.c.lease_owner == owner))


async def release(database: Database, job: Job, *, owner: str, delay_seconds: float, counts: bool) -> None:
    """Makes a claimed job ready again after a pause; `counts` says whether the attempt was one."""
    at, attempts = time.time() + delay_seconds, job.attempts if counts else job.attempts - 1
    mine = sa.update(jobs).where(jobs.c.id == job.id, jobs.c.lease_owner == owner)
    await database.change_rows(mine.values(lease_owner=None, lease_until=None, available_at=at, attempts=attempts))


async def payloads(database: Database, task: str) -> list[dict[str, Any]]:
    """Payloads of all jobs of a task, claimed or not."""
    bodies = await database.fetch_column(sa.select(jobs.c.payload).where(jobs.c.task == task))
    return [msgspec.json.decode(payload, type=dict[str, Any]) for payload in bodies]


async def recover(database: Database, *, lease_seconds: float) -> int:
    """Free jobs whose lease is over, or too far ahead as the clock was set back; return how many of the former."""
    now = time.time()
    abandoned = sa.update(jobs).where(jobs.c.lease_until < now)
    too_long = sa.update(jobs).where(jobs.c.lease_until > now + 2 * lease_seconds)
    async with database.begin() as connection:
        await connection.execute(too_long.values(lease_until=now + lease_seconds))
        return (await connection.execute(abandoned.values(lease_owner=None, lease_until=None))).rowcount


def _next(tasks: Sequence[str]) -> sa.Select[tuple[int]]:
    now = time.time()
    is_free = jobs.c.lease_owner.is_(None) | (jobs.c.lease_until < now)
    return (
        sa.select(jobs.c.id)
        .where(jobs.c.task.in_(tasks), has_come(jobs.c.available_at, now, ahead=LONGEST_AHEAD_SECONDS), is_free)
        .order_by(jobs.c.priority.desc(), jobs.c.id)
        .limit(1)
    )
