"""Suite runs: options, progress, results. queued -> running -> done | failed | cancelled, the last two resumable."""

import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import BusyError, ConflictError, NotFoundError
from gateway.store import counters
from gateway.store.connections import clock
from gateway.store.database import Database
from gateway.store.schema import exclusively
from gateway.store.tables import run_prompts, run_ranges, runs

Status = Literal["queued", "running", "done", "failed", "cancelled"]

STALE_SECONDS = 60.0
"""After so long without a heartbeat, by the database's clock, another auditor may claim a running run."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Times are Unix seconds."""

    id: str
    suite: str
    model: str
    mode: str
    protocol: str
    options: dict[str, Any]
    """The data of RunOptions, with the digest of own prompts in place of their text, which `with_prompts` reads."""
    status: Status
    progress_done: int
    progress_total: int | None
    created_at: float
    started_at: float | None
    """Start of the run, moved by pauses of a resumed run: so its rate covers the time in which it ran."""
    finished_at: float | None
    heartbeat_at: float | None
    error: str | None
    result: str | None = None
    """result.json, once done; left out of lists."""
    report: str | None = None
    """One HTML page, once done; left out of lists."""
    claim: str | None = None
    """Token of `claim`: once another auditor has claimed the run, the former auditor can no longer change it."""


_QUEUE_LOCK = 0x72756E73  # "runs"

_WHOLE = [column for column in runs.c if column.name not in ("shared", "led_at")]
_SUMMARY = [column for column in _WHOLE if column.name not in ("result", "report")]


async def create_all(database: Database, options_by_id: Mapping[str, dict[str, Any]], *, max_queued: int) -> None:
    """Queue all these runs, by id, or none. Raises BusyError if more than `max_queued` would wait."""
    async with database.begin() as connection:
        for run_id, options in options_by_id.items():
            await add(connection, run_id, options)
        await _require_room(connection, max_queued, added=len(options_by_id))


async def add(connection: AsyncConnection, run_id: str, options: dict[str, Any]) -> None:
    """Queue a run in the caller's transaction. `options` has at least suite, model, mode and protocol."""
    columns = {name: options[name] for name in ("suite", "model", "mode", "protocol")}
    prompts: str | None = options.get("prompts")
    if prompts is not None:
        options = options | {"prompts": f"sha256:{hashlib.sha256(prompts.encode()).hexdigest()}"}
    row = {"id": run_id, "options": msgspec.json.encode(options).decode(), "status": "queued", **columns}
    await connection.execute(sa.insert(runs).values(row | {"created_at": time.time()}))
    if prompts is not None:
        await connection.execute(sa.insert(run_prompts).values(run_id=run_id, content=prompts))


async def unfinished(
    connection: AsyncConnection, *, ids: Sequence[str] = (), options: dict[str, Any] | None = None
) -> int:
    """Return the number of queued or running runs with one of these ids or with equal options."""
    same: sa.ColumnElement[bool] = runs.c.id.in_(ids)
    if options is not None:
        same = sa.or_(same, runs.c.options == msgspec.json.encode(options).decode())
    query = sa.select(sa.func.count()).where(runs.c.status.in_(["queued", "running"]), same)
    return int((await connection.execute(query)).scalar() or 0)


async def get(database: Database, run_id: str) -> Run | None:
    row = await database.fetch_row(sa.select(*_WHOLE).where(runs.c.id == run_id))
    return None if row is None else _run(row)


async def summary(database: Database, run_id: str) -> Run | None:
    row = await database.fetch_row(sa.select(*_SUMMARY).where(runs.c.id == run_id))
    return None if row is None else _run(row)


async def with_prompts(database: Database, run: Run) -> Run:
    """Return the run with the text of its own prompts in its options; the same run if it has no prompts."""
    if run.options.get("prompts") is None:
        return run
    [content] = await database.fetch_column(sa.select(run_prompts.c.content).where(run_prompts.c.run_id == run.id))
    return msgspec.structs.replace(run, options=run.options | {"prompts": content})


async def list_runs(
    database: Database,
    *,
    model: str | None = None,
    suite: str | None = None,
    status: Status | None = None,
    limit: int = 100,
) -> list[Run]:
    """Return runs without results and reports, newest first."""
    query = sa.select(*_SUMMARY).order_by(runs.c.created_at.desc()).limit(limit)
    for column, value in ((runs.c.model, model), (runs.c.suite, suite), (runs.c.status, status)):
        if value is not None:
            query = query.where(column == value)
    return [_run(row) for row in await database.fetch_rows(query)]


