"""The upstream half of an exchange: connects, sends the request, hands the response on, names failures."""

from collections.abc import Callable
from time import perf_counter
from typing import Literal, Protocol

from gateway.proxy.admission import PREFLIGHT
from gateway.proxy.body import TAKING_PRIORITY, with_priority
from gateway.proxy.connection import UpstreamConnection
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.headers import RequestHead, ResponseHead, SentLines, without
from gateway.proxy.pool import ConnectFailure
from gateway.proxy.refusals import AUDIT_DEFERRED, Refusal, stream_error_event, upstream_error, upstream_timeout
from gateway.proxy.response import ClientResponse
from gateway.proxy.sampled_copy import RelayedRequest
from gateway.proxy.types import EndReason
from gateway.proxy.upstreams import GATEWAY_ERRORS, Upstream

STALE_SECONDS = 1.0
"""A reused connection that dies within this time of a request was closed while idle: the request was never read."""


class ClientSide(Protocol):
    """The receiver of the response."""

    write: Callable[[bytes], None]

    @property
    def is_write_paused(self) -> bool: ...


class ForwardedExchange(RelayedRequest, Protocol):
    """The exchange to forward, which hears what the upstream answers."""

    target: bytes
    response: ClientResponse
    is_observed: bool
    """It wants to hear of the response: only then are `on_response_head` and `on_response_body` called."""

    def on_response_begun(self) -> None:
        """The head of an answer that comes in pieces is there."""

    def on_response_head(self, status: int, head: ResponseHead) -> None: ...

    def on_response_body(self, data: bytes) -> None:
        """A piece of the body; not empty."""

    def end(self, outcome: EndReason, *, truncated: bool) -> None:
        """Called once. `truncated`: the client was sent a part that its framing does not end."""


