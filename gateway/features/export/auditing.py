"""The export's part in the auditor: brings what is new to `export.url`, one auditor at a time, in a thread."""

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence

from prometheus_client.core import Metric

from auditors.addresses import mask_url
from benchmarks.run.stopping import in_thread
from gateway.auditor.part import AuditorContext, AuditorPart, Periodic, counter, gauge, put
from gateway.config.schema import Config
from gateway.errors import BusyError, StoreError
from gateway.features.export import store
from gateway.features.export.address import require_installed
from gateway.features.export.config import EXPORT, ExportConfig
from gateway.features.export.passes import Brought, StoppedError, export_new_rows
from gateway.features.export.store import Progress
from gateway.store import counters
from gateway.store.connections import Connections
from gateway.store.database import Database

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 300.0
"""After a pass that failed, or sooner where passes are more frequent."""
AHEAD_SECONDS = 60.0
"""Seconds by which the clocks of two machines may differ."""
GRACE_SECONDS = 5.0
"""Seconds that a pass has to see that it is to stop; one that hangs is left, and another auditor goes on."""


class Exports:
    """Call it every now and then; it does nothing until a pass is due."""

    def __init__(self, config: Config, database: Database, stop: asyncio.Event) -> None:
        """Raises ConfigError where what writes the files is not installed."""
        section = EXPORT.of(config)
        self._url, self._every_seconds = section.url, section.every_hours * 3600.0
        self._database, self._stop = database, stop
        if self._url is not None:
            require_installed(self._url)

    async def __call__(self) -> None:
        """One pass, if it is due. Raises StoreError."""
        if self._url is None:
            return
        progress = await store.read_progress(self._database, self._url)
        if not self._is_due(progress):
            return
        passing = asyncio.create_task(in_thread(self._pass, self._url))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({passing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not passing.done():
                await asyncio.wait({passing}, timeout=GRACE_SECONDS)
        finally:
            stopping.cancel()
        if passing.done():
            self._tell(passing, was_failing=progress.error is not None)
        else:
            passing.cancel()

    def _is_due(self, progress: Progress) -> bool:
        now = time.time()
        if progress.owner is not None and now < progress.until <= now + 2 * store.LEASE_SECONDS:
            return False
        failed = progress.error is not None
        last = (progress.tried_at if failed else progress.done_at) or 0.0
        if last > now + AHEAD_SECONDS:  # it was noted before the clock was set back
            return True
        return now >= last + (min(AGAIN_SECONDS, self._every_seconds) if failed else self._every_seconds)

    def _pass(self, url: str) -> Brought:
        async def passing() -> Brought:
            database = Connections(self._database.url)  # of the thread's own event loop
            try:
                return await export_new_rows(
                    database, url, uuid.uuid4().hex, is_stopped=self._stop.is_set, is_due=self._is_due
                )
            finally:
                await database.close()

        return asyncio.run(passing())

    def _tell(self, passing: "asyncio.Task[Brought]", *, was_failing: bool) -> None:
        """Logs the outcome of a pass. Raises StoreError."""
        url = mask_url(self._url or "")
        try:
            brought = passing.result()
        except (BusyError, StoppedError):
            return
        except StoreError:
            raise
        except Exception as exc:  # whatever a file system may raise: audits go on
            logger.warning("not exported to %s, tried again: %s", url, exc)
            return
        if was_failing:
            logger.warning("exports to %s work again", url)
        rows = ", ".join(f"{n} {name}" for name, n in brought.rows.items())
        logger.info("exported to %s: %s", url, rows or "nothing")


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
    progress = None if config.url is None else await store.read_progress(database, config.url)
    totals = await counters.read(database, (store.ROWS, store.PASSES))
    rows = counter("export_rows", "Rows of exports (docs/operations.md#export), rewritten rows too.", ("dataset",))
    passes = counter("exports", "Exports: done, failed.", ("outcome",))
    for (name, labels), total in sorted(totals.items()):
        {store.ROWS: rows, store.PASSES: passes}[name].add_metric(labels, total)
    success = gauge("export_last_success_timestamp_seconds", "When export.url was last complete.", ())
    due = gauge("export_due_timestamp_seconds", "When the next export is due.", ())
    if progress is not None:
        put(success, (), progress.done_at)
        put(due, (), (progress.moved_at or progress.since or time.time()) + config.every_hours * 3600.0)
    return [rows, passes, success, due]
