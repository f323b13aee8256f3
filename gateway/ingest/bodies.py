"""The body of a request to a door: read up to a limit, and decompressed up to the same one."""

import asyncio
import zlib
from collections.abc import AsyncIterator

from gateway.errors import RequestError

GZIP_WINDOW = zlib.MAX_WBITS | 16
PIECE_BYTES = 256 * 1024


class TooLargeError(RequestError):
    """The body is larger than may be."""


async def read_body(pieces: AsyncIterator[bytes], encoding: str | None, limit: int) -> bytes:
    """The body as it was before it was compressed.

    Args:
        pieces: as they come.
        encoding: value of Content-Encoding; gzip and identity are known.
        limit: bytes, of what is sent as of what comes out of it.

    Raises: TooLargeError as soon as the limit is passed, RequestError for another encoding or what is no gzip.
    """
    coding = (encoding or "identity").strip().lower()
    if coding not in ("identity", "gzip", "x-gzip"):
        raise RequestError(f'Content-Encoding "{coding[:40]}" is not known: send gzip or none')
    unpack = zlib.decompressobj(GZIP_WINDOW) if coding != "identity" else None
    body, n_sent = bytearray(), 0
    async for piece in pieces:
        n_sent += len(piece)
        if n_sent > limit:
            raise _too_large(limit)
        if unpack is None:
            body += piece
            continue
        left, is_more = piece, True
        while is_more and not unpack.eof:  # a small piece may be a thousand times as large inside
            try:
                found = unpack.decompress(left, PIECE_BYTES)
            except zlib.error as exc:
                raise RequestError(f"the body is no gzip: {exc}") from exc
            body += found
            if len(body) > limit:
                raise _too_large(limit)
            left = unpack.unconsumed_tail
            is_more = bool(left) or len(found) == PIECE_BYTES
            await asyncio.sleep(0)
    if unpack is not None and not unpack.eof:
        raise RequestError("the body ends in the middle of its gzip")
    return bytes(body)


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(
        f"the body has more than {limit} bytes (ingest.max_body_bytes), decompressed: send smaller batches"
    )
