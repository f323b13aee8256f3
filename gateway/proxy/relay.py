"""A request to an upstream: admitted, read, answered or refused, ended and counted exactly once. Every event is a plain
call from the protocol (client side), the forwarding half (upstream side) or the clock; only a policy uses a task.
"""

import asyncio
from time import perf_counter
from typing import Protocol

import msgspec

from gateway.proxy import refusals
from gateway.proxy.admission import ANONYMOUS, Client
from gateway.proxy.body import BodyLimit, RequestBody
from gateway.proxy.cors import is_preflight
from gateway.proxy.data_plane import MODELS_PATH, DataPlane
from gateway.proxy.filtered_forwarding import read_result, treated_forwarding
from gateway.proxy.forwarding import ClientSide, Forwarding
from gateway.proxy.headers import RequestHead, ResponseHead
from gateway.proxy.refusals import Refusal
from gateway.proxy.response import ClientResponse
from gateway.proxy.sampled_copy import SampledCopy, count_as_filtered, is_probe, start_copy
from gateway.proxy.types import LABELLED_ENDPOINTS, EndedRequest, EndReason, Treatment

SMALL_BODY_BYTES = 64 * 1024
"""A refused request's body up to this size is read to its end and forgotten, so that the connection can be kept."""

NO_BODY = RequestBody(b"")

_ENDPOINT_LABELS = {endpoint.encode(): endpoint for endpoint in LABELLED_ENDPOINTS}


class RelayClient(ClientSide, Protocol):
    """The interface that a relay needs from the client's connection."""

    def relay_finished(self, relay: "Relay", *, truncated: bool) -> None:
        """The response is over. `truncated`: it is cut off and its framing cannot show that: break the connection."""


