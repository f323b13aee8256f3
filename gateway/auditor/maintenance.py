"""Periodic maintenance by the auditor: queues orphaned exchanges again, expires late ones, deletes old data."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from benchmarks.suites import registry
from gateway.auditor.clients import Counted
from gateway.config.schema import Config
from gateway.jobs import JobQueue
from gateway.sampling.writer.direct import AUDIT_TASK, IDS_PER_JOB
from gateway.store import catalogue, circuits, counters, exchanges, ingested, partitions, run_ranges, runs
from gateway.store.circuits import WaitingAudit
from gateway.store.database import Database

SERVED_TASK = "audit_by_servers"
"""Job for the live auditors that ask a server: `{"ids": [...]}`."""
RUN_TASK = "run_suite"
RANGE_PRIORITY = -1

SWEEP_AFTER_SECONDS = 10.0
"""Younger work is left to the job that was queued with it."""
SWEEP_EXCHANGES = 1024
MAX_WAIT_SECONDS = 24 * 3600.0
"""An exchange that no auditor took for so long has expired."""
GIVE_UP_AT_ONCE = 256
"""Audits that waited too long, in one pass."""


async def sweep(database: Database, queue: JobQueue, sweeps: Sequence[Callable[[], Awaitable[None]]] = ()) -> None:
    """Makes jobs of dead workers ready, and queues what waits without a job. `sweeps`: the same for features."""
    await queue.recover()
    before = time.time() - SWEEP_AFTER_SECONDS
    waiting = await exchanges.waiting(database, received_before=before, limit=SWEEP_EXCHANGES)
    covered = set[str]()
    for task in (AUDIT_TASK, SERVED_TASK) if waiting else ():
        covered.update(exchange_id for job in await queue.pending(task) for exchange_id in job["ids"])
    orphans = [exchange_id for exchange_id in waiting if exchange_id not in covered]
    for first in range(0, len(orphans), IDS_PER_JOB):
        ids = orphans[first : first + IDS_PER_JOB]
        await queue.defer(AUDIT_TASK, {"ids": ids}, lock=f"sweep-{ids[0]}")
    for run_id in await runs.claimable(database, created_before=before):
        await queue.defer(RUN_TASK, {"run_id": run_id}, lock=run_id)
    for run_id in await run_ranges.waiting(database):
        await call_to_range(queue, run_id)
    for sweep_feature in sweeps:
        await sweep_feature()


async def call_to_range(queue: JobQueue, run_id: str) -> None:
    """Lets one idle auditor take part in a run, after runs that wait; one of an earlier version leaves it alone."""
    await queue.defer(RUN_TASK, {"run_id": run_id}, lock=f"{run_id}-range", priority=RANGE_PRIORITY)


async def give_up(database: Database, config: Config, end: Callable[[WaitingAudit, float], Awaitable[None]]) -> None:
    """Ends audits whose exchanges waited for a sick server longer than `audits.max_wait_hours` or are kept at all."""
    hours = min(config.audits.max_wait_hours, config.store.retention_days * 24.0)
    before = time.time() - hours * 3600.0
    for audit in await circuits.read_overdue(database, received_before=before, limit=GIVE_UP_AT_ONCE):
        await end(audit, hours)


async def retire(database: Database, config: Config, stop: asyncio.Event) -> None:
    """Expire exchanges that waited too long and delete data past its days; heed a stop between two transactions."""
    now, keeps = time.time(), config.store.retention_days * 86400.0
    patience = min(MAX_WAIT_SECONDS, keeps)
    keep_text = config.store.keeps_text
    expire = partial(exchanges.expire, database, received_before=now - patience, keep_text=keep_text)
    delete = partial(exchanges.delete_old, database, received_before=now - keeps)
    for some in (expire, delete):
        while await some() == exchanges.IDS_AT_ONCE and not stop.is_set():
            pass
    await ingested.forget(database, before=now - keeps)
    await partitions.prepare(database)
    if (days := config.store.measurement_retention_days) is not None:
        await partitions.retire(database, recorded_before=now - days * 86400.0)


async def publish_catalogue(database: Database, suites: Callable[[], list[registry.SuiteInfo]]) -> None:
    """Tells the gateways which suites can be run here, and with which data."""
    suite_infos = await asyncio.to_thread(suites)  # reads files, some of them large
    await catalogue.publish(database, [msgspec.to_builtins(suite) for suite in suite_infos])


async def flush_counted(database: Database, counted: Counted) -> None:
    """Moves what was counted in memory to the store's counters; what cannot be moved stays counted."""
    moved = Counter(counted)
    if moved:
        await counters.increase(database, moved)
        counted -= moved
