"""Audits give way to live requests that wait at their server: a real auditor, a simulated server with few slots."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx
import msgspec

from benchmarks.simulator.loading import load
from benchmarks.simulator.profile import Latency
from gateway.auditor import maintenance
from gateway.jobs import open_queue
from gateway.store import ledger, runs
from gateway.store.database import Database
from tests.support.integration.auditing import auditing, config_for, labelled, metrics, sample, until
from tests.support.integration.running_suites import ask_for_run, await_status, defer_run, kept_replies
from tests.support.long import POSTGRES_LATER
from tests.support.simulated import running_simulator

SLOTS = 4
PROFILE = msgspec.structs.replace(load("default"), latency=Latency(first_token_seconds=0.3, max_running=SLOTS))
ALLOWANCE = labelled("audit_allowance", upstream="u")
AUDITS = {"max_pause_seconds": 600.0, "max_kv_usage_ratio": 1.0}
"""No pause ends within a test; the simulated cache is full when its slots are."""


@asynccontextmanager
async def live_traffic(upstream: str, clients: int) -> AsyncIterator[None]:
    """So many clients that ask without a pause, at the priority of live requests, for as long as the block."""
    body = {"model": "simulated", "messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 4, "priority": 0}

    async def ask(http: httpx.AsyncClient) -> None:
        while True:
            (await http.post(f"{upstream}/v1/chat/completions", json=body)).raise_for_status()

    async with httpx.AsyncClient(timeout=30) as http:
        asking = [asyncio.create_task(ask(http)) for _ in range(clients)]
        try:
            yield
        finally:
            for one in asking:
                one.cancel()
            ended = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended


async def shows(url: str, allowed: int) -> bool:
    return (await metrics(url)).get(ALLOWANCE) == allowed


@POSTGRES_LATER
async def test_live_audits_wait_without_failing(database: Database) -> None:
    """While live requests queue none is sent, for longer than an audit may take; then all are, and none has failed."""
    auditors = {
        "judge": {"model": "simulated-judge", "timeout_seconds": 2.0, "max_concurrency": 6},
        "embedding": {"enabled": False},
    }
    async with running_simulator(PROFILE) as upstream:
        config = config_for(database.url, upstream, auditors=auditors, audits=AUDITS)
        async with auditing(config) as url:
            assert await shows(url, 6)
            async with live_traffic(upstream, 3 * SLOTS):
                await asyncio.sleep(0.5)
                await sample(database, 20)
                await until(partial(shows, url, 0))
                await asyncio.sleep(4.0)
                assert await ledger.counts(database) == {("other", "queued"): 20}
                assert await shows(url, 0)

            async def all_audited() -> bool:
                return await ledger.counts(database) == {("other", "audited"): 20}

            await until(all_audited)
            counted = await metrics(url)
    assert counted[labelled("exchanges_total", outcome="audited", auditor="judge")] <= 20
    assert labelled("judge_requests_total", outcome="timeout") not in counted


@POSTGRES_LATER
async def test_audits_never_stop_altogether(database: Database) -> None:
    """Under a queue that never ends, at a server without priorities, one audit after the other is made all the same."""
    async with running_simulator(PROFILE) as upstream:
        upstreams = [{"name": "u", "base_url": upstream, "priority_scheduling": False}]
        config = config_for(database.url, upstream, upstreams=upstreams, audits=AUDITS | {"max_pause_seconds": 0.5})
        async with auditing(config), live_traffic(upstream, 2 * SLOTS):
            await sample(database, 3)

            async def all_audited() -> bool:
                return await ledger.counts(database) == {("other", "audited"): 3}

            await until(all_audited)


@POSTGRES_LATER
async def test_a_run_gives_way_can_be_cancelled_and_ends(database: Database) -> None:
    """A run that is held back stops at once when it is cancelled; resumed, it asks the rest and misses nothing."""
    async with running_simulator(PROFILE) as upstream:
        config = config_for(database.url, upstream, audits=AUDITS | {"max_concurrency": 8})
        async with auditing(config) as url:
            async with live_traffic(upstream, 3 * SLOTS):
                run_id = await ask_for_run(database, limit=40)
                await await_status(database, run_id, "running")
                await until(partial(shows, url, 0))
                await runs.cancel(database, run_id)
                started = time.monotonic()
                await until(partial(shows_nobody, database))
                assert time.monotonic() - started < 10
            await runs.resume(database, run_id)
            await defer_run(database, run_id)
            run = await await_status(database, run_id, "done", "failed")
    assert run.status == "done", run.error
    replies = [msgspec.json.decode(body) for body in await kept_replies(database, run_id)]
    assert len(replies) == run.progress_total
    assert [one["error"] for one in replies if one["status"] == "error"] == []


async def shows_nobody(database: Database) -> bool:
    """Whether no job of a run runs or waits."""
    queue = open_queue(database)
    pending = await queue.pending(maintenance.RUN_TASK)
    await queue.close()
    return not pending
