"""Traces of relayed requests by OpenTelemetry's GenAI conventions; a thread imports it, makes spans and sends them."""

import logging
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.features.evaluations import otlp
from gateway.proxy.instrumentation import SpanData

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

logger = logging.getLogger(__name__)

QUEUE_SPANS = 4096
"""Spans waiting to be sent; what comes on top is dropped and counted."""
BATCH_SPANS = 256
BATCH_SECONDS = 1.0
CLOSE_SECONDS = 3.0

_OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "chat",
    "/v1/messages": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
_LONGEST_VALUE = 256


class Tracer:
    """A `gateway.proxy.instrumentation.Tracer`: `start` and `close` it. Raises ConfigError without the extra "otel"."""

    def __init__(self, endpoint: str) -> None:
        otlp.require_installed(endpoint)
        self._url = otlp.signal_url(endpoint, "traces")
        self.outcomes: Counter[str] = Counter()
        """Spans by what became of them: "exported", "failed" (the collector did not take them), "dropped"."""
        self._queue: deque[SpanData] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="trace-export", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def on_end(self, span: SpanData) -> None:
        if len(self._queue) >= QUEUE_SPANS:
            self.outcomes["dropped"] += 1
            return
        self._queue.append(span)
        if len(self._queue) == BATCH_SPANS:
            self._wake.set()

    def close(self) -> None:
        """Waits at most CLOSE_SECONDS for what is left."""
        self._closing = True
        self._wake.set()
        self._thread.join(CLOSE_SECONDS)
        if left := len(self._queue):
            self.outcomes["dropped"] += left
            logger.warning("%d spans were not sent before the end", left)

    def _work(self) -> None:
        try:
            export = _Export(self._url)
        except Exception:
            logger.exception("no traces will be sent")
            return
        while not (self._closing and not self._queue):
            if not self._closing:
                self._wake.wait(BATCH_SECONDS)
            self._wake.clear()
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(BATCH_SPANS, len(self._queue)))]
                self.outcomes["exported" if export.send(batch) else "failed"] += len(batch)


