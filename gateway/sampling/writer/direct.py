"""Stores copies in this process, folded to their text, and tells the auditors."""

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence

from auditors.types import Exchange
from gateway.jobs import JobQueue
from gateway.sampling.folding import TooMuchTextError, folded
from gateway.store import exchanges, ingested
from gateway.store.database import Database
from gateway.store.deliveries import Delivery
from gateway.store.ledger import Deltas

logger = logging.getLogger(__name__)

AUDIT_TASK = "audit_exchanges"
IDS_PER_JOB = 16
LARGE_BYTES = 32 * 1024
"""Batches above this are folded in a thread."""


class DirectSink:
    """An `ExchangeSink`. Bodies above `max_text_bytes` (None: any) count as truncated. `close` closes nothing."""

    def __init__(self, database: Database, queue: JobQueue, max_text_bytes: int | None = None) -> None:
        self._database = database
        self._queue = queue
        self._max_text_bytes = max_text_bytes

    async def write(self, batch: Sequence[Exchange], deltas: Deltas, delivery: Delivery) -> Deltas:
        stored, lost = await self._folded(batch)
        moved = Counter[tuple[str, str]]()
        for exchange, outcome in lost:
            moved.update({(exchange.stratum, "queued"): -1, (exchange.stratum, outcome): 1})
        added = Counter(deltas)
        added.update(moved)
        await exchanges.insert_batch(self._database, stored, added, delivery)
        if stored:  # of a repetition too: the first call may have died in between
            await self._announce([exchange.id for exchange in stored])
        return moved

    async def ingest(self, batch: Sequence[Exchange], verdicts: Mapping[str, tuple[str, str]]) -> Deltas:
        stored, lost = await self._folded(batch)
        outcomes = {exchange.id: (exchange.stratum, outcome) for exchange, outcome in lost}
        counts, new = await ingested.insert(self._database, stored, {**verdicts, **outcomes})
        if announced := [exchange.id for exchange in stored if exchange.id in new]:
            await self._announce(announced)
        return counts

    async def _folded(self, batch: Sequence[Exchange]) -> tuple[list[Exchange], list[tuple[Exchange, str]]]:
        size = sum(len(exchange.request_body) + len(exchange.response_body) for exchange in batch)
        return await asyncio.to_thread(self._fold, batch) if size > LARGE_BYTES else self._fold(batch)

    def _fold(self, batch: Sequence[Exchange]) -> tuple[list[Exchange], list[tuple[Exchange, str]]]:
        """Return the stored part of a batch, and the outcome of the rest. The same batch gives the same."""
        stored: list[Exchange] = []
        lost: list[tuple[Exchange, str]] = []
        for exchange in batch:
            try:
                stored.append(folded(exchange, self._max_text_bytes))
                continue
            except TooMuchTextError:
                outcome = "truncated"
            except Exception as exc:  # its words may have served text in them: kind and place say enough
                place = "".join(traceback.format_tb(exc.__traceback__))
                logger.error("a copy could not be folded: %s:\n%s", type(exc).__qualname__, place)
                outcome = "failed"
            lost.append((exchange, outcome))
        return stored, lost

    async def close(self) -> None:
        pass

    async def _announce(self, ids: list[str]) -> None:
        try:
            parts = [{"ids": ids[first : first + IDS_PER_JOB]} for first in range(0, len(ids), IDS_PER_JOB)]
            await self._queue.defer_many(AUDIT_TASK, parts)
        except Exception:  # the exchanges are stored: the auditors' sweep finds them without a job
            logger.exception("no job was queued for %d exchanges; the sweep will find them", len(ids))