class Relay:
    """One exchange, seen from the client. uvicorn reads `response_complete`, `disconnected` and sets `keep_alive`."""

    def __init__(
        self,
        plane: DataPlane,
        client: RelayClient,
        method: bytes,
        target: bytes,
        head: RequestHead,
        response: ClientResponse,
    ) -> None:
        self._plane = plane
        self._client = client
        self.method = method
        self.target = target
        self.path = target if target in _ENDPOINT_LABELS else target.partition(b"?")[0]
        self.head = head
        self.response = response
        self.started_at = perf_counter()
        if plane.cors is not None:
            response.set_cors(plane.cors.answer_lines(head.origin))
        self.asks_websocket = False
        """The client wants to change to a WebSocket; it is refused once its key is known."""
        self.response_complete = False
        self.request_complete = False
        self.disconnected = False
        self.key: Client = ANONYMOUS
        self.body = NO_BODY
        self._has_begun = False
        self._refusal: Refusal | None = None
        self._received: bytes | bytearray = b""
        self.held_bytes = 0
        self._limit: BodyLimit | None = None
        self._first_checked_at = 0.0
        self._grew_at = 0.0
        self._grew_to = 0
        self._forwarding: Forwarding | None = None
        self._copy: SampledCopy | None = None
        self._treatment: Treatment | None = None
        self._filtering: asyncio.Task[bytes | Refusal] | None = None
        """Task in which a policy looks at the request; it has its own time limit."""
        self._span = plane.instrumentation.start_span(head) if plane.instrumentation is not None else None
        self.is_observed = self._span is not None
        """True if a span or a sampled copy reads the response as it passes."""

    @property
    def keep_alive(self) -> bool:
        return self.response.keep_alive

    @keep_alive.setter
    def keep_alive(self, value: bool) -> None:
        self.response.keep_alive = value

    # From the client.

    def begin(self) -> None:
        """Begin when it is this request's turn on its connection: the headers are complete, the body may be."""
        if self.response_complete:
            return
        self._has_begun = True
        self._plane.exchange_began(self)
        if self._refusal is None:
            if self._answers_preflight():
                return
            self._admit()
        if self.request_complete:
            self._answer()
        elif self._refusal is not None:
            self._refuse(self._refusal)
        elif self.head.expects_continue:
            self._client.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def begin_complete(self, content: bytes) -> None:
        """Begin as `begin` does, for a request that came complete while its connection had no other request."""
        self._has_begun = self.request_complete = True
        self._received = content
        plane = self._plane
        plane.exchange_began(self)
        bodies = plane.bodies
        self.held_bytes = size = len(content)
        bodies.held += size
        admitted = plane.admission.admit(self.head, self.started_at)
        if isinstance(admitted, Refusal):
            self._refuse(admitted)
        elif bodies.held > bodies.most and not bodies.make_room():
            self._refuse(refusals.BUFFERS_FULL)
        else:
            self.key = admitted
            self._answer()

    def _admit(self) -> None:
        admission = self._plane.admission
        admit = admission.admit_preflight if is_preflight(self.method, self.head) else admission.admit
        admitted = admit(self.head, self.started_at)
        if isinstance(admitted, Refusal):
            self._refusal = admitted
            return
        self.key = admitted
        if self.asks_websocket:
            count_as_filtered(self._plane.tap, self.head)
            self._refusal = refusals.WEBSOCKET_REFUSED

    def _answers_preflight(self) -> bool:
        plane = self._plane
        if plane.cors is None or not is_preflight(self.method, self.head):
            return False
        count_as_filtered(plane.tap, self.head)
        lines = plane.cors.preflight_lines(self.head)
        if isinstance(lines, Refusal):
            self._refuse(lines)
        else:
            self._close_behind_large_body()
            self._client.write(self.response.empty(lines))
            self.end("complete")
        return True

    def on_body(self, data: bytes) -> None:
        if self.response_complete or self._refusal is not None:
            return
        received = self._received
        if not received:
            self._received = data
        elif isinstance(received, bytearray):
            received += data
        else:
            self._received = bytearray(received) + data
        if self._limit is None:
            self._limit = BodyLimit(self._plane.admission.max_body_bytes)
        if refusal := self._limit.refusal(self._received, data):
            self.refuse(refusal)
        else:
            self._plane.bodies.add(self, len(data))

    def on_request_complete(self) -> None:
        self.request_complete = True
        self._plane.bodies.completed(self)
        if self._has_begun and not self.response_complete:
            self._answer()

    def refuse(self, refusal: Refusal) -> None:
        """Refuse a request that cannot be read further: now, or when it is its turn."""
        self._refusal = refusal
        self._received = b""
        self._plane.bodies.release(self)
        self.response.keep_alive = False
        if self._has_begun and not self.response_complete:
            self._refuse(refusal)

    def on_client_gone(self) -> None:
        """End the exchange, as the client's connection is closed: the upstream must not go on generating."""
        self.disconnected = True
        self.end("client_disconnected")

    def on_client_slow(self) -> None:
        """Pause the upstream, as the client's socket is full."""
        if self._forwarding is not None:
            self._forwarding.pause()

    def on_client_ready(self) -> None:
        if self._forwarding is not None:
            self._forwarding.resume()

    @property
    def _is_body_small(self) -> bool:
        head = self.head
        if not head.has_body:
            return True
        return head.content_length is not None and head.content_length <= SMALL_BODY_BYTES and not head.expects_continue

    # Answers.

    def _answer(self) -> None:
        if self._refusal is not None:
            self._refuse(self._refusal)
            return
        plane, content = self._plane, bytes(self._received)
        self._received = b""
        body = plane.admission.read(content, self.key, self.head)
        if isinstance(body, Refusal):
            self._refuse(body)
            return
        self.body = body
        if self.path == MODELS_PATH and plane.answers_itself(self.method, self.path):
            self._answer_models()
            return
        if plane.mitigation is not None:
            self._treatment = plane.mitigation.treatment(
                method=self.method,
                path=self.path,
                key=self.key.name,
                model=body.served_model,
                head=self.head,
                content=content,
            )
            if self._treatment is not None:
                if self._treatment.unit is not None:
                    self.head.belong_to(self._treatment.unit)
                if not self._treat(self._treatment, content):
                    return
        self._forward(content)

    def _treat(self, treatment: Treatment, content: bytes) -> bool:
        """Apply a policy to the request. Return whether to forward it now: not if it is refused, or if a task does."""
        if treatment.has_filters and is_probe(self._plane.tap, self.head, content):
            self._treatment = None  # a filter's own question
            return True
        if not treatment.has_query_filter:
            return self._use_result(treatment, treatment.apply(self.body))
        self._filtering = task = asyncio.create_task(treatment.filtered(self.body))
        task.add_done_callback(lambda done: self._on_filtered(treatment, content, done))
        return False

    def _on_filtered(self, treatment: Treatment, content: bytes, task: "asyncio.Task[bytes | Refusal]") -> None:
        if self.response_complete:
            return
        self._filtering = None
        if self._use_result(treatment, read_result(task, treatment)):
            self._forward(content)

    def _use_result(self, treatment: Treatment, result: bytes | Refusal) -> bool:
        self.response.set_note(treatment.header_line)
        if isinstance(result, Refusal):
            self._refuse(result)
            return False
        self.body = msgspec.structs.replace(self.body, content=result)
        return True

    def _forward(self, content: bytes) -> None:
        plane, body = self._plane, self.body
        upstream = plane.choose(self.head, body)
        if upstream is None:
            self._refuse(refusals.no_upstream(body.model))
            return
        if self.head.is_audit and (refusal := plane.giving_way.refusal(upstream, self.started_at)):
            self._refuse(refusal)
            return
        self._copy = copy = start_copy(plane.tap, self, content, label_of=plane.model_label, treatment=self._treatment)
        if copy is not None:
            self.is_observed = True
        if self._treatment is None:
            forwarding = Forwarding(plane, self, self._client, upstream, self.started_at)
        else:
            forwarding = treated_forwarding(plane, self, self._client, upstream, self._treatment)
        self._forwarding = forwarding
        forwarding.start()

    def _answer_models(self) -> None:
        body = self._plane.models_body()
        if body is None:
            self._refuse(refusals.no_upstream(None))
            return
        self._client.write(self.response.own(200, body))
        self.end("complete")

    def _refuse(self, refusal: Refusal) -> None:
        self._close_behind_large_body()
        self._client.write(self.response.refusal(refusal))
        self.end("rejected")

    def _close_behind_large_body(self) -> None:
        if not self.request_complete and not self._is_body_small:
            self.response.keep_alive = False

    # From the forwarding half.

    def on_response_begun(self) -> None:
        """Release a large body: the upstream has begun to answer, so the request is not sent again."""
        if self.held_bytes > SMALL_BODY_BYTES:
            self.body = msgspec.structs.replace(self.body, content=b"")
            self._plane.bodies.release(self)

    @property
    def traceparent_line(self) -> bytes:
        return self.head.traceparent_line if self._span is None else self._span.traceparent_line

    def on_response_head(self, status: int, head: ResponseHead) -> None:
        if self._copy is not None and not self._copy.accepts(status, head):
            self._detach_copy()

    def on_response_body(self, data: bytes) -> None:
        if self._span is not None:
            self._span.on_response_body(data)
        if self._copy is not None and not self._copy.append(data):
            self._detach_copy()

    def _detach_copy(self) -> None:
        self._copy = None
        self.is_observed = self._span is not None

    # From the clock.

    def check(self, now: float) -> None:
        if self._forwarding is not None:
            self._forwarding.check(now)
        elif self._filtering is None:
            self._check_client(now)

    def _check_client(self, now: float) -> None:
        """Refuse a request whose body has stopped coming, or comes too slowly after `body_timeout_seconds`."""
        limits, received = self._plane.config.server, len(self._received)
        if not self._first_checked_at:
            self._first_checked_at = self._grew_at = now
        if received != self._grew_to:
            self._grew_to, self._grew_at = received, now
        overtime = now - self._first_checked_at - limits.body_timeout_seconds
        if now - self._grew_at > limits.body_timeout_seconds:
            self.refuse(refusals.request_stalled(limits.body_timeout_seconds))
        elif received < overtime * limits.body_min_bytes_per_second:
            self.refuse(refusals.request_too_slow(limits.body_min_bytes_per_second))

    def on_drain_timeout(self) -> None:
        if self._forwarding is not None:
            self._forwarding.on_drain_timeout()
        else:
            self.end("rejected", truncated=True)

    # The end.

    def end(self, outcome: EndReason, *, truncated: bool = False) -> None:
        """Ends the exchange, once; the forwarding half calls it when it is over. `truncated`: see RelayClient."""
        if self.response_complete:
            return
        self.response_complete = True
        plane, forwarding, started = self._plane, self._forwarding, self.started_at
        plane.exchange_ended(self)
        plane.bodies.release(self)
        if forwarding is not None:
            self._forwarding = None
            forwarding.release()
        now = perf_counter()
        overhead = now - started if forwarding is None else forwarding.overhead(started, now)
        if self._treatment is not None:
            if self._filtering is not None:
                self._filtering.cancel()
            self._treatment.count(plane.stats)
            overhead -= self._treatment.query_seconds
        first_chunk_at = None if forwarding is None else forwarding.first_chunk_at
        ended = EndedRequest(
            request_id=self.head.request_id,
            trace_id="" if self._span is None else self._span.trace_id,
            upstream="none" if forwarding is None else forwarding.upstream.name,
            model=plane.model_label(self.body.model),
            endpoint=_ENDPOINT_LABELS.get(self.path, "other"),
            outcome=outcome,
            duration_seconds=now - started,
            overhead_seconds=overhead,
            first_chunk_seconds=None if first_chunk_at is None else first_chunk_at - started,
            was_started=forwarding is not None and forwarding.was_sent,
        )
        if plane.instrumentation is not None:
            upstream = None if forwarding is None else forwarding.upstream
            plane.instrumentation.end(self._span, ended, self, upstream, self.response.status)
        plane.stats.ended(ended)
        if self._copy is not None and forwarding is not None:
            self._copy.finish(outcome, forwarding.upstream.name)
        if not self.disconnected:
            self._client.relay_finished(self, truncated=truncated)