async def newest_done(database: Database) -> list[Run]:
    """Return the newest finished run of each set of options, without result and report."""
    newest = sa.select(runs.c.options, sa.func.max(runs.c.finished_at).label("at"))
    newest_by = newest.where(runs.c.status == "done").group_by(runs.c.options).subquery()
    same = runs.c.options == newest_by.c.options
    query = sa.select(*_SUMMARY).join(newest_by, same & (runs.c.finished_at == newest_by.c["at"]))
    return [_run(row) for row in await database.fetch_rows(query.where(runs.c.status == "done"))]


async def n_done(database: Database) -> tuple[int, float | None]:
    """Return number of finished runs and time of the last; views of finished runs are stale when either changes."""
    query = sa.select(sa.func.count(), sa.func.max(runs.c.finished_at)).where(runs.c.status == "done")
    [(n, last)] = await database.fetch_rows(query)
    return n, last


async def result_of(database: Database, run_id: str) -> str | None:
    """Return result.json of a finished run; None if it was deleted."""
    query = sa.select(runs.c.result).where(runs.c.id == run_id, runs.c.status == "done")
    return await database.fetch_value(query)


async def claim(database: Database, run_id: str) -> Run | None:
    """Start a queued run, or take over a run whose auditor died. Return None if the run is neither."""
    async with database.begin() as connection:
        now = clock(connection)
        times = {"started_at": sa.func.coalesce(runs.c.started_at, now), "heartbeat_at": now, "led_at": now}
        change = sa.update(runs).where(runs.c.id == run_id, _is_claimable(now))
        change = change.values(**times, status="running", error=None, claim=uuid.uuid4().hex)
        row = (await connection.execute(change.returning(*_SUMMARY))).first()
        if row is not None:
            await _end_sharing(connection, run_id)
    return None if row is None else _run(row)


async def claimable(database: Database, *, created_before: float) -> list[str]:
    """Return the ids of runs without an auditor: created before this Unix time, and queued or without a heartbeat."""
    async with database.read() as connection:
        query = sa.select(runs.c.id).where(_is_claimable(clock(connection)), runs.c.created_at < created_before)
        return list((await connection.execute(query.order_by(runs.c.created_at))).scalars())


async def status(database: Database, run_id: str) -> Status | None:
    """Return the status of a run; None if it was deleted."""
    return await database.fetch_value(sa.select(runs.c.status).where(runs.c.id == run_id))


async def heartbeat(
    database: Database, run_id: str, done: int, total: int | None, *, claim: str | None = None
) -> Status | None:
    """Record progress and a heartbeat; return the status, maybe "cancelled"; None if another auditor has the run."""
    async with database.begin() as connection:
        now = clock(connection)
        values = {"progress_done": done, "progress_total": total, "heartbeat_at": now, "led_at": now}
        change = sa.update(runs).where(*_mine(run_id, claim)).values(values)
        status: Status | None = (await connection.execute(change.returning(runs.c.status))).scalar()
        return status


async def read_terms(database: Database, run_id: str) -> str | None:
    """Return the JSON of a run's `benchmarks.run.share.Terms` as far as they are known; None before that."""
    return await database.fetch_value(sa.select(runs.c.shared).where(runs.c.id == run_id))


async def keep_terms(database: Database, run: Run, terms: str) -> None:
    """Store the terms of a running run, unless another auditor has claimed the run since."""
    async with database.begin() as connection:
        mine = sa.update(runs).where(*_mine(run.id, run.claim), runs.c.status == "running")
        await connection.execute(mine.values(shared=terms))


async def finish(database: Database, run_id: str, *, result: str, report: str, claim: str | None = None) -> bool:
    """End a running run with its result. Return False if it no longer runs, or another auditor has claimed it since."""
    return await _end(database, run_id, "done", {"result": result, "report": report}, claim=claim)


async def replace_result(database: Database, run_id: str, *, result: str, report: str) -> None:
    """Replace the result of a finished run, as a joint score with another run needs."""
    finished = sa.update(runs).where(runs.c.id == run_id, runs.c.status == "done")
    await database.change_rows(finished.values(result=result, report=report, heartbeat_at=time.time()))  # see exports


