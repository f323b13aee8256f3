"""The coverage's part in the auditor: computes it when it is due, and exposes the newest computation."""

from collections.abc import Sequence

from prometheus_client.core import Metric

from gateway.auditor.part import AuditorContext, AuditorPart, Periodic, gauge, interval, put
from gateway.features.coverage import store
from gateway.features.coverage.passes import CoveragePasses
from gateway.store.database import Database

COVERAGE_SECONDS = 60.0
"""Seconds between checks whether a coverage computation is due."""
LABELS = ("suite", "metric", "model")


class CoveragePart(AuditorPart):
    """Computes what no suite covers of the traffic in one store."""

    def __init__(self, context: AuditorContext) -> None:
        self._database = context.database
        embedder, share = context.enabled_auditors.embedder, context.settings.max_weight_share
        self._passes = CoveragePasses(
            context.config, context.database, context.stop, embedder=embedder, max_weight_share=share
        )

    def periodic(self) -> Sequence[Periodic]:
        return [Periodic(COVERAGE_SECONDS, self._passes)]

    async def families(self) -> Sequence[Metric]:
        return await read_families(self._database)


async def read_families(database: Database) -> Sequence[Metric]:
    """Read the metric families of the newest computation; without samples before the first. Raises StoreError."""
    newest = await store.newest(database)
    words = "Share of identity traffic that resembles no suite's questions (docs/coverage.md)."
    unmatched = interval("coverage_unmatched_ratio", words, ())
    of_suite = gauge("coverage_suite_ratio", "Share that resembles questions of the suite.", ("suite",))
    chance = gauge("coverage_ordinary_ratio", "Share of prompts without an identity that resemble a question.", ())
    exchanges = gauge("coverage_exchanges", "Compared prompts that name an identity.", ())
    at = gauge("coverage_timestamp_seconds", "Time of the computation.", ())
    words = "Newest run's headline number weighted as the traffic; absent where not assessable."
    weighted = interval("coverage_reweighted", words, LABELS)
    if newest is not None:
        share = newest.unmatched
        for family, number in zip(unmatched, (share.value, share.lower, share.upper), strict=True):
            put(family, (), number)
        put(chance, (), newest.ordinary.value)
        put(exchanges, (), float(share.n))
        put(at, (), newest.at)
        for suite in newest.suites:
            put(of_suite, (suite.suite,), suite.resembling.value)
        for run in {(run.suite, run.model): run for run in newest.reweighted}.values():
            for family, number in zip(weighted, (run.value, run.lower, run.upper), strict=True):
                put(family, (run.suite, run.metric, run.model), number)
    return [*unmatched, of_suite, chance, exchanges, at, *weighted]