class _Export:
    """The thread's own part: the exporter, and what every span shares."""

    def __init__(self, url: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        self._url = url
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=otlp.EXPORT_SECONDS, session=otlp.session())
        self._resource, self._scope = otlp.resource_and_scope()
        self._is_failing = False

    def send(self, batch: Sequence[SpanData]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        try:
            succeeded = self._exporter.export([self._span(span) for span in batch]) is SpanExportResult.SUCCESS
        except Exception:  # the thread must outlive one batch that cannot be sent
            logger.exception("sending spans failed")
            succeeded = False
        if succeeded and self._is_failing:
            logger.warning("spans are taken by %s again", self._url)
        elif not succeeded and not self._is_failing:
            logger.warning("spans are not taken by %s and are lost; counted in biasgate_trace_spans_total", self._url)
        self._is_failing = not succeeded
        return succeeded

    def _span(self, span: SpanData) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        flags = TraceFlags(TraceFlags.SAMPLED)
        own, attributes = span.context, span_attributes(span)
        parent = None
        if own.parent_id is not None:
            parent = SpanContext(own.trace_id, own.parent_id, is_remote=True, trace_flags=flags)
        return ReadableSpan(
            name=span_name(span),
            context=SpanContext(own.trace_id, own.span_id, is_remote=False, trace_flags=flags),
            parent=parent,
            resource=self._resource,
            instrumentation_scope=self._scope,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            status=Status(StatusCode.ERROR if "error.type" in attributes else StatusCode.UNSET),
            start_time=span.started_ns,
            end_time=span.started_ns + int(span.duration_seconds * 1e9),
        )


def span_name(span: SpanData) -> str:
    """`{operation} {model}`, or the method and endpoint where no model is asked."""
    operation = _OPERATIONS.get(span.endpoint)
    if operation is None:
        return span.method if span.endpoint == "other" else f"{span.method} {span.endpoint}"
    return f"{operation} {span.model[:_LONGEST_VALUE]}" if span.model else operation


def span_attributes(span: SpanData) -> dict[str, Any]:
    """Names of the conventions for generative AI (1.37 and later) and for HTTP; our own begin with "biasgate."."""
    attributes: dict[str, Any] = {
        "http.request.method": span.method,
        "biasgate.request_id": span.request_id,
        "biasgate.outcome": span.outcome,
    }
    if operation := _OPERATIONS.get(span.endpoint):
        attributes |= {"gen_ai.operation.name": operation, "gen_ai.provider.name": "vllm"}
        if span.model:
            attributes["gen_ai.request.model"] = span.model[:_LONGEST_VALUE]
        attributes |= _response_attributes(span.response)
        if span.first_chunk_seconds is not None:
            attributes["gen_ai.response.time_to_first_chunk"] = span.first_chunk_seconds
    if span.endpoint != "other":
        attributes["url.path"] = span.endpoint
    if span.upstream is not None:
        attributes["biasgate.upstream"] = span.upstream
    if span.server is not None:
        attributes["server.address"], attributes["server.port"] = span.server
    if span.status:
        attributes["http.response.status_code"] = span.status
    if span.status >= 400 or span.outcome != "complete":
        attributes["error.type"] = str(span.status) if span.outcome == "complete" else span.outcome
    return attributes


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    finish_reason: str | None = None


class _Part(msgspec.Struct):
    """A whole reply or one event, in the shape of any of the endpoints; text is skipped, not read."""

    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None
    choices: list[_Choice] = []
    stop_reason: str | None = None
    message: "_Part | None" = None
    delta: "_Part | None" = None
    response: "_Part | None" = None


_decode = msgspec.json.Decoder(_Part).decode


def _response_attributes(response: tuple[bytes, bytes]) -> dict[str, Any]:
    """Return the answer's attributes about itself, as far as its first and last bytes tell."""
    attributes: dict[str, Any] = {}
    reasons: dict[int, str] = {}
    for part in _parts(*response):
        for piece in (part.message, part.response, part.delta, part):
            if piece is not None:
                attributes |= _read_part(piece)
                reasons |= _finish_reasons(piece)
    if reasons:
        attributes["gen_ai.response.finish_reasons"] = [reasons[index] for index in sorted(reasons)]
    return attributes


def _read_part(part: _Part) -> Mapping[str, Any]:
    attributes: dict[str, Any] = {}
    if part.id:
        attributes["gen_ai.response.id"] = part.id[:_LONGEST_VALUE]
    if part.model:
        attributes["gen_ai.response.model"] = part.model[:_LONGEST_VALUE]
    if usage := part.usage:
        n_input = usage.prompt_tokens if usage.input_tokens is None else usage.input_tokens
        n_output = usage.completion_tokens if usage.output_tokens is None else usage.output_tokens
        counts = {"gen_ai.usage.input_tokens": n_input, "gen_ai.usage.output_tokens": n_output}
        attributes |= {name: count for name, count in counts.items() if count is not None}
    return attributes


def _finish_reasons(part: _Part) -> Mapping[int, str]:
    """Return the reasons by the choice: a stream tells them singly."""
    if part.stop_reason:
        return {0: part.stop_reason}
    return {choice.index: choice.finish_reason for choice in part.choices if choice.finish_reason}


def _parts(first: bytes, last: bytes) -> Iterator[_Part]:
    """Events of a stream that are whole, else the whole reply, else what can be picked out of a long one."""
    texts = [first] if first.startswith(b"{") else [*first.split(b"\n"), *last.split(b"\n")]
    for text in texts:
        text = text.removeprefix(b"data:").strip()
        if text.startswith(b"{"):
            try:
                yield _decode(text)
            except msgspec.MsgspecError:
                continue
