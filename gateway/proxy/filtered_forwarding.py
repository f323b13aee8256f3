"""The upstream half of an exchange whose answer an `AnswerFilter` holds: one task at a time looks at what is held,
while more may come. What the filter lets go is written as if it had just come.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from time import perf_counter

import msgspec

from gateway.proxy.data_plane import DataPlane
from gateway.proxy.forwarding import ClientSide, ForwardedExchange, Forwarding
from gateway.proxy.headers import ResponseHead
from gateway.proxy.refusals import Refusal, filter_failed, upstream_error
from gateway.proxy.types import AnswerFilter, EndReason, Looked, Treatment
from gateway.proxy.upstreams import Upstream

logger = logging.getLogger(__name__)

_ACCEPT_ENCODING = re.compile(rb"^accept-encoding:[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE)


def treated_forwarding(
    plane: DataPlane, exchange: ForwardedExchange, client: ClientSide, upstream: Upstream, treatment: Treatment
) -> Forwarding:
    """The upstream half of an exchange that a policy covers; it waits for an upstream from now on."""
    if treatment.answer_filter is None:
        return Forwarding(plane, exchange, client, upstream, perf_counter())
    return FilteredForwarding(plane, exchange, client, upstream, perf_counter(), treatment, treatment.answer_filter)


def read_result(task: "asyncio.Task[bytes | Refusal]", treatment: Treatment) -> bytes | Refusal:
    """Return the result of a finished look at a request: the content to send, or a refusal."""
    error = task.exception()
    if error is None:
        return task.result()
    logger.error("the look at a request failed", exc_info=error)
    return filter_failed(treatment.policy)


class FilteredForwarding(Forwarding):
    def __init__(
        self,
        plane: DataPlane,
        exchange: ForwardedExchange,
        client: ClientSide,
        upstream: Upstream,
        waits_since: float,
        treatment: Treatment,
        filter: AnswerFilter,
    ) -> None:
        super().__init__(plane, exchange, client, upstream, waits_since)
        self._treatment = treatment
        self._filter = filter
        self._head: tuple[int, bytes, ResponseHead] | None = None
        """Of the answer that is held."""
        self._is_complete = False
        self._is_at_once = False
        """Head and body came together; the head, which is kept, need not say the right length."""
        self._cause: Refusal | None = None
        self._completed_at = 0.0
        self._held_seconds = 0.0
        """Of what was complete, until it was looked at; and of a whole answer that was thrown away."""
        self._looking: asyncio.Task[Looked] | None = None

    def _request_head(self, content: bytes) -> bytes:
        head = _ACCEPT_ENCODING.sub(b"", super()._request_head(content))
        return head.removesuffix(b"\r\n") + b"accept-encoding: identity\r\n\r\n"

    # From the connection.

    def on_complete_response(self, status: int, reason: bytes, head: ResponseHead, body: bytes) -> None:
        connection, begun = self._connection, self._filter.begin(status, head)
        if begun is False:
            self._renote()
            super().on_complete_response(status, reason, head, body)
            return
        self._connection = None
        if connection is not None:
            self._last_received_at = connection.received_at
        if isinstance(begun, Refusal):
            self._fail(begun, "rejected")
            return
        self._head = (status, reason, head)
        self._is_complete = self._is_at_once = True
        self._completed_at = perf_counter()
        if body:
            self.on_response_body(body)
        if self._head is not None:
            self._look_if_due()

    def on_response_head(self, status: int, reason: bytes, head: ResponseHead) -> None:
        begun = self._filter.begin(status, head)
        if begun is True:
            self._head = (status, reason, head)
            return
        self._renote()
        if begun is False:
            super().on_response_head(status, reason, head)
        else:
            self._fail(begun, "rejected")

    def on_response_body(self, data: bytes) -> None:
        if self._head is None:
            super().on_response_body(data)
            return
        if self.first_chunk_at is None:
            self.first_chunk_at = self._connection.received_at if self._connection is not None else perf_counter()
            self._kind.first_byte(self, self.first_chunk_at)
        full = self._filter.take(data)
        if full is not None:
            self._stop_looking()
            self._carry_out(full)

    def on_packet_end(self) -> None:
        if self._head is not None:
            self._look_if_due()
        super().on_packet_end()

    def chunk_writer(self) -> Callable[[bytes], None] | None:
        return super().chunk_writer() if self._head is None else None

    def on_response_end(self) -> None:
        if self._head is None:
            super().on_response_end()
            return
        if self._connection is not None:
            self._last_received_at = self._connection.received_at
        self._connection = None
        self._completed()

    def on_upstream_lost(self, what: str, *, may_be_stale: bool) -> None:
        if self._head is None:
            super().on_upstream_lost(what, may_be_stale=may_be_stale)
            return
        self._connection = None
        self.upstream.request_failed(what, self._sent_at)
        head = self._head[2]
        self._cause = upstream_error(self.upstream.name, what)
        if head.is_event_stream:
            self._completed()
        else:
            self._fail(self._cause, "upstream_error")  # half an answer is none

    # Looking.

    def _completed(self) -> None:
        self._is_complete = True
        self._completed_at = perf_counter()
        self._look_if_due()

    def _look_if_due(self) -> None:
        if self._looking is None and self._filter.is_due(is_complete=self._is_complete):
            is_last = self._is_complete
            self._looking = task = asyncio.create_task(self._filter.look(is_complete=is_last))
            task.add_done_callback(lambda done: self._on_looked(done, is_last=is_last))

    def _on_looked(self, task: "asyncio.Task[Looked]", *, is_last: bool) -> None:
        if task is not self._looking:
            return  # given up meanwhile
        self._looking = None
        if is_last:
            self._held_seconds += perf_counter() - self._completed_at
        error = task.exception()
        if error is not None:
            logger.error("the look at an answer failed", exc_info=error)
            self._fail(filter_failed(self._treatment.policy), "rejected")
            return
        self._carry_out(task.result())
        if self._head is None:
            return
        if is_last:
            self._finish()
        else:
            self._look_if_due()

    def _stop_looking(self) -> None:
        task, self._looking = self._looking, None
        if task is not None:
            task.cancel()

    def _carry_out(self, looked: Looked) -> None:
        if looked.refusal is not None:
            self._head = None
            self._renote()
            self._fail(looked.refusal, "rejected")
        elif looked.asks_again is not None:
            self._ask_again(looked.asks_again)
        else:
            self._write(looked.released)
            if looked.is_over:
                self._head = None
                if self._is_complete:
                    self._finish()

    def _write(self, data: bytes) -> None:
        exchange, response, label = self._exchange, self._response, self.upstream.label_line
        if response.has_head or self._head is None:
            written = response.body(data) if data else b""
        else:
            self._renote()
            status, reason, head = self._head
            self._status = status
            exchange.on_response_begun()
            if exchange.is_observed:
                exchange.on_response_head(status, head)
            if self._is_at_once:
                written = response.complete(status, reason, head, label, data)
            else:
                written = response.head(status, reason, head, label) + (response.body(data) if data else b"")
        self._unwritten.append(written)
        if data and exchange.is_observed:
            exchange.on_response_body(data)
        super().on_packet_end()

    def _finish(self) -> None:
        self._head = None
        if self._cause is not None:
            self._fail(self._cause, "upstream_error")
        else:
            super().on_response_end()

    def _ask_again(self, content: bytes) -> None:
        self._exchange.body = msgspec.structs.replace(self._exchange.body, content=content)
        self._held_seconds += self._completed_at - self._sent_at  # of the answer that is thrown away
        self._head, self.first_chunk_at = None, None
        self._is_complete = self._is_at_once = False
        self._acquire()

    def _renote(self) -> None:
        self._response.set_note(self._treatment.header_line)

    # From the exchange.

    def overhead(self, started_at: float, now: float) -> float:
        return super().overhead(started_at, now) - self._held_seconds

    def release(self) -> None:
        self._stop_looking()
        self._filter.close()
        super().release()

    def _fail(self, refusal: Refusal, outcome: EndReason) -> None:
        self._head = None
        if not self._response.has_head:
            self._renote()
        super()._fail(refusal, outcome)
