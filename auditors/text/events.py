"""Server-sent events, as the standard reads them (WHATWG HTML, 9.2.6)."""

from collections.abc import Iterator
from typing import NamedTuple

from auditors.types import Exchange


class ServerEvent(NamedTuple):
    """One server-sent event."""

    name: str
    data: str


def is_event_stream(exchange: Exchange) -> bool:
    """Whether the response is one of events. It is not when it was joined before it was stored, or never was one."""
    if not (exchange.stream or exchange.content_type.startswith("text/event-stream")):
        return False
    return not exchange.response_body.lstrip(b" \t\r\n").startswith(b"{")


def server_events(body: bytes) -> Iterator[ServerEvent]:
    """Complete events of an event stream: any line ending, comments skipped, data lines joined.

    An event that the body's end cuts off is not yielded, as the standard asks.
    """
    body = body.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in body:
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    name, data, start = "", bytearray(), 0
    while (end := body.find(b"\n", start)) >= 0:  # what follows the last line ending is no whole line
        line, start = body[start:end], end + 1
        if not line:
            if data:
                yield ServerEvent(name or "message", data[:-1].decode("utf-8", "replace"))
            name, data = "", bytearray()
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            data += value.removeprefix(b" ")
            data += b"\n"
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
