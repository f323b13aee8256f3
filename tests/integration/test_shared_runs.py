"""One suite run over several real auditor processes on PostgreSQL: as if by one, whoever dies and whenever it ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.store import counters, runs
from gateway.store.database import Database
from gateway.store.tables import run_ranges
from tests.support.integration.auditing import auditing, config_for, until
from tests.support.integration.instant_model import InstantModel
from tests.support.integration.running_suites import ask_for_run, await_status, defer_run, kept_replies
from tests.support.integration.serving import Command, command

SAMPLES = 8
REPLIES = 100 * SAMPLES
"""To the built-in items of BBQ."""
OPTIONS = {"suite": "bbq", "model": "m", "samples": SAMPLES}
TIMES = ("started", "finished", "seconds", "base_url_host", "addresses")

pytestmark = [pytest.mark.long, pytest.mark.stores("postgresql")]


@asynccontextmanager
async def auditor(database: Database, upstream: str, directory: Path, name: str) -> AsyncIterator[Command]:
    """An auditor process that is ready."""
    path = directory / f"{name}.toml"
    path.write_text(
        f'[store]\nurl = "{database.url}"\n[server]\nauditor_metrics_port = 0\n'
        f'[[upstreams]]\nname = "up"\nbase_url = "{upstream}"\nmodels = ["m"]\n'
        '[auditors.judge]\nmodel = "m"\n[auditors.embedding]\nenabled = false\n[auditors.refusal]\nenabled = false\n'
    )
    async with command("auditor", "--config", str(path)) as running:
        await running.line("ready")
        yield running


async def _owners(database: Database) -> set[str]:
    """Return the auditors that ask at this moment."""
    async with database.read() as connection:
        rows = await connection.execute(sa.select(run_ranges.c.owner).where(~run_ranges.c.is_asked))
        return {owner for owner in rows.scalars() if owner is not None}


async def _n_ask(database: Database, n: int) -> bool:
    return len(await _owners(database)) == n


async def _end_leases(database: Database, owners: set[str]) -> None:
    """Let the time of these auditors be over, as if they had been silent for LEASE_SECONDS."""
    async with database.begin() as connection:
        ended = sa.update(run_ranges).where(run_ranges.c.owner.in_(owners)).values(lease_until=0.0)
        assert (await connection.execute(ended)).rowcount


def without_times(result: str | None) -> dict[str, Any]:
    """result.json but for when it was and how long it took."""
    found: dict[str, Any] = json.loads(result or "")
    for name in TIMES:
        del found["provenance"][name]
    return found


async def test_killed_auditor_changes_nothing(database: Database, tmp_path: Path) -> None:
    """Three auditors, of which one is killed amid its range, give the result of one alone: each reply counts once."""
    alone = InstantModel()
    async with alone.serving() as upstream, auditing(config_for(database.url, upstream)):
        single = await await_status(database, await ask_for_run(database, **OPTIONS), "done", "failed")
    assert single.status == "done", single.error
    counted = sum((await counters.read(database)).values())
    model = InstantModel(seconds=0.3)
    model.answers.clear()
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(model.serving())
        await stack.enter_async_context(auditor(database, upstream, tmp_path, "first"))
        run_id = await ask_for_run(database, **OPTIONS)
        await until(partial(_n_ask, database, 1))
        first = await _owners(database)
        doomed = await stack.enter_async_context(auditor(database, upstream, tmp_path, "doomed"))
        await until(partial(_n_ask, database, 2))
        dead = await _owners(database) - first
        await stack.enter_async_context(auditor(database, upstream, tmp_path, "third"))
        await until(partial(_n_ask, database, 3))
        model.answers.set()
        await await_status(database, run_id, "running", done=1)
        doomed.process.kill()
        await doomed.exit_code()
        await _end_leases(database, dead)
        run = await await_status(database, run_id, "done", "failed")
    assert run.status == "done", run.error
    assert run.progress_done == run.progress_total == REPLIES
    assert without_times((await runs.get(database, run_id) or run).result) == without_times(single.result)
    assert len(await kept_replies(database, run_id)) == REPLIES
    assert sum((await counters.read(database)).values()) == 2 * counted
    assert set(model.asked) == set(alone.asked)
    assert REPLIES < sum(model.asked.values()) <= REPLIES + 2 * 16  # what the dead auditor had in flight or in hand


async def test_cancelled_run_ends_everywhere(database: Database, tmp_path: Path) -> None:
    """Cancelled, a run is asked by nobody within a second; resumed, it asks what is left and is done."""
    model = InstantModel(seconds=0.3)
    model.answers.clear()
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(model.serving())
        for name in ("first", "second"):
            await stack.enter_async_context(auditor(database, upstream, tmp_path, name))
        run_id = await ask_for_run(database, **OPTIONS)
        await until(partial(_n_ask, database, 2))
        model.answers.set()
        await await_status(database, run_id, "running", done=1)
        await runs.cancel(database, run_id)
        clock = asyncio.get_running_loop().time
        cancelled_at = clock()
        await asyncio.sleep(2)
        assert model.last_at - cancelled_at < 1
        kept = len(await kept_replies(database, run_id))
        asked_before = sum(model.asked.values())
        assert asked_before - 2 * 16 <= kept <= asked_before  # in flight; nearly all of it comes in time
        model.seconds = 0.0
        await runs.resume(database, run_id)
        await defer_run(database, run_id)
        run = await await_status(database, run_id, "done", "failed")
    assert run.status == "done", run.error
    assert 0 < kept < REPLIES == len(await kept_replies(database, run_id))
    assert sum(model.asked.values()) == REPLIES + asked_before - kept
    async with database.read() as connection:
        assert (await connection.execute(sa.select(sa.func.count()).select_from(run_ranges))).scalar() == 0
