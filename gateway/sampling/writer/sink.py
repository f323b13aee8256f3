"""The interface of the sink that stores the tap's copies."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from auditors.types import Exchange
from gateway.store.deliveries import Delivery
from gateway.store.ledger import Deltas


class ExchangeSink(Protocol):
    """Takes batches of sampled copies."""

    async def write(self, batch: Sequence[Exchange], deltas: Deltas, delivery: Delivery) -> Deltas:
        """Return once copies and counts are in the database and the auditors know of them. `batch` is stored as queued
        and may be empty; `deltas`, which include it, are added to the ledger. Repeating a failed call under the same
        `delivery` stores and counts nothing twice. Returns what was added besides `deltas`, the same for a repetition,
        for copies that were not stored: too much text (`truncated`) or cannot be handled (`failed`). Raises StoreError
        when the same call may succeed later; anything else when it never will.
        """

    async def ingest(self, batch: Sequence[Exchange], verdicts: Mapping[str, tuple[str, str]]) -> Deltas:
        """Store and count exchanges that others recorded, each once. `verdicts`: (stratum, outcome) by id, those of the
        batch "queued". Returns what was added to the ledger, and how many were DUPLICATE. Raises as `write`.
        """

    async def close(self) -> None: ...
