"""Frames the messages between workers and writer: MessagePack behind four bytes of its length."""

import asyncio
import struct
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from auditors.types import Exchange
from gateway.store.deliveries import Delivery

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
    """The next message, still encoded; None when the other side has closed between two. Raises BrokenFrameError, before
    anything is kept of a frame that is too large.
    """
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
