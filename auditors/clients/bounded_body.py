"""Reads the body of an HTTP reply up to a limit of decoded bytes, whatever the server sends.

gzip and deflate are decoded piece by piece as the bytes come, so that a small body which would expand to a large one is
given up before the memory is used. Clients ask for no other encoding, and a body that comes in one is refused.
"""

import zlib
from collections.abc import AsyncIterable, Mapping

ACCEPT_ENCODING: Mapping[str, str] = {"accept-encoding": "gzip, deflate"}
"""Header of every request whose reply is read here."""

_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class BodyError(ValueError):
    """A body that is longer than it may be, or encoded as nobody asked; the message says which."""


class BoundedBody:
    """A body as it comes off the wire, decoded, of at most `limit` bytes."""

    def __init__(self, content_encoding: str, limit: int) -> None:
        """Raises BodyError for an encoding that was not asked for.

        Args:
            content_encoding: the reply's header; empty when it has none.
            limit: most bytes of the decoded body.
        """
        self._limit = limit
        self._body = bytearray()
        self._head = b""
        self._inflater: zlib._Decompress | None = None
        encoding = content_encoding.strip().lower()
        if encoding not in ("", "identity", *_WINDOW_BITS):
            raise BodyError(f'content-encoding "{content_encoding[:40]}" was not asked for')
        self._encoding = encoding if encoding in _WINDOW_BITS else None

    @property
    def content(self) -> bytes:
        """What has come so far."""
        return bytes(self._body)

    def feed(self, chunk: bytes) -> None:
        """Adds bytes off the wire. Raises BodyError; what fits into the limit is kept then."""
        if self._encoding is None:
            self._add(chunk)
            return
        if self._inflater is None:
            chunk, self._head = self._head + chunk, b""
            if len(chunk) < 2:
                self._head = chunk
                return
            self._inflater = _inflater(self._encoding, chunk)
        while chunk and not self._inflater.eof:
            try:
                self._add(self._inflater.decompress(chunk, self._limit - len(self._body) + 1))
            except zlib.error as exc:
                raise BodyError(f"the body is not {self._encoding}: {exc}") from exc
            chunk = self._inflater.unconsumed_tail

    def _add(self, decoded: bytes) -> None:
        room = self._limit - len(self._body)
        self._body += decoded[:room]
        if len(decoded) > room:
            raise BodyError(f"the body is longer than {self._limit} bytes")


async def read_body(chunks: AsyncIterable[bytes], content_encoding: str, limit: int) -> bytes:
    """A whole body, decoded, from the bytes off the wire. Raises BodyError, and then reads no further."""
    body = BoundedBody(content_encoding, limit)
    async for chunk in chunks:
        body.feed(chunk)
    return body.content


async def read_beginning(chunks: AsyncIterable[bytes], content_encoding: str, limit: int) -> bytes:
    """The first bytes of a body that is only quoted, such as an error's; nothing where it cannot be decoded."""
    try:
        body = BoundedBody(content_encoding, limit)
    except BodyError:
        return b""
    try:
        async for chunk in chunks:
            body.feed(chunk)
    except BodyError:
        pass  # enough, or not readable any further
    return body.content


def _inflater(encoding: str, head: bytes) -> "zlib._Decompress":
    """By the first two bytes: some servers send deflate without the header that belongs to it (RFC 1950, 2.2)."""
    has_header = head[0] & 0x0F == zlib.DEFLATED and (head[0] << 8 | head[1]) % 31 == 0
    is_bare = encoding == "deflate" and not has_header
    return zlib.decompressobj(-zlib.MAX_WBITS if is_bare else _WINDOW_BITS[encoding])
