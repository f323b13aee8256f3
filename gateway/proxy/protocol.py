"""uvicorn's HTTP protocol with one fork: /v1 and listed paths become relays, everything else goes on to the ASGI app.
tests/gateway/proxy/test_protocol_seam.py pins the attributes and methods of uvicorn that this relies on.
"""

import logging
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.proxy import refusals
from gateway.proxy.client_limits import BadHead, Wait, require_small_head
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.head_cache import CachedHead, split_head
from gateway.proxy.headers import RequestHead
from gateway.proxy.refusals import Refusal
from gateway.proxy.relay import Relay
from gateway.proxy.response import ClientResponse
from gateway.proxy.target import app_target, asks_websocket, head_without_upgrade, is_under_v1, relay_target

logger = logging.getLogger(__name__)

LINGERING_SECONDS = 2.0
"""After an early refusal the body is read on this long, so that the client sees the answer, not a reset."""
FRAMING_PER_BODY_BYTE = 16
"""Bytes that chunk sizes may add, for each byte of body, to a body of many tiny chunks."""
MAX_UNREPEATED_HEADS = 8
"""Heads in a row that are remembered and do not come again, before this connection's are only parsed."""
MIN_IDLE_CHECK_SECONDS = 1.0
"""Between two checks of an idle connection whose next request has begun."""

