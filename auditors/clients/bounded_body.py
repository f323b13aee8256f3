"""Reads a reply's body up to a limit of decoded bytes; gzip and deflate piece by piece, no other encoding."""

from collections.abc import AsyncIterable, Mapping

from auditors.clients.inflating import INFLATED_ENCODINGS, InflateError, Inflater

ACCEPT_ENCODING: Mapping[str, str] = {"accept-encoding": "gzip, deflate"}


class BodyError(ValueError):
    """A body that is too long or has an encoding that was not asked for; the message says which."""


class BoundedBody:
    """A body as it comes off the wire, decoded, of at most `limit` bytes."""

    def __init__(self, content_encoding: str, limit: int) -> None:
        """Raises BodyError for a content encoding that was not asked for; empty when the reply has none."""
        self._limit = limit
        self._body = bytearray()
        encoding = content_encoding.strip().lower()
        if encoding not in ("", "identity", *INFLATED_ENCODINGS):
            raise BodyError(f'content-encoding "{content_encoding[:40]}" was not asked for')
        self._inflater = Inflater(encoding) if encoding in INFLATED_ENCODINGS else None

    @property
    def content(self) -> bytes:
        return bytes(self._body)

    def feed(self, chunk: bytes) -> None:
        """Adds bytes off the wire. Raises BodyError; what fits into the limit is kept then."""
        if self._inflater is None:
            self._add(chunk)
            return
        try:
            for piece in self._inflater.pieces(chunk):
                self._add(piece)
        except InflateError as exc:
            raise BodyError(str(exc)) from exc

    def finish(self) -> None:
        """Raise BodyError if the body ends in the middle of its encoding. Call it when all bytes have come."""
        try:
            if self._inflater is not None:
                self._inflater.finish()
        except InflateError as exc:
            raise BodyError(str(exc)) from exc

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
    body.finish()
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
