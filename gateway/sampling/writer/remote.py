"""The worker's end: hands each batch to the writer process and waits for its answer."""

import asyncio
import struct
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from auditors.types import Exchange
from gateway.errors import GatewayError, StoreError
from gateway.store.deliveries import Delivery
from gateway.store.ledger import Deltas

LARGEST_BYTES = 192 * 1024 * 1024
"""More than a tap's whole buffer: no delivery is larger, so what says that it is comes from no one of ours."""

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()

Message = TypeVar("Message")


class BrokenFrameError(Exception):
    """The other side stopped in the middle, or speaks something else."""


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """A delivery on the wire."""

    delivery: Delivery
    exchanges: Sequence[Exchange]
    deltas: Sequence[tuple[str, str, int]]
    """stratum, outcome, how many more."""
    verdicts: Sequence[tuple[str, str, str]] | None = None
    """Verdicts on exchanges that others recorded, without delivery and deltas: id, stratum, outcome."""

    def counts(self) -> Mapping[tuple[str, str], int]:
        return {(stratum, outcome): more for stratum, outcome, more in self.deltas}


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """stored: it is in the database. later: the same may succeed later. refused: never."""

    outcome: Literal["stored", "later", "refused"]
    reason: str = ""
    moved: list[tuple[str, str, int]] = []
    """stratum, outcome, how many more than was delivered; see `ExchangeSink.write`."""


def framed(message: Batch | Answer) -> bytearray:
    frame = bytearray(_LENGTH.size)
    _encoder.encode_into(message, frame, _LENGTH.size)
    _LENGTH.pack_into(frame, 0, len(frame) - _LENGTH.size)
    return frame


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next message, encoded; None at the end. Raises BrokenFrameError, unread if a frame is too large."""
    try:
        head = await reader.readexactly(_LENGTH.size)
        (length,) = _LENGTH.unpack(head)
        if length > LARGEST_BYTES:
            raise BrokenFrameError(f"a message of {length} bytes was announced, at most {LARGEST_BYTES} are taken")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as exc:
        if exc.expected == _LENGTH.size and not exc.partial:
            return None
        raise BrokenFrameError("the connection ended in the middle of a message") from exc


def decoded(payload: bytes, kind: type[Message]) -> Message:
    """Return the message. Raises BrokenFrameError if the payload is not such a message."""
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise BrokenFrameError(f"not understood: {exc}") from exc


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
