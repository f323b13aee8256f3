"""Stores copies in this process, and tells the auditors."""

import logging
from collections.abc import Sequence

from auditors.types import Exchange
from gateway.jobs import JobQueue
from gateway.store import exchanges
from gateway.store.database import Database
from gateway.store.deliveries import Delivery
from gateway.store.ledger import Deltas

logger = logging.getLogger(__name__)

AUDIT_TASK = "audit_exchanges"
IDS_PER_JOB = 16


class DirectSink:
    """See `gateway.sampling.writer.sink.ExchangeSink`. Closing it leaves database and queue open."""

    def __init__(self, database: Database, queue: JobQueue) -> None:
        self._database = database
        self._queue = queue

    async def write(self, batch: Sequence[Exchange], deltas: Deltas, delivery: Delivery) -> None:
        await exchanges.insert_batch(self._database, batch, deltas, delivery)
        if batch:  # of a repetition too: the first call may have died in between
            await self._announce([exchange.id for exchange in batch])

    async def close(self) -> None:
        pass

    async def _announce(self, ids: list[str]) -> None:
        try:
            parts = [{"ids": ids[first : first + IDS_PER_JOB]} for first in range(0, len(ids), IDS_PER_JOB)]
            await self._queue.defer_many(AUDIT_TASK, parts)
        except Exception:  # the exchanges are stored: the auditors' sweep finds them without a job
            logger.exception("no job was queued for %d exchanges; the sweep will find them", len(ids))
