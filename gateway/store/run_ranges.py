"""Ranges of a suite run that several auditors ask at once (PostgreSQL). The auditor that claimed the run offers them,
asks like the others, takes over what a dead one had, and collects. A lease that ended, and was taken, ends ownership.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from benchmarks.run.share import Asked, Range
from gateway.store import run_responses
from gateway.store.connections import clock, insert_rows
from gateway.store.database import Database
from gateway.store.run_responses import Response
from gateway.store.runs import Run
from gateway.store.tables import run_ranges, runs

LEASE_SECONDS = 15.0
"""Seconds without a sign of life after which an owner has lost its range to the next that comes."""

_ranges = run_ranges.c


async def offer(database: Database, run: Run, ranges: Sequence[Range], terms: str) -> bool:
    """Lets other auditors ask these ranges, on these terms. False when another claim of the run counts by now."""
    mine = sa.update(runs).where(runs.c.id == run.id, runs.c.claim == run.claim, runs.c.status == "running")
    async with database.begin() as connection:
        if not (await connection.execute(mine.values(shared=terms))).rowcount:
            return False
        rows = [{"run_id": run.id, "first": range_.first, "past": range_.past} for range_ in ranges]
        await insert_rows(connection, run_ranges, rows)
    return True


async def terms(database: Database, run: Run) -> str | None:
    """Return the terms on which another auditor may ask a range of this run now; None when there is none to ask."""
    async with database.read() as connection:
        query = sa.select(runs.c.shared).where(*_is_led(run), _has_free(connection))
        terms_text: str | None = (await connection.execute(query)).scalar()
        return terms_text


async def waiting(database: Database) -> list[str]:
    """Ids of runs of which someone could ask a range now."""
    async with database.read() as connection:
        query = sa.select(runs.c.id).where(runs.c.status == "running", _IS_LED, _has_free(connection))
        return list((await connection.execute(query.order_by(runs.c.created_at))).scalars())


async def take(database: Database, run: Run, owner: str, *, gives_way: bool = False) -> Range | None:
    """The first free range, now `owner`'s; None without any. `gives_way`: take none while a run is queued."""
    async with database.begin(waits_for_disk=False) as connection:
        now = clock(connection)
        free = sa.select(_ranges.first).where(_ranges.run_id == run.id, _is_free(now))
        free = free.order_by(_ranges.first).limit(1).with_for_update(skip_locked=True)
        is_led = sa.select(sa.literal(1)).where(*_is_led(run)).exists()
        change = sa.update(run_ranges).where(_ranges.run_id == run.id, _ranges.first == free.scalar_subquery(), is_led)
        if gives_way:
            change = change.where(~sa.select(sa.literal(1)).where(runs.c.status == "queued").exists())
        update = change.values(owner=owner, lease_until=now + LEASE_SECONDS).returning(_ranges.first, _ranges.past)
        row = (await connection.execute(update)).first()
    return None if row is None else Range(row.first, row.past)


async def renew(database: Database, run_id: str, owner: str) -> set[int]:
    """A sign of life. Returns where the ranges begin that are still the owner's."""
    async with database.begin(waits_for_disk=False) as connection:
        mine = sa.update(run_ranges).where(*_owned(run_id, owner))
        update = mine.values(lease_until=clock(connection) + LEASE_SECONDS).returning(_ranges.first)
        return set((await connection.execute(update)).scalars())


async def keep(
    database: Database, run: Run, owner: str, parts: Sequence[Asked], responses: Sequence[Sequence[Response]]
) -> set[int]:
    """Keep responses to ranges that are still the owner's; return where these begin."""
    firsts = [part.range.first for part in parts]
    async with database.begin(waits_for_disk=False) as connection:
        now = clock(connection)
        is_led = sa.select(sa.literal(1)).where(*_is_led(run, "running", "cancelled")).exists()
        mine = sa.update(run_ranges).where(*_owned(run.id, owner), _ranges.first.in_(firsts), is_led)
        owned = set(
            (await connection.execute(mine.values(lease_until=now + LEASE_SECONDS).returning(_ranges.first))).scalars()
        )
        rows = [row for part, rows in zip(parts, responses, strict=True) if part.range.first in owned for row in rows]
        await run_responses.add(connection, run, rows)
        whole = [part.range.first for part in parts if part.is_whole and part.range.first in owned]
        if whole:
            done = (_ranges.run_id == run.id, _ranges.first.in_(whole))
            if owner == run.claim:
                await connection.execute(sa.delete(run_ranges).where(*done))
            else:
                await connection.execute(sa.update(run_ranges).where(*done).values(is_asked=True))
    return owned


async def give_back(database: Database, run_id: str, owner: str) -> None:
    """Whoever comes next may take what the owner has not asked to its end."""
    async with database.begin(waits_for_disk=False) as connection:
        mine = sa.update(run_ranges).where(*_owned(run_id, owner))
        await connection.execute(mine.values(owner=None, lease_until=None))


async def asked(database: Database, run_id: str, most: int) -> list[Range]:
    """Ranges that others have asked to the end and no one has collected, so many at most."""
    query = sa.select(_ranges.first, _ranges.past).where(_ranges.run_id == run_id, _ranges.is_asked)
    rows = await database.fetch_rows(query.order_by(_ranges.first).limit(most))
    return [Range(row.first, row.past) for row in rows]


async def collected(database: Database, run: Run, ranges: Sequence[Range]) -> None:
    """The run's own auditor has read what was asked in these ranges."""
    firsts = [range_.first for range_ in ranges]
    async with database.begin(waits_for_disk=False) as connection:
        await connection.execute(
            sa.delete(run_ranges).where(_ranges.run_id == run.id, _ranges.first.in_(firsts), _ranges.is_asked)
        )


async def left(database: Database, run_id: str) -> tuple[bool, bool]:
    """Return whether a range is left that is not asked to its end, and whether any is left at all."""
    query = sa.select(sa.func.count().filter(~_ranges.is_asked), sa.func.count()).where(_ranges.run_id == run_id)
    [(n_open, all_of_them)] = await database.fetch_rows(query)
    return bool(n_open), bool(all_of_them)


def _owned(run_id: str, owner: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _ranges.run_id == run_id, _ranges.owner == owner, ~_ranges.is_asked


def _is_free(now: sa.ColumnElement[float]) -> sa.ColumnElement[bool]:
    # A lease that ends later than any that is given now was given before the database's clock was set back.
    is_over = (_ranges.lease_until < now) | (_ranges.lease_until > now + 2 * LEASE_SECONDS)
    return ~_ranges.is_asked & (_ranges.owner.is_(None) | is_over)


def _has_free(connection: AsyncConnection) -> sa.Exists:
    return sa.select(sa.literal(1)).where(_ranges.run_id == runs.c.id, _is_free(clock(connection))).exists()


_IS_LED = runs.c.heartbeat_at == runs.c.led_at
"""Whoever has the run knows of ranges: an auditor of an earlier version moves only the former."""


def _is_led(run: Run, *within: str) -> tuple[sa.ColumnElement[bool], ...]:
    """The claim still counts, whatever auditor has it, of which the ranges are."""
    return runs.c.id == run.id, runs.c.claim == run.claim, runs.c.status.in_(within or ["running"]), _IS_LED
