"""One connection to an upstream, without tasks. The parser refuses conflicting lengths and malformed heads."""

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import httptools

from gateway.proxy.head_cache import CachedHead, split_head
from gateway.proxy.headers import Header, ResponseHead

_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}")
"""No extension, which would be a hop's own business, and no size that needs more digits than a packet can hold."""
_MAX_SIZE_LINE = 10
_KNOWN_SIZES = 4096

_HEAD_END = b"\r\n\r\n"

_sizes: dict[bytes, int] = {}
"""Sizes that were read before: the sizes of tokens' events are few."""


def are_complete_chunks(packet: bytes) -> bool:
    """Return whether these are complete chunks, at least a single chunk, without the last, empty chunk."""
    position, length = 0, len(packet)
    while True:
        digits = packet[position : packet.find(b"\r\n", position, position + _MAX_SIZE_LINE)]
        size = _sizes.get(digits) or (int(digits, 16) if _SIZE.fullmatch(digits) else 0)
        if size and len(_sizes) < _KNOWN_SIZES:
            _sizes[digits] = size
        end = position + len(digits) + 4 + size
        if not size or packet[end - 2 : end] != b"\r\n":
            return False
        if end == length:
            return True
        position = end


def ends_between_chunks(packet: bytes) -> bool:
    """Return whether a packet, a head and the beginning of a chunked body to the parser, ends in complete chunks."""
    end = packet.find(_HEAD_END)
    rest = packet[end + len(_HEAD_END) :]
    return end >= 0 and (not rest or are_complete_chunks(rest))


logger = logging.getLogger(__name__)

MAX_HEAD_BYTES = 256 * 1024

_SWITCHING_PROTOCOLS = 101
_WITHOUT_LENGTH = frozenset({204, 304})


@dataclass(slots=True)  # a named tuple's fields take longer to reach
class _KnownResponse:
    """A head that came before, and the parser's result for it."""

    head: CachedHead
    status: int
    reason: bytes
    parsed: ResponseHead


class ResponseSink(Protocol):
    """Takes the parts of a single response in order; either its end or its loss comes last, and only either of them."""

    def on_complete_response(self, status: int, reason: bytes, head: ResponseHead, body: bytes) -> None:
        """Head, body and end in one: nothing came before and nothing comes after."""

    def on_informational(self, status: int, reason: bytes, head: ResponseHead) -> None: ...

    def on_response_head(self, status: int, reason: bytes, head: ResponseHead) -> None: ...

    def on_response_body(self, data: bytes) -> None: ...

    def on_response_end(self) -> None: ...

    def on_packet_end(self) -> None:
        """Everything that one packet held was told: time to pass it on."""

    def chunk_writer(self) -> Callable[[bytes], None] | None:
        """Return a function that takes packets of complete chunks in place of this sink; None: each packet comes here.
        Asked behind a packet that was told. What is not complete chunks, and the last chunk, comes here as before.
        """

    def on_location(self, head: ResponseHead) -> None:
        """The head has a Location or Content-Location, whose value may be changed before the head is handed on."""

    def on_upstream_lost(self, what: str, *, may_be_stale: bool) -> None:
        """The response will not come, or not to its end. `may_be_stale`: reused connection, not one byte answered."""


class ConnectionOwner(Protocol):
    """The owner that gets the connection back."""

    def released(self, connection: "UpstreamConnection") -> None: ...

    def lost(self, connection: "UpstreamConnection") -> None: ...


