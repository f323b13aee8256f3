"""Server-sent events, as the standard reads them (WHATWG HTML, 9.2.6)."""

from collections.abc import Iterator
from typing import NamedTuple

from auditors.text.lenient_json import read_piece
from auditors.types import Exchange


class ServerEvent(NamedTuple):
    """One server-sent event."""

    name: str
    data: str


def is_event_stream(exchange: Exchange) -> bool:
    """Return whether the response consists of events. A response that was joined before it was stored does not."""
    if not (exchange.stream or exchange.content_type.startswith("text/event-stream")):
        return False
    return not exchange.response_body.lstrip(b" \t\r\n").startswith(b"{")


def server_events(body: bytes, *, takes_last: bool = False) -> Iterator[ServerEvent]:
    """Events of a stream without comments; `takes_last`: also a last whole JSON object that the end cuts off."""
    body = body.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in body:
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if takes_last:
        end, body = len(body), body + b"\n\n"
    else:
        end = len(body) + 1
    name, data, start = "", bytearray(), 0
    while (line_end := body.find(b"\n", start)) >= 0:  # what follows the last line ending is no whole line
        line, start = body[start:line_end], line_end + 1
        if not line:
            if data:
                event = ServerEvent(name or "message", data[:-1].decode("utf-8", "replace"))
                if line_end < end or _is_whole(event.data):
                    yield event
            name, data = "", bytearray()
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            data += value.removeprefix(b" ")
            data += b"\n"
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")


def _is_whole(data: str) -> bool:
    try:
        return isinstance(read_piece(data.strip()), dict)
    except ValueError:
        return False