async def fail(database: Database, run_id: str, error: str, *, claim: str | None = None) -> bool:
    """End a running run with a single-line error. Return as `finish`."""
    return await _end(database, run_id, "failed", {"error": " ".join(error.replace("\x00", "").split())}, claim=claim)


async def release(database: Database, run_id: str, *, claim: str | None = None) -> None:
    """Queue a running run again, for another auditor, because this auditor stops."""
    mine = sa.update(runs).where(*_mine(run_id, claim), runs.c.status == "running")
    async with database.begin() as connection:
        if (await connection.execute(mine.values(status="queued", heartbeat_at=None))).rowcount:
            await _end_sharing(connection, run_id)


async def cancel(database: Database, run_id: str) -> None:
    """End a queued or running run and keep its replies. Raises NotFoundError or ConflictError."""
    if not await _end(database, run_id, "cancelled", {}, within=("queued", "running")):
        await _refuse(database, run_id, "cancelled", "only a queued or running run can be")


async def resume(database: Database, run_id: str, *, max_queued: int | None = None) -> None:
    """Queue a failed or cancelled run again, for items without a reply. Raises as `cancel` and `create_all`."""
    change = sa.update(runs).where(runs.c.id == run_id, runs.c.status.in_(["failed", "cancelled"]))
    async with database.begin() as connection:
        started_at = runs.c.started_at + (time.time() - runs.c.finished_at)
        change = change.values(status="queued", started_at=started_at, error=None, finished_at=None, heartbeat_at=None)
        resumed = (await connection.execute(change)).rowcount
        if resumed:
            await _end_sharing(connection, run_id)
        if resumed and max_queued is not None:
            await _require_room(connection, max_queued, added=1)
    if not resumed:
        await _refuse(database, run_id, "resumed", "only a failed or cancelled run can be")


async def _end(
    database: Database,
    run_id: str,
    status: Status,
    values: dict[str, Any],
    within: Sequence[Status] = ("running",),
    claim: str | None = None,
) -> bool:
    change = sa.update(runs).where(*_mine(run_id, claim), runs.c.status.in_(within))
    change = change.values(values | {"status": status, "finished_at": time.time()})
    async with database.begin() as connection:
        row = (await connection.execute(change.returning(runs.c.suite, runs.c.model))).first()
        if row is not None:
            if status != "cancelled":  # replies in flight may still be stored then
                await _end_sharing(connection, run_id)
            await counters.add(connection, {("audit_runs", (row.suite, row.model, status)): 1})
    return row is not None


async def _end_sharing(connection: AsyncConnection, run_id: str) -> None:
    """Delete the ranges of the run: auditors that ask one can store no more replies of it."""
    await connection.execute(sa.delete(run_ranges).where(run_ranges.c.run_id == run_id))


def _mine(run_id: str, claim: str | None) -> list[sa.ColumnElement[bool]]:
    return [runs.c.id == run_id] + ([] if claim is None else [runs.c.claim == claim])


async def _refuse(database: Database, run_id: str, action: str, rule: str) -> None:
    run = await get(database, run_id)
    if run is None:
        raise NotFoundError(f'no audit has the id "{run_id}": GET /audits lists them')
    raise ConflictError(f"audit {run_id} is {run.status} and cannot be {action}: {rule}")


async def _require_room(connection: AsyncConnection, max_queued: int, *, added: int) -> None:
    """Raise BusyError, which rolls back the transaction, if too many runs wait. Concurrent calls run in turn."""
    await exclusively(connection, _QUEUE_LOCK)
    query = sa.select(sa.func.count()).where(runs.c.status == "queued")
    waiting = int((await connection.execute(query)).scalar() or 0) - added
    if waiting + added > max_queued:
        raise BusyError(
            f"{waiting} suite runs wait and {added} would be added; audits.max_queued is {max_queued}: "
            "cancel some or wait"
        )


def _is_claimable(now: sa.ColumnElement[float]) -> sa.ColumnElement[bool]:
    # A heartbeat in the future was written before the clock was set back.
    is_silent = (runs.c.heartbeat_at < now - STALE_SECONDS) | (runs.c.heartbeat_at > now + STALE_SECONDS)
    is_abandoned = (runs.c.status == "running") & is_silent
    return (runs.c.status == "queued") | is_abandoned


def _run(row: sa.Row[Any]) -> Run:
    fields = dict(row._mapping)
    return Run(**fields | {"options": msgspec.json.decode(fields["options"])})
