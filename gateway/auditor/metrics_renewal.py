"""When the auditor's metrics are read from the store anew: for whoever scrapes them, and otherwise seldom."""

import asyncio
import logging
import time

from gateway.auditor.metrics import AuditorMetrics
from gateway.auditor.metrics_snapshot import SnapshotReader
from gateway.errors import StoreError

logger = logging.getLogger(__name__)

OLDEST_SECONDS = 1.0
"""A scrape finds metrics that are no older than this,"""
PATIENCE_SECONDS = 2.0
"""or waits for so long at most, and then gets those there are: the store may be away."""


class MetricsRenewal:
    """One renewal at a time."""

    def __init__(self, reader: SnapshotReader, metrics: AuditorMetrics) -> None:
        self._reader = reader
        self._metrics = metrics
        self._renewing: asyncio.Task[None] | None = None
        self._renewed_at: float | None = None

    async def now(self) -> None:
        """Returns when the metrics are those of the store, or when it has been logged why they are not."""
        await asyncio.shield(self._task())

    async def for_a_scrape(self) -> None:
        """Makes the metrics recent. Never raises."""
        if self._renewed_at is None or time.monotonic() - self._renewed_at > OLDEST_SECONDS:
            await asyncio.wait({self._task()}, timeout=PATIENCE_SECONDS)

    def _task(self) -> asyncio.Task[None]:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())
        return self._renewing

    async def _renew(self) -> None:
        try:
            await self._metrics.renew(await self._reader.read())
        except StoreError as exc:
            logger.warning("%s", exc)
        else:
            self._renewed_at = time.monotonic()
