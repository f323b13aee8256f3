"""Decodes gzip (all members, RFC 1952, 2.2) and deflate piece by piece; trailing bytes and a cut body are errors."""

import zlib
from collections.abc import Iterator

GZIP_NAMES = frozenset({"gzip", "x-gzip"})
DEFLATE = "deflate"
INFLATED_ENCODINGS = GZIP_NAMES | {DEFLATE}
"""Content codings (RFC 9110, 8.4.1) that are decoded here."""
MOST_MEMBERS = 1_000
"""Most members of a gzip body. Each costs a decoder, so a megabyte of empty members would cost a second."""
PIECE_BYTES = 256 * 1024
_GZIP_WINDOW = zlib.MAX_WBITS | 16


class InflateError(ValueError):
    """The body is not encoded as its header says; the message tells what is wrong, in one line."""


class Inflater:
    """Decodes one body. Feed it each chunk with `pieces`, then call `finish`."""

    def __init__(self, encoding: str) -> None:
        """Take one of INFLATED_ENCODINGS, in lower case."""
        self._encoding = encoding
        self._decoder: zlib._Decompress | None = None
        self._n_members = 0
        self._head = b""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield pieces of at most PIECE_BYTES, lazily: take all before the next chunk. Raises InflateError."""
        chunk, self._head = self._head + chunk, b""
        while True:
            if self._decoder is None or self._decoder.eof:
                if self._decoder is None and 0 < len(chunk) < 2:
                    self._head = chunk
                    return
                if not chunk:
                    return
                self._n_members += 1
                if self._n_members > 1 and (self._encoding == DEFLATE or not chunk.startswith(b"\x1f")):
                    raise InflateError(self._trailing())
                if self._n_members > MOST_MEMBERS:
                    raise InflateError(f"the body has more than {MOST_MEMBERS} gzip members: compress it in one")
                self._decoder = zlib.decompressobj(_window_bits(self._encoding, chunk))
            try:
                piece = self._decoder.decompress(chunk, PIECE_BYTES)
            except zlib.error as exc:
                raise InflateError(self._trailing() or f"the body is not {self._encoding}: {exc}") from exc
            if piece:
                yield piece
            if self._decoder.eof:
                chunk = self._decoder.unused_data
            else:
                chunk = self._decoder.unconsumed_tail
                if not chunk and len(piece) < PIECE_BYTES:
                    return

    def finish(self) -> None:
        """Raise InflateError if the body ends before its last member does."""
        is_complete = not self._head if self._decoder is None else self._decoder.eof
        if not is_complete:
            raise InflateError(f"the body ends in the middle of its {self._encoding}")

    def _trailing(self) -> str:
        """The message about bytes behind the first member; empty while the first one is decoded."""
        if self._n_members < 2:
            return ""
        return f"the body goes on behind the end of its {self._encoding} with bytes that are not {self._encoding}"


def _window_bits(encoding: str, head: bytes) -> int:
    """Choose zlib's format; some servers send deflate without the header that belongs to it (RFC 1950, 2.2)."""
    if encoding != DEFLATE:
        return _GZIP_WINDOW
    has_header = head[0] & 0x0F == zlib.DEFLATED and (head[0] << 8 | head[1]) % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
