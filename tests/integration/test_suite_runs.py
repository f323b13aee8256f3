"""Suite runs by a real auditor against a simulated model: finished, cancelled, resumed, left to the next, refused."""

import json
from functools import partial

import msgspec
import pytest

from benchmarks.simulator.loading import load
from benchmarks.simulator.profile import Latency
from gateway.store import runs
from gateway.store.database import Database
from tests.support.integration.auditing import auditing, config_for, exposes, labelled, metrics, until
from tests.support.integration.running_suites import ask_for_run, await_status, defer_run, kept_replies
from tests.support.long import POSTGRES_LATER
from tests.support.simulated import running_simulator


@pytest.mark.stores("sqlite")
async def test_suite_run_gives_a_result_and_metrics(database: Database) -> None:
    """A run asked for through the store ends with result, report, complete counts, and estimates in the metrics."""
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream)) as url:
        run = await await_status(database, await ask_for_run(database), "done", "failed")
        assert run.status == "done", run.error
        assert run.finished_at is not None
        place = {"suite": "stereoset", "model": "simulated"}
        # The snapshot is made of several reads, so the run may be counted before it is seen as done.
        await until(partial(exposes, url, labelled("audit_runs_total", outcome="done", **place), 1))
        await until(partial(exposes, url, labelled("audit_last_success_timestamp_seconds", **place), run.finished_at))
        samples = await metrics(url)
    result = json.loads(run.result or "")
    replies = sum(count for name, count in result["counts"].items() if name != "items")
    assert run.progress_done == run.progress_total == replies == len(await kept_replies(database, run.id))
    assert (run.report or "").startswith("<!")
    assert samples[labelled("audit_progress_ratio", **place)] == 1
    assert sum(n for (name, _), n in samples.items() if name == "biasgate_audit_requests_total") == replies
    shown = {dict(labels)["metric"] for name, labels in samples if name == "biasgate_audit_estimate"}
    assert shown >= {"lms", "ss", "icat"}


@POSTGRES_LATER
async def test_run_of_a_stopped_auditor_is_finished_by_the_next(database: Database) -> None:
    """Stopping the auditor in the middle of a run queues it again; the next one completes it."""
    slow = msgspec.structs.replace(load("default"), latency=Latency(first_token_seconds=0.15))
    async with running_simulator(slow) as upstream:
        config = config_for(database.url, upstream)
        async with auditing(config):
            run_id = await ask_for_run(database, concurrency=2)
            await await_status(database, run_id, "running", done=3)
        stopped = await runs.get(database, run_id)
        assert stopped is not None
        assert stopped.status == "queued"
        await defer_run(database, run_id)
        async with auditing(config):
            assert (await await_status(database, run_id, "done", "failed")).status == "done"
