"""The worker's end: hands each batch to the writer process and waits for its answer."""

import asyncio
from collections.abc import Mapping, Sequence

from auditors.types import Exchange
from gateway.errors import GatewayError, StoreError
from gateway.sampling.writer.frames import Answer, Batch, BrokenFrameError, decoded, framed, read_frame
from gateway.store.deliveries import Delivery
from gateway.store.ledger import Deltas

PIECE_BYTES = 256 * 1024
"""Most bytes of a frame written at once: a transport copies what a socket does not take yet."""


_NAMELESS = Delivery("", 0, 0.0)
"""The delivery of exchanges that are counted by their ids."""


class RefusedError(GatewayError):
    """The store will never take this batch."""


class RemoteSink:
    """See `writer.sink.ExchangeSink`. Connects when there is something to store, and again when it must."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def write(self, batch: Sequence[Exchange], deltas: Deltas, delivery: Delivery) -> Deltas:
        counts = [(stratum, outcome, more) for (stratum, outcome), more in deltas.items()]
        return await self._counts(Batch(delivery, batch, counts))

    async def ingest(self, batch: Sequence[Exchange], verdicts: Mapping[str, tuple[str, str]]) -> Deltas:
        listed = [(exchange_id, stratum, outcome) for exchange_id, (stratum, outcome) in verdicts.items()]
        return await self._counts(Batch(_NAMELESS, batch, [], listed))

    async def _counts(self, batch: Batch) -> Deltas:
        answer = await self._ask(framed(batch))
        if answer.outcome == "later":
            raise StoreError(answer.reason)
        if answer.outcome == "refused":
            raise RefusedError(answer.reason)
        return {(stratum, outcome): more for stratum, outcome, more in answer.moved}

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, frame: bytearray) -> Answer:
        """Raises StoreError when the answer does not come: no one knows then whether the batch was stored."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_unix_connection(self._path)
            reader, writer = self._streams
            rest = memoryview(frame)
            while rest:
                writer.write(rest[:PIECE_BYTES])
                rest = rest[PIECE_BYTES:]
                await writer.drain()
            payload = await read_frame(reader)
            if payload is None:
                raise BrokenFrameError("the connection was closed")
            return decoded(payload, Answer)
        except (OSError, BrokenFrameError) as exc:
            await self.close()
            raise StoreError(f"the writer of sampled copies gives no answer: {exc}") from exc
        except BaseException:  # broken off: the answer that is still to come would be taken for the next one
            await self.close()
            raise
