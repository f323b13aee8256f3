"""The body of a request to a door: read up to a limit, and decompressed up to the same one."""

import asyncio
from collections.abc import AsyncIterator, Callable

from auditors.clients.inflating import GZIP_NAMES, InflateError, Inflater
from gateway.errors import RequestError


class TooLargeError(RequestError):
    """The body is larger than may be."""


async def read_body(
    pieces: AsyncIterator[bytes], encoding: str | None, limit: int, hold: Callable[[int], None] = lambda n_bytes: None
) -> bytes:
    """The body before it was compressed (gzip, identity), of at most `limit` bytes sent or decoded. `hold` is called
    with the bytes that the body grows by; raises where there is no memory. Raises TooLargeError as soon as the limit is
    passed, RequestError for another encoding or what is not a gzip.
    """
    coding = (encoding or "identity").strip().lower()
    if coding != "identity" and coding not in GZIP_NAMES:
        raise RequestError(f'Content-Encoding "{coding[:40]}" is not known: send gzip or none')
    inflater = Inflater(coding) if coding in GZIP_NAMES else None
    body, n_sent = bytearray(), 0

    def add(piece: bytes) -> None:
        if len(body) + len(piece) > limit:
            raise _too_large(limit)
        hold(len(piece))
        body.extend(piece)

    try:
        async for piece in pieces:
            n_sent += len(piece)
            if n_sent > limit:
                raise _too_large(limit)
            if inflater is None:
                add(piece)
                continue
            for inflated in inflater.pieces(piece):  # a small piece may be a thousand times as large inside
                add(inflated)
                await asyncio.sleep(0)
        if inflater is not None:
            inflater.finish()
    except InflateError as exc:
        raise RequestError(str(exc)) from exc
    return bytes(body)


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(
        f"the body has more than {limit} bytes (ingest.max_body_bytes), decompressed: send smaller batches"
    )
