"""Suite runs in the store: who may claim them, how they end, what survives."""

import asyncio
import time
from typing import Any

import pytest

from gateway.errors import BusyError, ConflictError, NotFoundError
from gateway.store import counters, run_responses, runs
from gateway.store.database import Database
from tests.support.integration.running_suites import kept_replies
from tests.support.store.made import create_run, delete_run

pytestmark = pytest.mark.stores("sqlite")

OPTIONS = {"suite": "stereoset", "model": "m", "mode": "sample", "protocol": "corrected", "limit": 3}


async def running(database: Database, run_id: str = "r", **options: Any) -> runs.Run:
    """A run that has just been claimed."""
    await create_run(database, run_id, OPTIONS | options)
    claimed = await runs.claim(database, run_id)
    assert claimed is not None
    return claimed


@pytest.mark.stores("sqlite", "postgresql")
async def test_the_queue_is_counted_by_one_at_a_time(database: Database) -> None:
    """Of runs queued at the same time only those find room that there is room for; a set is queued whole or not."""
    sets = [{f"{number}-{part}": OPTIONS for part in "ab"} for number in range(6)]
    came = await asyncio.gather(*(runs.create_all(database, one, max_queued=5) for one in sets), return_exceptions=True)
    refused = [one for one in came if isinstance(one, BusyError)]
    queued = await runs.list_runs(database, status="queued")

    assert len(refused) == 4
    assert len(queued) == 4
    assert {run.id[:-1] + "a" for run in queued} | {run.id[:-1] + "b" for run in queued} == {run.id for run in queued}
    assert "4 suite runs wait and 2 would be added; audits.max_queued is 5" in str(refused[-1])


@pytest.mark.stores("sqlite", "postgresql")
async def test_one_claim_of_many_succeeds(database: Database) -> None:
    """Auditors that reach for the same run at once do not run it twice."""
    await create_run(database, "r", OPTIONS)
    claims = await asyncio.gather(*(runs.claim(database, "r") for _ in range(6)))
    assert sum(claim is not None for claim in claims) == 1


@pytest.mark.stores("sqlite", "postgresql")
async def test_run_of_a_dead_auditor_can_be_claimed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running run is taken over only when its heartbeat is too old."""
    first = await running(database)
    assert await runs.claim(database, "r") is None
    assert await runs.claimable(database, created_before=time.time()) == []
    monkeypatch.setattr(runs, "STALE_SECONDS", 0.0)
    await asyncio.sleep(0.02)
    assert await runs.claimable(database, created_before=time.time()) == ["r"]
    second = await runs.claim(database, "r")
    assert second is not None
    assert second.started_at == first.started_at


@pytest.mark.stores("sqlite", "postgresql")
async def test_later_reply_replaces_the_earlier(database: Database) -> None:
    """Replies are kept by item and sample, and every request is counted by status."""
    run = await running(database)
    await run_responses.append(database, run, [("b", 0, "error", '{"n":1}'), ("a", 1, "ok", '{"n":2}')])
    await run_responses.append(database, run, [("b", 0, "ok", '{"n":3}'), ("a", 0, "ok", '{"n":4}')])
    assert await kept_replies(database, "r") == ['{"n":4}', '{"n":2}', '{"n":3}']
    found = await counters.read(database)
    assert found["audit_requests", ("stereoset", "m", "ok")] == 3
    assert found["audit_requests", ("stereoset", "m", "error")] == 1


async def test_finished_run_has_its_result(database: Database) -> None:
    """Finishing stores result and report once, and counts the run; lists leave the long texts out."""
    await running(database)
    assert await runs.heartbeat(database, "r", 2, 3) == "running"
    assert await runs.finish(database, "r", result="{}", report="<html>")
    assert not await runs.finish(database, "r", result="other", report="other")
    run = await runs.get(database, "r")
    assert run is not None
    assert (run.status, run.result, run.report, run.progress_done, run.progress_total) == ("done", "{}", "<html>", 2, 3)
    assert run.finished_at is not None
    [listed] = await runs.list_runs(database)
    assert (listed.result, listed.report) == (None, None)
    assert (await counters.read(database))["audit_runs", ("stereoset", "m", "done")] == 1


async def test_heartbeat_tells_of_a_cancellation(database: Database) -> None:
    """A run that was cancelled elsewhere learns it with its next sign of life, and cannot finish any more."""
    await running(database)
    await runs.cancel(database, "r")
    assert await runs.heartbeat(database, "r", 1, 3) == "cancelled"
    assert not await runs.finish(database, "r", result="{}", report="")
    await runs.release(database, "r")
    run = await runs.get(database, "r")
    assert run is not None
    assert run.status == "cancelled"
    assert await runs.heartbeat(database, "absent", 1, 3) is None


async def test_time_that_a_run_stood_still_is_not_of_its_rate(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of ten seconds that was cancelled for an hour has run for ten seconds when it is resumed."""
    began = time.time()

    def at(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: began + seconds)

    at(0.0)
    await running(database)
    at(10.0)
    await runs.cancel(database, "r")
    at(3610.0)
    await runs.resume(database, "r")
    claimed = await runs.claim(database, "r")

    assert claimed is not None
    assert claimed.started_at == pytest.approx(began + 3600.0)


async def test_resumed_run_keeps_its_replies(database: Database) -> None:
    """A cancelled or failed run is queued again with what it has."""
    run = await running(database)
    await run_responses.append(database, run, [("a", 0, "ok", "{}")])
    await runs.fail(database, "r", "no server")
    await runs.resume(database, "r")
    again = await runs.claim(database, "r")
    assert again is not None
    assert (again.error, again.finished_at) == (None, None)
    assert await kept_replies(database, "r") == ["{}"]


async def test_impossible_actions_name_the_state(database: Database) -> None:
    """What the state does not allow is refused with the state; what does not exist is not found."""
    await running(database)
    with pytest.raises(ConflictError, match="audit r is running and cannot be resumed"):
        await runs.resume(database, "r")
    await runs.finish(database, "r", result="{}", report="")
    with pytest.raises(ConflictError, match="audit r is done and cannot be cancelled"):
        await runs.cancel(database, "r")
    for action in (runs.cancel, runs.resume):
        with pytest.raises(NotFoundError, match='no audit has the id "absent"'):
            await action(database, "absent")


async def test_deleting_takes_the_replies_along(database: Database) -> None:
    """A deleted run leaves no replies."""
    run = await running(database)
    await run_responses.append(database, run, [("a", 0, "ok", "{}")])
    await runs.cancel(database, "r")
    await delete_run(database, "r")
    assert await runs.get(database, "r") is None
    assert await kept_replies(database, "r") == []


@pytest.mark.stores("sqlite", "postgresql")
async def test_newest_finished_run_of_each_kind(database: Database) -> None:
    """Of several finished runs with the same options the newest counts; unfinished ones do not."""
    for run_id, model in (("a", "m"), ("b", "m"), ("c", "n"), ("d", "m")):
        await running(database, run_id, model=model)
    await running(database, "e", protocol="paper")
    await running(database, "f", mitigation="abstract")
    for run_id in ("b", "a", "c", "e", "f"):
        await runs.finish(database, run_id, result="{}", report="")
        await asyncio.sleep(0.005)
    assert sorted(run.id for run in await runs.newest_done(database)) == ["a", "c", "e", "f"]