PIPELINE_LENGTH = 8
"""Requests that may wait for their turn before we stop reading, and with that stop noticing that a client is gone."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def make_protocol(dataplane: DataPlane) -> "type[RelayProtocol]":
    return type("BoundRelayProtocol", (RelayProtocol,), {"plane": dataplane})


@dataclass(slots=True)  # a named tuple's fields take longer to reach
class _CachedRequest:
    """A head that came before, and its parsed form. `parsed` belongs to a single request at a time."""

    head: CachedHead
    method: bytes
    target: bytes
    parsed: RequestHead


class RelayProtocol(HttpToolsProtocol):
    """One client connection. `cycle` is uvicorn's word for the request being read, relayed or not."""

    plane: DataPlane
    """An attribute of the class: one assignment gives every connection's next request another configuration."""
    is_draining = False
    """An attribute of the class too. True: every response says `connection: close`, so that clients move."""

    __slots__ = (
        *("_active", "_asks_websocket", "_cached", "_chunked_bytes", "_discards_input", "_heads_left", "_idle_since"),
        *("_in_head", "_in_message", "_is_chunked", "_is_upgrade_ignored", "_measured_bytes", "_messages"),
        *("_packet_bytes", "_wait", "write"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._active: Relay | None = None
        """The relay whose turn it is to respond."""
        self._packet_bytes = 0
        self._measured_bytes = -1
        """Bytes of the packets after the one in which this head, or chunked body, began; -1 during that one."""
        self._in_head = False
        self._is_chunked = False
        self._chunked_bytes = 0
        self._wait = Wait()
        self._in_message = False
        self._messages = 0
        """Begun by the present packet."""
        self._cached: _CachedRequest | None = None
        self._heads_left = MAX_UNREPEATED_HEADS
        self._idle_since = 0.0
        self.write: Callable[[bytes], None]
        """The transport's own, without a detour."""
        self._is_upgrade_ignored = False
        self._asks_websocket = False
        self._discards_input = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.write = transport.write
        self.plane.clients.add(self)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            # asyncio leaves this out on listening sockets made by hand, and each second packet then waits 40 ms.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    # Reading requests.

    def data_received(self, data: bytes) -> None:
        cached = self._cached
        if cached is not None and not self._in_message and self.cycle.response_complete:
            content = cached.head.body_in(data)
            if content is not None:
                self._repeat(cached, content)
                return
        self._parse(data)

    def _repeat(self, cached: "_CachedRequest", content: bytes) -> None:
        self._heads_left = MAX_UNREPEATED_HEADS
        head = cached.parsed
        head.renew(len(content))
        response = ClientResponse(head.request_id, keep_alive=not self.is_draining)
        relay = Relay(self.plane, self, cached.method, cached.target, head, response)
        self.cycle = relay  # type: ignore[assignment]  # a relay answers to the names uvicorn uses of a cycle
        self._active = relay
        relay.begin_complete(content)

    def _learn(self, packet: bytes) -> None:
        """Remembers the head of a request that came in one packet, if the next one with it can be taken unparsed."""
        relay: Any = self.cycle
        if not isinstance(relay, Relay) or not relay.response.keep_alive or relay.method != b"POST":
            return
        if not is_under_v1(relay.target):
            return  # the next configuration may not list it
        head = relay.head
        if head.content_length is None or head.expects_continue or self.parser.get_http_version() != "1.1":
            return
        split = split_head(packet, head.content_length)
        if split is not None:
            self._heads_left -= 1
            self._cached = _CachedRequest(CachedHead(*split), relay.method, relay.target, head)

    def _parse(self, packet: bytes) -> None:
        begins_clean, self._messages = not self._in_message, 0
        if not self._heads_left:
            self._cached = None
        data = packet
        size = self._packet_bytes = len(packet)
        while data and not self._discards_input:
            try:
                self.parser.feed_data(data)
                data = b""
            except httptools.HttpParserUpgrade as upgrade:
                data = self._read_without_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserError as exc:
                self._refuse_bytes(exc)
                return
        if begins_clean and self._messages == 1 and not self._in_message and self._heads_left:
            self._learn(packet)
        if self._in_head or self._is_chunked:
            self._measure(size)

    def _measure(self, size: int) -> None:
        """Limit bytes that are neither counted as a body nor held in memory: they must not grow without end."""
        if self._discards_input:
            return
        if self._measured_bytes < 0:
            self._measured_bytes = 0  # where in its packet the head began is not known: it may follow a large body
            return
        self._measured_bytes += size
        limit = self.plane.config.server.max_header_bytes
        if self._in_head:
            if self._measured_bytes > limit:
                self._stop_reading(refusals.head_too_large(limit))
        elif self._measured_bytes > limit + FRAMING_PER_BODY_BYTE * self._chunked_bytes:
            self._stop_reading(refusals.framing_too_large(limit))

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self._in_head = self._in_message = True
        self._messages += 1
        self._is_chunked = False
        self._measured_bytes = -1

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what comes after the body are trailers, which are dropped
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        limits = self.plane.config.server
        if (
            len(self.headers) > limits.max_headers
            or self._packet_bytes > limits.max_header_bytes
            or self._measured_bytes >= 0
        ):
            require_small_head(self.url, self.headers, limits)
        target = relay_target(self.url, self.plane.relayed_paths)
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise BadHead(refusals.method_not_relayed("CONNECT"))
            self._is_upgrade_ignored = True
            self._asks_websocket = target is not None and asks_websocket(self.parser.get_method(), self.headers)
        elif target is None:
            self._hand_to_app()
        elif not self.transport.is_closing():
            self._start_or_queue(self._relay_to(target))

    def _hand_to_app(self) -> None:
        """Tells uvicorn from the beginning what was held back until the path was known."""
        url, headers = self.url, self.headers
        super().on_message_begin()
        self.url = app_target(url)
        for name, value in headers:
            super().on_header(name, value)
            if name == b"transfer-encoding":
                self._expect_chunks(value)
        super().on_headers_complete()

    def _expect_chunks(self, coding: bytes) -> None:
        """Refuse any other coding: we and the proxy in front of us might see the body end in different places."""
        if coding.strip().lower() != b"chunked" or self.parser.get_http_version() == "1.0":
            raise BadHead(refusals.transfer_coding(coding))
        self._is_chunked = True
        self._chunked_bytes = 0
        self._measured_bytes = -1

    def _relay_to(self, target: bytes) -> Relay:
        method = self.parser.get_method()
        version = self.parser.get_http_version()
        is_http_1_0 = version == "1.0"
        if version != "1.1" and not is_http_1_0:
            raise BadHead(refusals.version_not_supported(version))
        if method == b"TRACE":
            raise BadHead(refusals.method_not_relayed("TRACE"))
        head = RequestHead(self.headers)
        if head.transfer_coding is not None:
            self._expect_chunks(head.transfer_coding)
        response = ClientResponse(
            head.request_id,
            is_head_request=method == b"HEAD",
            is_http_1_0=is_http_1_0,
            keep_alive=not is_http_1_0 and not self.is_draining and self.parser.should_keep_alive(),
        )
        relay = Relay(self.plane, self, method, target, head, response)
        if self._asks_websocket:
            self._asks_websocket = False
            relay.asks_websocket = True
        return relay

    def _start_or_queue(self, relay: Relay) -> None:
        previous = self.cycle
        self.cycle = relay  # type: ignore[assignment]  # a relay answers to the names uvicorn uses of a cycle
        if previous is None or previous.response_complete:
            self._active = relay
            relay.begin()
        else:
            self.pipeline.appendleft((relay, self.app))  # type: ignore[arg-type]  # see _start_asgi_task
            if len(self.pipeline) >= PIPELINE_LENGTH:
                self.flow.pause_reading()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if isinstance(cycle, Relay):
            self._active = cycle
            # Not at once: a long pipeline of requests that are all refused would nest without end.
            self.loop.call_soon(cycle.begin)
        else:
            super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        cycle: Any = self.cycle
        if self._is_chunked:
            self._chunked_bytes += len(body)
        if isinstance(cycle, Relay):
            cycle.on_body(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        cycle: Any = self.cycle
        self._in_message = False
        if self._is_upgrade_ignored:
            return
        if not isinstance(cycle, Relay):
            super().on_message_complete()
        elif not cycle.response_complete:
            cycle.on_request_complete()
        elif not cycle.keep_alive:
            self.transport.close()

    def _read_without_upgrade(self, rest: bytes) -> bytes:
        """Return the request without its upgrade, to parse again: uvicorn would drop the body. WebSockets get a 426."""
        self._is_upgrade_ignored = False
        head = head_without_upgrade(self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return head + rest

    # Bytes that are no request.

    def _refuse_bytes(self, exc: httptools.HttpParserError) -> None:
        cause = exc.__context__ if isinstance(exc, httptools.HttpParserCallbackError) else exc
        if isinstance(cause, BadHead):
            self._stop_reading(cause.refusal)
            return
        if not isinstance(cause, httptools.HttpParserError):
            logger.error("reading a request failed", exc_info=exc)
            cause = exc
        self._stop_reading(refusals.malformed_request(str(cause)))

    def _stop_reading(self, refusal: Refusal) -> None:
        """Answers the requests before these bytes, then this, then closes."""
        self._discards_input = True
        self._cached = None
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self._answer_and_close(refusal)
        elif isinstance(cycle, Relay):
            if not cycle.request_complete:
                cycle.refuse(refusal)
            cycle.keep_alive = False
        elif cycle.more_body and not cycle.response_started and not self.pipeline and self._active is None:
            self._answer_and_close(refusal)
        else:
            cycle.keep_alive = False

    def _answer_and_close(self, refusal: Refusal) -> None:
        response = ClientResponse("none", keep_alive=False)
        self.transport.write(response.refusal(refusal))
        self._lingering_close()

    # A client that is slow.

    def check_client(self, now: float) -> None:
        if self._discards_input or self.transport.is_closing():
            return
        cycle: Any = self.cycle
        limits = self.plane.config.server
        if cycle is not None and not cycle.response_complete:
            # A relay keeps its own time. The app reads a body only as a whole.
            owes_body = not isinstance(cycle, Relay) and cycle.more_body
            if self._wait.seconds(cycle if owes_body else None, now) > limits.body_timeout_seconds and owes_body:
                self._stop_reading(refusals.request_stalled(limits.body_timeout_seconds))
        elif self._in_head:
            if self._wait.seconds(self.headers, now) > limits.header_timeout_seconds:
                self._stop_reading(refusals.head_stalled(limits.header_timeout_seconds))
        elif cycle is None:
            if self._wait.seconds(self, now) > limits.header_timeout_seconds:
                self.transport.close()
        # Answered, and either idle or still sending the body of a request that was refused.
        elif self._wait.seconds(cycle, now) > self.timeout_keep_alive:
            self.transport.close()

    # Writing responses: the client's side of a relay.

    @property
    def is_write_paused(self) -> bool:
        return self.flow.write_paused

    def relay_finished(self, relay: Relay, *, truncated: bool) -> None:
        self._active = None
        if truncated:
            if relay.response.is_close_delimited:
                sock = self.transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.transport.abort()
        elif not relay.response.keep_alive:
            if relay.request_complete:
                self.transport.close()
            else:
                self._lingering_close()
        self.on_response_complete()

    def _lingering_close(self) -> None:
        """Closes our half now and the rest soon: closing both on a client that still sends would reset the answer."""
        self._cached = None
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGERING_SECONDS, self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._active is not None:
            self._active.on_client_slow()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._active is not None:
            self._active.on_client_ready()

    # Ends.

    def on_response_complete(self) -> None:
        """Complete the response as uvicorn does, with a timer a connection in place of a timer a request."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if self.flow.read_paused:
            self.flow.resume_reading()
        self._idle_since = perf_counter()
        if self.timeout_keep_alive_task is None:
            self._set_keep_alive_timer(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Closes a connection that has been idle long enough, else sets the timer again for when it may have been."""
        self.timeout_keep_alive_task = None
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            return  # its end sets the timer again
        left = self.timeout_keep_alive - (perf_counter() - self._idle_since)
        if left > 0 or self._in_message:
            self._set_keep_alive_timer(max(left, MIN_IDLE_CHECK_SECONDS))
        else:
            super().timeout_keep_alive_handler()

    def _set_keep_alive_timer(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self.plane.clients.discard(self)
        relays: tuple[Any, ...] = (self._active, *(cycle for cycle, _ in self.pipeline), self.cycle)
        for relay in relays:
            if isinstance(relay, Relay):
                relay.on_client_gone()
        cycle: Any = self.cycle
        if isinstance(cycle, Relay):
            self.cycle = None  # type: ignore[assignment]  # uvicorn's own state before the first request
        self._active = self._cached = None
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
