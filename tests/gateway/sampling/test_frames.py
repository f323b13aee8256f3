"""Messages between workers and writer: whole or an error, whatever arrives and in whatever pieces."""

import asyncio
import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sampling.writer.remote import LARGEST_BYTES, Answer, Batch, BrokenFrameError, decoded, framed, read_frame
from gateway.store.deliveries import Delivery
from tests.support.store.made import exchange

BATCH = Batch(
    Delivery("sender", 7, 1.5),
    [exchange(request_body=bytes(range(256)), tag="t"), exchange(response_body=b"")],
    [("other", "queued", 2), ("model:m", "sampled_out", 3)],
)


def fed(*pieces: bytes | bytearray, ends: bool = True) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for piece in pieces:
        reader.feed_data(piece)
    if ends:
        reader.feed_eof()
    return reader


@pytest.mark.parametrize("size", [1, 3, 5, 1000])
async def test_pieces_are_put_together(size: int) -> None:
    """A message is read however its bytes come; until the last is there the reader waits."""
    frame = framed(BATCH)
    reader = fed(ends=False)
    reading = asyncio.create_task(read_frame(reader))
    for first in range(0, len(frame), size):
        await asyncio.sleep(0)
        assert not reading.done()
        reader.feed_data(frame[first : first + size])
    assert decoded(await reading or b"", Batch) == BATCH


async def test_an_end_in_the_middle_is_an_error_at_every_place() -> None:
    """A message that breaks off is never taken for a shorter one; an announced length alone is refused unread."""
    frame = framed(BATCH)
    for length in range(1, len(frame)):
        with pytest.raises(BrokenFrameError, match="in the middle"):
            await read_frame(fed(frame[:length]))
    reader = fed(struct.pack(">I", LARGEST_BYTES + 1), ends=False)
    with pytest.raises(BrokenFrameError, match="at most"):
        await asyncio.wait_for(read_frame(reader), 5)


@given(st.binary(max_size=200))
def test_garbage_is_an_error_or_a_message(payload: bytes) -> None:
    """Nothing but BrokenFrameError comes out of bytes that say nothing."""
    for kind in (Batch, Answer):
        with contextlib.suppress(BrokenFrameError):
            assert isinstance(decoded(payload, kind), kind)
