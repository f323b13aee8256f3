"""Suite runs asked for through the store, as POST /audits does, and waiting for what becomes of them."""

import uuid
from typing import Any

from gateway.auditor import maintenance
from gateway.jobs import open_queue
from gateway.store import run_responses, runs
from gateway.store.database import Database
from tests.support.integration.auditing import until
from tests.support.store.made import create_run

OPTIONS = {"suite": "stereoset", "model": "simulated", "mode": "sample", "protocol": "corrected", "data": "embedded"}


async def ask_for_run(database: Database, **options: Any) -> str:
    """Queues a run as POST /audits does."""
    run_id = uuid.uuid4().hex
    await create_run(database, run_id, OPTIONS | options)
    await defer_run(database, run_id)
    return run_id


async def defer_run(database: Database, run_id: str) -> None:
    """Queues the job of a run."""
    queue = open_queue(database)
    await queue.defer(maintenance.RUN_TASK, {"run_id": run_id}, lock=run_id)
    await queue.close()


async def kept_replies(database: Database, run_id: str) -> list[str]:
    """JSON lines of what a run has so far."""
    return [body async for page in run_responses.pages(database, run_id) for body in page]


async def await_status(database: Database, run_id: str, *wanted: str, done: int = 0) -> runs.Run:
    """Waits until a run has one of these states and at least so many replies."""
    found: list[runs.Run] = []

    async def reached() -> bool:
        run = await runs.get(database, run_id)
        assert run is not None
        found[:] = [run]
        return run.status in wanted and run.progress_done >= done

    await until(reached)
    return found[0]
