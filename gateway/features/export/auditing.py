"""The export's part in the auditor: brings what is new to `export.url`, and tells how far the export is."""

import time
from collections.abc import Mapping, Sequence

from prometheus_client.core import Metric

from gateway.auditor.part import AuditorContext, AuditorPart, Periodic, counter, gauge, put
from gateway.features.export import store
from gateway.features.export.config import EXPORT, ExportConfig
from gateway.features.export.periodic import Exports
from gateway.features.export.store import Progress
from gateway.store import counters
from gateway.store.database import Database

EXPORT_SECONDS = 10.0
"""Seconds between checks whether an export is due."""


class ExportPart(AuditorPart):
    """Exports from one store."""

    def __init__(self, context: AuditorContext) -> None:
        """Raises ConfigError where what writes the files is not installed."""
        self._database = context.database
        self._config = EXPORT.of(context.config)
        self._exports = Exports(context.config, context.database, context.stop)

    def periodic(self) -> Sequence[Periodic]:
        return [Periodic(EXPORT_SECONDS, self._exports)]

    async def families(self) -> Sequence[Metric]:
        return await read_families(self._database, self._config)


async def read_families(database: Database, config: ExportConfig) -> Sequence[Metric]:
    """Read the metric families of exports. Raises StoreError."""
    progress = None if config.url is None else await store.progress(database, config.url)
    totals = await counters.read(database, (store.ROWS, store.PASSES))
    return families(totals, progress, every_seconds=config.every_hours * 3600.0)


def families(
    totals: Mapping[tuple[str, tuple[str, ...]], float], progress: Progress | None, *, every_seconds: float
) -> Sequence[Metric]:
    """Return the metric families of exports.

    Args:
        totals: the counters of exports.
        progress: of the export to `export.url`; None where nothing is exported.
        every_seconds: from one pass to the next.
    """
    rows = counter("export_rows", "Rows of exports (docs/operations.md#export), rewritten rows too.", ("dataset",))
    passes = counter("exports", "Exports: done, failed.", ("outcome",))
    for (name, labels), total in sorted(totals.items()):
        {store.ROWS: rows, store.PASSES: passes}[name].add_metric(labels, total)
    success = gauge("export_last_success_timestamp_seconds", "When export.url was last complete.", ())
    due = gauge("export_due_timestamp_seconds", "When the next export is due.", ())
    if progress is not None:
        put(success, (), progress.done_at)
        put(due, (), (progress.moved_at or progress.since or time.time()) + every_seconds)
    return [rows, passes, success, due]
