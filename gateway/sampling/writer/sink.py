"""The interface of the sink that stores the tap's copies."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from auditors.types import Exchange
from gateway.store.deliveries import Delivery
from gateway.store.ledger import Deltas


class ExchangeSink(Protocol):
    """Takes batches of sampled copies."""

    async def write(self, batch: Sequence[Exchange], deltas: Deltas, delivery: Delivery) -> Deltas:
        """Returns once the copies and the counts are in the database and the auditors know of them.

        Args:
            batch: what to store as queued; may be empty.
            deltas: what to add to the ledger, the batch's own "queued" included.
            delivery: its name. Repeating a call that failed, under the same name, stores and counts nothing twice.

        Returns: what to add to `deltas` for the copies that were not stored, because they have too much text
            (`truncated`) or cannot be handled (`failed`). It is in the ledger already, and the same for a repetition.

        Raises: StoreError when the same call may succeed later; anything else when it never will.
        """

    async def ingest(self, batch: Sequence[Exchange], verdicts: Mapping[str, tuple[str, str]]) -> Deltas:
        """Stores and counts exchanges that others recorded, each once, even if sent again. `verdicts`: (stratum,
        outcome) of every exchange by its id, those of the batch as "queued". Returns what was added to the ledger, and
        how many were DUPLICATE. Raises as `write`.
        """

    async def close(self) -> None: ...
