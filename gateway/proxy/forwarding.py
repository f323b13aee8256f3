"""The upstream half of one exchange: get a connection, send the request, hand the response on, name what went wrong."""

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Literal, Protocol

from gateway.proxy.connection import UpstreamConnection
from gateway.proxy.headers import RequestHead, ResponseHead, SentLines
from gateway.proxy.pool import ConnectFailure
from gateway.proxy.refusals import Refusal, stream_error_event, upstream_error, upstream_timeout
from gateway.proxy.types import EndReason
from gateway.proxy.upstreams import FAULTS, Upstream

if TYPE_CHECKING:
    from gateway.proxy.dataplane import DataPlane
    from gateway.proxy.relay import Relay

STALE_SECONDS = 1.0
"""A reused connection that dies within this time of a request was closed while idle: the request was never read."""


class ClientSide(Protocol):
    """Where the response goes."""

    write: Callable[[bytes], None]

    @property
    def is_write_paused(self) -> bool: ...


class Forwarding:
    """Calls `relay.end` once, unless it is let go of before."""

    def __init__(self, plane: "DataPlane", relay: "Relay", client: ClientSide, upstream: Upstream) -> None:
        self._plane = plane
        self._relay = relay
        self._client = client
        self._response = relay.response
        self.upstream = upstream
        """The one chosen last."""
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

    def start(self) -> None:
        """Asks the upstream's pool for a connection."""
        self.upstream.outstanding += 1
        self._tried.append(self.upstream)
        self._acquire()

    def _acquire(self) -> None:
        self._is_waiting = True
        self.upstream.pool.acquire(self)
        if self._is_waiting:
            self._silent_since = perf_counter()

    def on_connection(self, connection: UpstreamConnection) -> None:
        """From the pool: ours until the end."""
        self._is_waiting = False
        self._connection = connection
        if not self.was_sent:
            self.was_sent = True
            self._plane.stats.started(self.upstream.name)
        relay = self._relay
        connection.send(self, self._request_head(), relay.body.content, bodiless=relay.method == b"HEAD")
        self._sent_at = self._silent_since = connection.received_at
        if self._client.is_write_paused:
            connection.pause_reading()

    def _request_head(self) -> bytes:
        relay, upstream = self._relay, self.upstream
        head, content = relay.head, relay.body.content
        noted = head.sent.get(upstream) if head.sent is not None else None
        if noted is None or noted[0] is not relay.key:
            noted = self._note_lines(head)
        length = b"content-length: %d\r\n" % len(content) if content or head.has_body else b""
        trace = head.traceparent_line if relay.observation is None else relay.observation.line
        return b"".join((noted[1], length, trace, b"x-request-id: ", self._response.request_id, noted[2]))

    def _note_lines(self, head: RequestHead) -> SentLines:
        """What stands before and behind the length and the id: the same whenever this head comes again."""
        relay, upstream = self._relay, self.upstream
        lines = head.lines_but_id(
            pass_credentials=not (self._plane.admission.checks_keys or upstream.authorization_line),
            pass_priority=relay.key.may_set_priority,
        )
        start = (relay.method, b" ", upstream.prefix, relay.target, b" HTTP/1.1\r\n")
        before = b"".join((*start, upstream.host_line, upstream.authorization_line))
        noted = (relay.key, before, b"".join((b"\r\n", *lines, b"\r\n")))
        if head.sent is None:
            head.sent = {}
        head.sent[upstream] = noted
        return noted

    def on_connect_failure(self, failure: ConnectFailure) -> None:
        """From the pool. No byte was sent, so any other upstream will do."""
        self._is_waiting = False
        other = None if self.was_sent else self._plane.choose(self._relay.body.served_model, but_not=self._tried)
        if other is not None:
            self._move_to(other)
        elif failure.timed_out:
            self._time_out(str(failure), "connect")
        else:
            self._fail(upstream_error(self.upstream.name, str(failure)), "upstream_error")

    def on_may_leave(self) -> None:
        """From the pool: a connection there may be long in coming."""
        other = None if self.was_sent else self._plane.choose(self._relay.body.served_model, but_not=self._tried)
        if other is not None and other.is_available:
            self.upstream.pool.withdraw(self)
            self._move_to(other)

    def _move_to(self, other: Upstream) -> None:
        self.upstream.outstanding -= 1
        self.upstream = other
        self.start()

    # From the connection.

    def on_informational(self, status: int, reason: bytes, head: ResponseHead) -> None:
        """1xx. No Expect of ours waits for a 100; the others are the client's."""
        if status != 100:
            self._client.write(self._response.informational(status, reason, head))

    def on_whole_response(self, status: int, reason: bytes, head: ResponseHead, body: bytes) -> None:
        """All of it at once, with a content-length."""
        connection, self._connection = self._connection, None
        relay = self._relay
        if connection is not None:
            self._last_received_at = connection.received_at
        if body:
            self.first_chunk_at = self._last_received_at
        if relay.copy is not None and not (relay.copy.accepts(status, head) and (not body or relay.copy.append(body))):
            relay.copy = None
        if relay.observation is not None:
            relay.observation.on_body(body)
        self._client.write(self._response.whole(status, reason, head, self.upstream.label_line, body))
        self._judge_answer(status)
        relay.end("complete", truncated=False)

    def on_response_head(self, status: int, reason: bytes, head: ResponseHead) -> None:
        """Status and headers."""
        self._unwritten.append(self._response.head(status, reason, head, self.upstream.label_line))
        self._status = status
        relay = self._relay
        if relay.copy is not None and not relay.copy.accepts(status, head):
            relay.copy = None

    def on_response_body(self, data: bytes) -> None:
        """A piece of the body, as it came."""
        if self.first_chunk_at is None:
            self.first_chunk_at = self._connection.received_at if self._connection is not None else perf_counter()
        self._unwritten.append(self._response.body(data))
        relay = self._relay
        if relay.observation is not None:
            relay.observation.on_body(data)
        if relay.copy is not None and not relay.copy.append(data):
            relay.copy = None

    def on_response_end(self) -> None:
        """The body is complete."""
        if self._connection is not None:
            self._last_received_at = self._connection.received_at
        self._connection = None
        if tail := self._response.end():
            self._unwritten.append(tail)
        self.on_packet_end()
        self._judge_answer(self._status)
        self._relay.end("complete", truncated=False)

    def _judge_answer(self, status: int) -> None:
        """A whole answer ends a row of failures, or is one itself."""
        if status in FAULTS:
            self.upstream.request_failed(f"answered {status}", self._sent_at)
        else:
            self.upstream.standing.succeeded()

    def on_packet_end(self) -> None:
        """Writes what came, at once."""
        if self._unwritten:
            self._client.write(b"".join(self._unwritten))
            self._unwritten.clear()

    def chunk_writer(self) -> Callable[[bytes], None] | None:
        """The client's own, when it gets chunks and nobody else listens."""
        relay = self._relay
        if not self._response.is_chunked or relay.copy is not None or relay.observation is not None:
            return None
        return self._client.write

    def on_upstream_lost(self, what: str, *, may_be_stale: bool) -> None:
        """The response will not come, or not to its end."""
        self._connection = None
        if may_be_stale and not self._was_repeated and perf_counter() - self._sent_at < STALE_SECONDS:
            self._was_repeated = True
            self.was_sent = False  # nobody has read it: any upstream may get it
            self._plane.stats.withdrawn(self.upstream.name)
            self._acquire()
        else:
            self.upstream.request_failed(what, self._sent_at)
            self._fail(upstream_error(self.upstream.name, what), "upstream_error")

    # From the relay.

    def pause(self) -> None:
        """Lets the upstream wait for the client."""
        if self._connection is not None:
            self._connection.pause_reading()

    def resume(self) -> None:
        """Ends a pause."""
        if self._connection is not None:
            self._silent_since = perf_counter()
            self._connection.resume_reading()

    def check(self, now: float) -> None:
        """Fails when one of the upstream's time limits has passed; `now` is time.perf_counter()."""
        limits = self.upstream.timeouts
        if now - self._relay.started_at > limits.total:
            self._time_out(f"did not finish within {limits.total:g} s", "total")
        elif self._client.is_write_paused:
            return  # the silence is the client's
        elif self.first_chunk_at is None:
            if now - self._silent_since > limits.first_byte:
                self._be_late("had no connection free" if self._is_waiting else "did not answer", "first_byte")
        elif self._connection is not None and now - self._connection.received_at > limits.idle:
            self._be_late("sent nothing more", "idle")

    def give_up(self) -> None:
        """The gateway stops."""
        self._time_out("had not finished when the gateway stopped", None)

    def let_go(self) -> None:
        """The exchange is over: aborts what is still going on at the upstream."""
        self.upstream.outstanding -= 1
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

    def _be_late(self, what: str, limit: Literal["first_byte", "idle"]) -> None:
        """The upstream itself was silent for too long."""
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
            self._client.write(response.body(stream_error_event(self._relay.path, refusal)) + response.end())
        else:
            is_cut_off = True
        self._relay.end(outcome, truncated=is_cut_off)
