"""Reads request bodies in bounded memory, off the event loop; entries of a list are decoded singly."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from auditors.clients.inflating import GZIP_NAMES, InflateError, Inflater
from auditors.text.lenient_json import count_containers, read_json
from gateway.errors import RequestError
from gateway.features.ingest.received import Rejections, Sent


class TooLargeError(RequestError):
    """The body is larger than may be."""


async def read_body(
    pieces: AsyncIterator[bytes], encoding: str | None, limit: int, hold: Callable[[int], None] = lambda n_bytes: None
) -> bytes:
    """Return the body, inflated (gzip, identity); `hold` hears of each growth and may raise. Raises TooLargeError above
    `limit` bytes sent or decoded, RequestError for another encoding or a broken gzip.
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


LARGE_BYTES = 32 * 1024
"""A larger body is read in a thread."""

MOST_CONTAINERS = 400_000
"""Objects and lists in one body, those in its texts included; an export of 8 MB has up to 250,000."""
MOST_LENIENT_CONTAINERS = 100_000
"""Objects and lists in a body that is not strict JSON, which is decoded in one call: 35 ms."""
MOST_ENTRIES = 10_000
"""Exchanges, or parts of exchanges, in one body. Collectors send up to 8,192 spans, LiteLLM 512 records."""

T = TypeVar("T")

_list = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)


def require_few_containers(body: bytes, most: int = MOST_CONTAINERS) -> None:
    """Raise TooLargeError for a body of little but brackets: as objects it takes fifty times its bytes."""
    if count_containers(body) > most:
        raise TooLargeError(f"the body has more than {most} objects and lists: send smaller batches")


def require_few_entries(n_entries: int) -> None:
    """Raises TooLargeError for a body with too many of them."""
    if n_entries > MOST_ENTRIES:
        raise TooLargeError(f"the body has more than {MOST_ENTRIES} exchanges or parts of them: send smaller batches")


def read_objects(body: bytes, read: Callable[[Iterable[Any]], Sent]) -> Sent:
    """Call `read` on an object, a list, or an object a line; rejects bad entries by number. Raises RequestError."""
    pieces: Sequence[bytes | msgspec.Raw]
    name, first = "entry", 0
    try:
        pieces = _list.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        if _is_one_value(body):
            if not body.lstrip().startswith(b"{"):
                raise RequestError("send an object, a list of objects, or a JSON object a line") from None
            pieces = [body]
        else:
            require_few_entries(
                (body.count(b"\n") + body.count(b"\r")) // 2
            )  # CRLF counts twice, so this never overcounts
            pieces = [line for line in body.splitlines() if line.strip()]
            name, first = "line", 1
    require_few_entries(len(pieces))
    rejected = Rejections()
    sent = read(_values(pieces, name, first, rejected))
    return msgspec.structs.replace(sent, rejected=rejected.and_then(sent.rejected))


def read_value(piece: bytes | msgspec.Raw) -> Any:
    """Return the value of an entry. Raises ValueError when it is not JSON."""
    content = bytes(piece)
    if count_containers(content) > MOST_LENIENT_CONTAINERS and not _is_one_value(content):
        raise ValueError(f"no strict JSON, and more than {MOST_LENIENT_CONTAINERS} objects and lists")
    try:
        return read_json(content)
    except ValueError as exc:
        raise ValueError("no JSON") from exc


def _values(pieces: Iterable[bytes | msgspec.Raw], name: str, first: int, rejected: Rejections) -> Iterator[Any]:
    for number, piece in enumerate(pieces, first):
        try:
            value = read_value(piece)
        except ValueError as exc:
            rejected.add(f"{name} {number}: {exc}")
        else:
            yield value


def _is_one_value(body: bytes) -> bool:
    try:
        _value.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


class BodyReader:
    """Reads large bodies one at a time: a body may take fifty times its bytes, and two threads are not faster."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def read(self, read: Callable[[bytes], T], body: bytes) -> T:
        """Return `read(body)`: of a large body in a thread, one at a time."""
        if len(body) <= LARGE_BYTES:
            return read(body)
        async with self._lock:
            return await asyncio.to_thread(read, body)
