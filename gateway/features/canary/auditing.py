"""The canary's part in the auditor: runs comparisons, delivers verdicts, exports the newest ones."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import get_args

from prometheus_client.core import Metric

from gateway.auditor.part import AuditorContext, AuditorPart, Job, Periodic, gauge, put
from gateway.features.canary import store
from gateway.features.canary.comparison import Verdict
from gateway.features.canary.runs import CanaryRuns
from gateway.features.canary.store import CANARY_TASK
from gateway.store.database import Database

CONCURRENCY = 1
WEBHOOK_SECONDS = 1.0
SWEEP_AFTER_SECONDS = 10.0
"""Younger canaries are left to the job that was queued with them."""
EXPORTED, EXPORTED_SECONDS = 10, 24 * 3600.0
"""Canaries that have series: at most so many, for so long after their verdict."""
LABELS = ("stable", "canary")
PAIRS = "Pairs of the newest canary (docs/canary.md#metrics), of ten at most, for a day after its verdict."


class CanaryPart(AuditorPart):
    """Runs the canaries of a store."""

    def __init__(self, context: AuditorContext) -> None:
        self._database = context.database
        self._queue = context.queue
        self._runs = CanaryRuns(context)

    def jobs(self) -> Mapping[str, Job]:
        return {CANARY_TASK: Job(self._runs, CONCURRENCY)}

    def periodic(self) -> Sequence[Periodic]:
        return [Periodic(WEBHOOK_SECONDS, self._runs.webhook)]

    async def sweep(self) -> None:
        for canary_id in await store.claimable(self._database, created_before=time.time() - SWEEP_AFTER_SECONDS):
            await self._queue.defer(CANARY_TASK, {"canary_id": canary_id}, lock=canary_id)

    async def families(self) -> Sequence[Metric]:
        return await read_families(self._database)

    async def aclose(self) -> None:
        await self._runs.aclose()


async def read_families(database: Database) -> Sequence[Metric]:
    """Read the metric families of the newest canary of each pair of models. Raises StoreError."""
    newest = await store.newest(database, finished_after=time.time() - EXPORTED_SECONDS, limit=EXPORTED)
    pairs = gauge("canary_pairs", PAIRS, LABELS)
    failed = gauge("canary_failed_pairs", "Pairs in which a side failed.", (*LABELS, "side"))
    evidence = gauge("canary_log_evidence", "Log of the mean e-value over all gaps: none has grown.", LABELS)
    threshold = gauge("canary_log_threshold", "log(1 / alpha), at which the canary is rolled back.", LABELS)
    verdict = gauge("canary_verdict", "1 for the verdict that stands.", (*LABELS, "verdict"))
    by_models = {(canary.request.stable.model, canary.request.canary.model): canary for canary in reversed(newest)}
    for models, canary in sorted(by_models.items()):
        findings = canary.findings
        put(pairs, models, float(findings.n_pairs if findings else 0))
        for side in LABELS:
            failures = findings.failed.items() if findings else ()
            put(failed, (*models, side), float(sum(n for why, n in failures if why.startswith(f"{side}: "))))
        put(evidence, models, math.log(findings.e_value) if findings else 0.0)
        put(threshold, models, -math.log(canary.request.alpha))
        for value in get_args(Verdict):
            put(verdict, (*models, value), float(value == canary.verdict))
    return [pairs, failed, evidence, threshold, verdict]