class Forwarding:
    """Calls `exchange.end` once, unless it is released before."""

    def __init__(
        self, plane: DataPlane, exchange: ForwardedExchange, client: ClientSide, upstream: Upstream, waits_since: float
    ) -> None:
        """`waits_since`: time.perf_counter() from which the exchange waits for an upstream."""
        self._plane = plane
        self._exchange = exchange
        self._client = client
        self._response = exchange.response
        self.upstream = upstream
        """The one chosen last."""
        self._waits_since = waits_since
        self._tried: list[Upstream] = []
        self._connection: UpstreamConnection | None = None
        self._is_waiting = False
        self._was_repeated = False
        self._sent_at = 0.0
        self._silent_since = 0.0
        """Begin of the wait for the first byte: asked for a connection, sent the request, or read on after a pause."""
        self._status = 0
        self.was_sent = False
        """The request was written to a connection that lives: from then on no other upstream may get it."""
        self.first_chunk_at: float | None = None
        """time.perf_counter() of the first piece of the response's body."""
        self._last_received_at: float | None = None
        self._unwritten: list[bytes] = []
        """What the present packet brought, so that it leaves in one write."""
        self._kind = upstream.waits.replies
        """What this request is counted among: streams or replies that wait, or audits."""

    def start(self) -> None:
        """Asks the upstream's pool for a connection."""
        upstream, exchange = self.upstream, self._exchange
        upstream.outstanding += 1
        waits = upstream.waits
        self._kind = kind = (
            waits.audits if exchange.head.is_audit else waits.streams if exchange.body.stream else waits.replies
        )
        kind.waiting[self] = self._waits_since
        self._tried.append(upstream)
        self._acquire()

    def _acquire(self) -> None:
        self._is_waiting = True
        self.upstream.pool.acquire(self)
        if self._is_waiting:
            self._silent_since = perf_counter()

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Take the connection from the pool: ours until the end."""
        self._is_waiting = False
        self._connection = connection
        if not self.was_sent:
            self.was_sent = True
            self._plane.stats.started(self.upstream.name)
        exchange = self._exchange
        content = exchange.body.content
        if exchange.head.is_audit and self.upstream.config.priority_scheduling and exchange.path in TAKING_PRIORITY:
            content = with_priority(content, self._plane.config.audits.priority)
        connection.send(self, self._request_head(content), content, bodiless=exchange.method == b"HEAD")
        self._sent_at = self._silent_since = connection.received_at
        if self._client.is_write_paused:
            connection.pause_reading()

    def _request_head(self, content: bytes) -> bytes:
        exchange = self._exchange
        head = exchange.head
        noted = head.sent.get(self.upstream) if head.sent is not None else None
        if noted is None or noted[0] is not exchange.key:
            noted = self._note_lines(head)
        length = b"content-length: %d\r\n" % len(content) if content or head.has_body else b""
        trace = exchange.traceparent_line
        return b"".join((noted[1], length, trace, b"x-request-id: ", self._response.request_id, noted[2]))

    def _note_lines(self, head: RequestHead) -> SentLines:
        """Return the lines before and behind the length and the id: the same whenever this head comes again."""
        exchange, upstream = self._exchange, self.upstream
        lines = head.lines_but_id(
            pass_credentials=not (self._plane.admission.checks_keys or upstream.authorization_line),
            pass_priority=exchange.key.may_set_priority and not head.is_audit,
        )
        if head.is_audit and upstream.audit_lines:
            lines = [*without(lines, upstream.audit_names), *upstream.audit_lines]
        start = (exchange.method, b" ", upstream.prefix, exchange.target, b" HTTP/1.1\r\n")
        own_key = upstream.authorization_line if exchange.key is not PREFLIGHT else b""
        before = b"".join((*start, upstream.host_line, own_key))
        noted = (exchange.key, before, b"".join((b"\r\n", *lines, b"\r\n")))
        if head.sent is None:
            head.sent = {}
        head.sent[upstream] = noted
        return noted

    def on_connect_failure(self, failure: ConnectFailure) -> None:
        """Handle a failure in the pool. Not a byte was sent, so any other upstream will do."""
        self._is_waiting = False
        other = None if self.was_sent else self._other()
        if other is not None:
            self._move_to(other)
        elif failure.timed_out:
            self._time_out(str(failure), "connect")
        else:
            self._fail(upstream_error(self.upstream.name, str(failure)), "upstream_error")

    def on_pool_unavailable(self) -> None:
        """Take note that the pool is unavailable: a connection there may be long in coming."""
        other = None if self.was_sent else self._other()
        if other is not None and other.is_available:
            self.upstream.pool.withdraw(self)
            self._move_to(other)

    def _other(self) -> Upstream | None:
        return self._plane.choose(self._exchange.head, self._exchange.body, exclude=self._tried)

    def _move_to(self, other: Upstream) -> None:
        self.upstream.outstanding -= 1
        self._kind.waiting.pop(self, None)
        self.upstream = other
        self.start()

    # From the connection.

    def on_informational(self, status: int, reason: bytes, head: ResponseHead) -> None:
        """1xx. No Expect of ours waits for a 100; the others are the client's."""
        if status != 100:
            self._client.write(self._response.informational(status, reason, head))

    def on_location(self, head: ResponseHead) -> None:
        """Let no client learn the upstream's own address."""
        head.lines = self.upstream.without_own_address(head.lines)

    def on_complete_response(self, status: int, reason: bytes, head: ResponseHead, body: bytes) -> None:
        connection, self._connection = self._connection, None
        exchange = self._exchange
        if connection is not None:
            self._last_received_at = connection.received_at
        if status == 404 and self._corrects_not_found(head):
            return
        if body:
            self.first_chunk_at = self._last_received_at
            if self._last_received_at is not None:
                self._kind.first_byte(self, self._last_received_at)
        if exchange.is_observed:
            exchange.on_response_head(status, head)
            if body:
                exchange.on_response_body(body)
        self._client.write(self._response.complete(status, reason, head, self.upstream.label_line, body))
        self._report_result(status)
        exchange.end("complete", truncated=False)

    def on_response_head(self, status: int, reason: bytes, head: ResponseHead) -> None:
        if status == 404 and self._corrects_not_found(head):
            return
        self._unwritten.append(self._response.head(status, reason, head, self.upstream.label_line))
        self._status = status
        self._exchange.on_response_begun()
        if self._exchange.is_observed:
            self._exchange.on_response_head(status, head)

    def _corrects_not_found(self, head: ResponseHead) -> bool:
        """Answer in place of an upstream that names its own models only, when none serves the model."""
        exchange = self._exchange
        refusal = self._plane.unknown_model(exchange.path, exchange.body)
        if refusal is None:
            return False
        if exchange.is_observed:
            exchange.on_response_head(404, head)
        self._client.write(self._response.refusal(refusal, self.upstream.label_line))
        self._report_result(404)
        exchange.end("complete", truncated=False)
        return True

    def on_response_body(self, data: bytes) -> None:
        if self.first_chunk_at is None:
            self.first_chunk_at = self._connection.received_at if self._connection is not None else perf_counter()
            self._kind.first_byte(self, self.first_chunk_at)
        self._unwritten.append(self._response.body(data))
        exchange = self._exchange
        if exchange.is_observed:
            exchange.on_response_body(data)

    def on_response_end(self) -> None:
        if self._connection is not None:
            self._last_received_at = self._connection.received_at
        self._connection = None
        if tail := self._response.end():
            self._unwritten.append(tail)
        self.on_packet_end()
        self._report_result(self._status)
        self._exchange.end("complete", truncated=False)

    def _report_result(self, status: int) -> None:
        """A complete answer ends a row of failures, or is one itself."""
        if status in GATEWAY_ERRORS:
            self.upstream.request_failed(f"answered {status}", self._sent_at)
        else:
            self.upstream.outliers.succeeded()
            self.upstream.has_served |= status < 300

    def on_packet_end(self) -> None:
        if self._unwritten:
            self._client.write(b"".join(self._unwritten))
            self._unwritten.clear()

    def chunk_writer(self) -> Callable[[bytes], None] | None:
        """The client's own, when it gets chunks and no one else listens."""
        if not self._response.is_chunked or self._exchange.is_observed:
            return None
        return self._client.write

    def on_upstream_lost(self, what: str, *, may_be_stale: bool) -> None:
        self._connection = None
        if may_be_stale and not self._was_repeated and perf_counter() - self._sent_at < STALE_SECONDS:
            self._was_repeated = True
            self.was_sent = False  # nobody has read it: any upstream may get it
            self._plane.stats.withdrawn(self.upstream.name)
            self._acquire()
        else:
            self.upstream.request_failed(what, self._sent_at)
            self._fail(upstream_error(self.upstream.name, what), "upstream_error")

    # From the exchange.

    def pause(self) -> None:
        if self._connection is not None:
            self._connection.pause_reading()

    def resume(self) -> None:
        if self._connection is not None:
            self._silent_since = perf_counter()
            self._connection.resume_reading()

    def check(self, now: float) -> None:
        limits = self.upstream.timeouts
        if now - self._exchange.started_at > limits.total:
            self._time_out(f"did not finish within {limits.total:g} s", "total")
        elif self._client.is_write_paused:
            return  # the silence is the client's
        elif self.first_chunk_at is None:
            if now - self._silent_since > limits.first_byte:
                self._upstream_timed_out(
                    "had no connection free" if self._is_waiting else "did not answer", "first_byte"
                )
        elif self._connection is not None and now - self._connection.received_at > limits.idle:
            self._upstream_timed_out("sent nothing more", "idle")

    @property
    def content(self) -> bytes:
        return self._exchange.body.content

    @property
    def sent_at(self) -> float:
        """time.perf_counter() at which it was sent; before that, when it came."""
        return self._sent_at or self._exchange.started_at

    def cut_off(self) -> None:
        self._fail(AUDIT_DEFERRED, "rejected")

    def on_drain_timeout(self) -> None:
        self._time_out("had not finished when the gateway stopped", None)

    def release(self) -> None:
        """The exchange is over: aborts what is still going on at the upstream."""
        self.upstream.outstanding -= 1
        self._kind.waiting.pop(self, None)
        if self._is_waiting:
            self.upstream.pool.withdraw(self)
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def overhead(self, started_at: float, now: float) -> float:
        """Seconds spent in the gateway: until the request was written, and after the last byte came back."""
        before = (self._sent_at or now) - started_at
        return before + (now - self._last_received_at if self._last_received_at is not None else 0.0)

    # Failures.

    def _upstream_timed_out(self, what: str, limit: Literal["first_byte", "idle"]) -> None:
        what = f"{what} for {getattr(self.upstream.timeouts, limit):g} s"
        if not self._is_waiting:
            self.upstream.request_failed(what, self._sent_at)
        self._time_out(what, limit)

    def _time_out(self, what: str, limit: str | None) -> None:
        self._fail(upstream_timeout(self.upstream.name, what, limit), "timed_out")

    def _fail(self, refusal: Refusal, outcome: EndReason) -> None:
        """Tells the client in the way that is left: a status, an event, or a visibly broken connection."""
        response, is_cut_off = self._response, False
        self.on_packet_end()
        if not response.has_head:
            self._client.write(response.refusal(refusal, self.upstream.label_line))
        elif response.can_append_event:
            self._client.write(response.body(stream_error_event(self._exchange.path, refusal)) + response.end())
        else:
            is_cut_off = True
        self._exchange.end(outcome, truncated=is_cut_off)
