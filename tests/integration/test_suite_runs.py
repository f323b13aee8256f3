"""Suite runs by a real auditor against a simulated model: finished, cancelled, resumed, left to the next, refused."""

import msgspec

from benchmarks.simulator.loading import load
from benchmarks.simulator.profile import Latency
from gateway.store import runs
from gateway.store.database import Database
from tests.support.integration.auditing import auditing, config_for
from tests.support.integration.running_suites import ask_for_run, await_status, defer_run
from tests.support.long import POSTGRES_LATER
from tests.support.simulated import running_simulator


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