class UpstreamConnection(asyncio.Protocol):
    """Carries one exchange at a time; `is_reusable` says whether another may follow."""

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made, before any use
        self._parser: Any = httptools.HttpResponseParser(self)
        self._sink: ResponseSink | None = None
        self._is_reused = False
        self._has_received = False
        self.idle_since = 0.0
        self.received_at = 0.0
        """time.perf_counter() of the newest bytes from the upstream, or of the request while there are none."""
        self._head_bytes = 0
        self._headers: list[Header] = []
        self._reason = b""
        self._bodiless = False
        self._until_close = False
        self._is_between_chunks = False
        """What comes next begins with the size of a chunk, and the parser waits for one too."""
        self._chunk_writer: Callable[[bytes], None] | None = None
        """Where complete chunks go, while the parser stands between two of them."""
        self._head_complete = False
        self._informational = False
        self._ended = False
        self._is_reusable = True
        self._parsed: ResponseHead | None = None
        self._cached: _KnownResponse | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream transport, by create_connection

    def send(self, sink: ResponseSink, head: bytes, body: bytes, *, bodiless: bool) -> None:
        """Writes a request. `bodiless`: the response has no body whatever it announces (HEAD)."""
        self._sink = sink
        self._bodiless = bodiless
        self._has_received = self._head_complete = self._until_close = self._ended = self._is_between_chunks = False
        self._head_bytes = 0
        if len(body) < 65536:
            self.transport.write(head + body)
        else:
            self.transport.write(head)
            self.transport.write(body)
        self.received_at = perf_counter()

    def abort(self) -> None:
        """Closes at once; the sink hears no more."""
        self._sink = self._chunk_writer = None
        self.transport.abort()

    def pause_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        self.received_at = perf_counter()  # the silence so far was asked for
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._chunk_writer is not None:
            if are_complete_chunks(data):
                self.received_at = perf_counter()
                self._chunk_writer(data)
                return
            self._chunk_writer = None
            self._is_between_chunks = False  # where the parser will stand behind this is not known here
        sink = self._sink
        if sink is None:
            self.transport.abort()  # nobody asked: whatever it is must not answer the next request
            return
        self.received_at = perf_counter()
        is_first, self._has_received = not self._has_received, True
        known_response = self._cached
        if (
            is_first
            and known_response is not None
            and not self._bodiless
            and (body := known_response.head.body_in(data)) is not None
        ):
            self._take_complete(sink, known_response, body)
            return
        if not self._head_complete:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            logger.exception("relay callback failed")
            self._fail("could not be relayed")
        except httptools.HttpParserUpgrade:
            self._fail("switched protocols without being asked")
        except httptools.HttpParserError as exc:
            if not self._ended:
                self._fail(f"sent a malformed response ({exc})")
            self._is_reusable = False
        if self._ended:
            if is_first:
                self._learn(data)
            self._complete()
        elif self._head_complete and self._sink is not None:
            self._sink.on_packet_end()
            self._follow_chunks(data, is_first=is_first)
        elif self._head_bytes > MAX_HEAD_BYTES:
            self._fail(f"sent more than {MAX_HEAD_BYTES} bytes of headers")

    def _take_complete(self, sink: ResponseSink, known_response: "_KnownResponse", body: bytes) -> None:
        self._sink = None
        self._is_reused = True
        reusable = not self.transport.get_write_buffer_size()
        sink.on_complete_response(known_response.status, known_response.reason, known_response.parsed, body)
        if reusable and not self.transport.is_closing():
            self._owner.released(self)
        else:
            self.transport.abort()

    def _learn(self, data: bytes) -> None:
        """Remembers the head of a response that came in one packet, if the next one with it can be taken unparsed."""
        parsed, status = self._parsed, self._parser.get_status_code()
        if not self._is_reusable or parsed is None or parsed.content_length is None or status in _WITHOUT_LENGTH:
            return
        split = split_head(data, int(parsed.content_length))
        if split is not None:
            self._cached = _KnownResponse(CachedHead(*split), status, self._reason, parsed)

    def _follow_chunks(self, packet: bytes, *, is_first: bool) -> None:
        """Finds out whether complete chunks may from now on go past the parser, which took this packet."""
        parsed, sink = self._parsed, self._sink
        if is_first:
            is_chunked = parsed is not None and parsed.transfer_encoding == b"chunked"
            self._is_between_chunks = is_chunked and ends_between_chunks(packet)
        elif self._is_between_chunks:
            self._is_between_chunks = are_complete_chunks(packet)
            if self._is_between_chunks and sink is not None:
                self._chunk_writer = sink.chunk_writer()

    def eof_received(self) -> None:
        """Lets the transport close: connection_lost decides what that means."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.lost(self)
        self._chunk_writer = None
        sink = self._sink
        if sink is None:
            return
        if self._until_close and exc is None:
            self._sink = None
            sink.on_response_end()
        else:
            self._fail(
                "closed the connection "
                + ("before the end of its response" if self._has_received else "without an answer")
            )

    # Callbacks of the response parser.

    def on_message_begin(self) -> None:
        if self._ended:
            self._is_reusable = False  # bytes beyond the response that was asked for
        self._headers = []
        self._reason = b""

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        sink = self._sink
        if sink is None or self._ended:
            return
        parser = self._parser
        status = parser.get_status_code()
        head = self._parsed = ResponseHead(self._headers)
        if head.has_location:
            sink.on_location(head)
        if status < 100:
            self._fail(f"sent status {status}, which is not HTTP")
            return
        self._informational = status < 200
        if self._informational:
            if head.transfer_encoding or head.content_length not in (None, b"0"):
                self._fail(f"sent a body with status {status}")
                return
            if status != _SWITCHING_PROTOCOLS:
                sink.on_informational(status, self._reason, head)
            return
        if head.transfer_encoding not in (b"", b"chunked"):
            self._fail(f"sent transfer-encoding {head.transfer_encoding.decode('latin-1')}, which is not supported")
            return
        self._head_complete = True
        self._is_reusable = bool(parser.should_keep_alive())
        self._until_close = head.content_length is None and not head.transfer_encoding and status not in (204, 304)
        sink.on_response_head(status, self._reason, head)
        if self._bodiless:
            self._ended = True
            self._is_reusable = False  # the parser waits for a body that does not come

    def on_body(self, data: bytes) -> None:
        if self._sink is not None and not self._ended:
            self._sink.on_response_body(data)

    def on_message_complete(self) -> None:
        if self._head_complete and not self._informational:
            self._ended = True

    # Ends.

    def _complete(self) -> None:
        """The response is complete. Runs outside the parser, because the owner may start the next request at once."""
        sink, self._sink = self._sink, None
        self._is_reused = True
        reusable = self._is_reusable and not self.transport.get_write_buffer_size()
        if sink is not None:
            sink.on_response_end()
        if reusable and not self.transport.is_closing():
            self._owner.released(self)
        else:
            self.transport.abort()

    def _fail(self, what: str) -> None:
        sink, self._sink = self._sink, None
        may_be_stale = self._is_reused and not self._has_received
        self.transport.abort()
        if sink is not None:
            sink.on_upstream_lost(what, may_be_stale=may_be_stale)
