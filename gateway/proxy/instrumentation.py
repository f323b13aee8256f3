"""Traces and the access log, in OpenTelemetry's words. Without either, an exchange costs one comparison."""

import random
import time
from collections import Counter
from typing import Protocol

import msgspec
import structlog

from gateway.config.schema import TelemetryConfig
from gateway.proxy.headers import RequestHead
from gateway.proxy.sampled_copy import RelayedRequest
from gateway.proxy.trace_context import read_traceparent
from gateway.proxy.types import EndedRequest, EndReason
from gateway.proxy.upstreams import Upstream

log = structlog.get_logger("gateway.access")

JSON_BYTES = 65536
"""A JSON body up to this size is kept: it says at its beginning who answered, and at its end with how many tokens."""
FIRST_BYTES = 4096
"""Kept of the beginning of a stream: it names the answer and the model."""
LAST_BYTES = 4096
"""Kept of its end: the reason why it ended, and the tokens used."""


class SpanContext(msgspec.Struct, frozen=True):
    """The place of an exchange in its trace (W3C Trace Context)."""

    trace_id: int
    span_id: int
    parent_id: int | None
    """Span of the client; None when the trace begins here."""


class SpanData(msgspec.Struct, frozen=True):
    """The span of a single exchange that is over. It holds no key and no prompt."""

    context: SpanContext
    started_ns: int
    """Unix time in nanoseconds."""
    duration_seconds: float
    first_chunk_seconds: float | None
    request_id: str
    method: str
    endpoint: str
    """One of LABELLED_ENDPOINTS, else "other"."""
    model: str | None
    """The model as the client named it."""
    upstream: str | None
    server: tuple[str, int] | None
    """Host and port of the upstream."""
    status: int
    """Status of the response; 0 when there was none."""
    outcome: EndReason
    response: tuple[bytes, bytes]
    """The first and the last bytes of the response's body, which may overlap."""


class SpanProcessor(Protocol):
    """Takes the spans that ended. Never waits, never raises."""

    def on_end(self, span: SpanData) -> None: ...


class Tracer(SpanProcessor, Protocol):
    """Sends the spans that ended, between `start` and `close`, which may wait."""

    outcomes: Counter[str]
    """Number of spans by outcome: "exported", "failed", "dropped"."""

    def start(self) -> None: ...

    def close(self) -> None: ...


class Span:
    """The span of a single exchange in flight."""

    __slots__ = ("_first", "_last", "_limit", "context", "traceparent_line")

    def __init__(self, context: SpanContext) -> None:
        self.context = context
        self.traceparent_line = b"traceparent: 00-%032x-%016x-01\r\n" % (context.trace_id, context.span_id)
        """The header that makes the upstream's spans children of this one."""
        self._first = b""
        self._last = b""
        self._limit = 0

    def on_response_body(self, data: bytes) -> None:
        if not self._limit:
            self._limit = JSON_BYTES if data.startswith(b"{") else FIRST_BYTES
        if len(self._first) < self._limit:
            self._first += data[: self._limit]
        self._last = (self._last + data)[-LAST_BYTES:] if len(data) < LAST_BYTES else data[-LAST_BYTES:]

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        return f"{self.context.trace_id:032x}"

    @property
    def response(self) -> tuple[bytes, bytes]:
        return self._first, self._last


class Instrumentation:
    """Writes every exchange that ended to the access log, to its trace, or to both."""

    def __init__(self, telemetry: TelemetryConfig, spans: SpanProcessor | None) -> None:
        self._writes_log = telemetry.access_log
        self._rate = telemetry.trace_rate
        self._spans = spans

    def start_span(self, head: RequestHead) -> Span | None:
        """Return the span; None for an exchange that its client, or else chance, leaves unsampled."""
        if self._spans is None:
            return None
        parent = read_traceparent(head.traceparent) if head.traceparent else None
        if parent is not None:
            if not parent.is_sampled:
                return None
            return Span(SpanContext(parent.trace_id, _random_id(64), parent.span_id))
        if self._rate < 1 and random.random() >= self._rate:
            return None
        return Span(SpanContext(_random_id(128), _random_id(64), None))

    def end(
        self, span: Span | None, ended: EndedRequest, request: RelayedRequest, upstream: Upstream | None, status: int
    ) -> None:
        """An exchange is over, however it ended; `status` is as in SpanData."""
        method = request.method.decode("latin-1")
        if self._writes_log:
            log.info(
                "request ended",
                request_id=ended.request_id,
                exchange_id=request.head.exchange_id,
                method=method,
                endpoint=ended.endpoint,
                model=ended.model,
                upstream=upstream.name if upstream else None,
                key_name=request.key.name,
                status=status,
                outcome=ended.outcome,
                seconds=round(ended.duration_seconds, 6),
                trace_id=ended.trace_id or None,
            )
        if self._spans is None or span is None:
            return
        self._spans.on_end(
            SpanData(
                context=span.context,
                started_ns=time.time_ns() - int(ended.duration_seconds * 1e9),
                duration_seconds=ended.duration_seconds,
                first_chunk_seconds=ended.first_chunk_seconds,
                request_id=ended.request_id,
                method=method,
                endpoint=ended.endpoint,
                model=request.body.model,
                upstream=upstream.name if upstream else None,
                server=upstream.address if upstream else None,
                status=status,
                outcome=ended.outcome,
                response=span.response,
            )
        )


def instrumentation_of(telemetry: TelemetryConfig, spans: SpanProcessor | None) -> Instrumentation | None:
    """Return the instrumentation; None when neither a trace nor the access log is wanted."""
    return Instrumentation(telemetry, spans) if spans is not None or telemetry.access_log else None


def _random_id(bits: int) -> int:
    return random.getrandbits(bits) or 1
