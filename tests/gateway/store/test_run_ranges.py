"""Ranges of a suite run on PostgreSQL: whose they are, who may keep replies, what an earlier version ends."""

import asyncio
import time

import pytest
import sqlalchemy as sa

from benchmarks.run.share import Asked, Range
from gateway.store import counters, run_ranges, runs
from gateway.store.database import Database
from gateway.store.run_responses import Response
from gateway.store.tables import runs as runs_table
from tests.support.integration.running_suites import kept_replies
from tests.support.store.made import create_run

pytestmark = pytest.mark.stores("postgresql")

OPTIONS = {"suite": "bbq", "model": "m", "mode": "sample", "protocol": "corrected"}
FIRST, SECOND = Range(0, 2), Range(2, 5)


async def offered(database: Database) -> runs.Run:
    """A run that was just claimed, with two ranges that nobody asks."""
    await create_run(database, "r", OPTIONS)
    run = await runs.claim(database, "r")
    assert run is not None
    assert await run_ranges.offer(database, run, [FIRST, SECOND], "{}")
    return run


async def keep(database: Database, run: runs.Run, owner: str, part: Range, *item_ids: str, whole: bool = False) -> bool:
    """Whether replies to these items are kept."""
    responses: list[Response] = [(one, 0, "ok", f'"{owner}"') for one in item_ids]
    kept = await run_ranges.keep(database, run, owner, [Asked(part, (), whole)], [responses])
    return part.first in kept


async def test_a_range_has_one_owner(database: Database) -> None:
    """Of many that reach for ranges at once each gets one of its own, and the others none."""
    run = await offered(database)
    taken = await asyncio.gather(*(run_ranges.take(database, run, str(number)) for number in range(6)))
    assert sorted(one for one in taken if one is not None) == [FIRST, SECOND]


async def test_a_silent_owner_loses_its_range(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its lease is over another may take it, and what the first one sends later is not kept."""
    run = await offered(database)
    monkeypatch.setattr(run_ranges, "LEASE_SECONDS", 0.3)
    assert await run_ranges.take(database, run, "dead") == FIRST
    assert await keep(database, run, "dead", FIRST, "a")
    assert await run_ranges.renew(database, "r", "dead") == {0}
    monkeypatch.setattr(run_ranges, "LEASE_SECONDS", 60)
    assert await run_ranges.take(database, run, "next") == SECOND
    await asyncio.sleep(0.5)
    assert await run_ranges.take(database, run, "next") == FIRST
    assert not await keep(database, run, "dead", FIRST, "a", "b")
    assert await run_ranges.renew(database, "r", "dead") == set()
    assert await keep(database, run, "next", FIRST, "b", whole=True)
    assert await kept_replies(database, "r") == ['"dead"', '"next"']
    assert (await counters.read(database))["audit_requests", ("bbq", "m", "ok")] == 2
    assert await run_ranges.asked(database, "r", 9) == [FIRST]


@pytest.mark.parametrize("end", ["claimed again", "released", "failed", "resumed", "old auditor"])
async def test_nothing_is_kept_of_a_run_that_is_anothers(
    database: Database, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Whoever has the run by now, also an auditor that knows of no ranges: replies to the ranges of before are lost."""
    run = await offered(database)
    await run_ranges.take(database, run, "b")
    match end:
        case "claimed again":
            monkeypatch.setattr(runs, "STALE_SECONDS", 0.0)
            assert await runs.claim(database, "r") is not None
        case "released":
            await runs.release(database, "r", claim=run.claim)
        case "failed":
            await runs.fail(database, "r", "why", claim=run.claim)
        case "resumed":
            await runs.cancel(database, "r")
            assert await keep(database, run, "b", FIRST, "in flight")
            await runs.resume(database, "r")
        case _:  # as version 0017 claims a run
            values = {"status": "running", "heartbeat_at": time.time(), "error": None}
            await database.change_rows(sa.update(runs_table).where(runs_table.c.id == "r").values(values))
    assert await run_ranges.terms(database, run) is None
    assert await run_ranges.waiting(database) == []
    assert await run_ranges.take(database, run, "c") is None
    assert not await keep(database, run, "b", FIRST, "a")
    assert len(await kept_replies(database, "r")) == (end == "resumed")


async def test_only_the_newest_claim_ends_a_run(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """An auditor that was thought dead neither finishes nor keeps alive what another has claimed."""
    run = await offered(database)
    monkeypatch.setattr(runs, "STALE_SECONDS", 0.0)
    await asyncio.sleep(0.02)
    second = await runs.claim(database, "r")
    assert second is not None
    assert await runs.heartbeat(database, "r", 1, 2, claim=run.claim) is None
    assert not await runs.finish(database, "r", result="{}", report="", claim=run.claim)
    assert not await run_ranges.offer(database, run, [FIRST], "{}")
    assert await runs.finish(database, "r", result="{}", report="", claim=second.claim)
