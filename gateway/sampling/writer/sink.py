"""What the tap asks of whoever stores its copies."""

from collections.abc import Sequence
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
        ...

    async def close(self) -> None: ...
