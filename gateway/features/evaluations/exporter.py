"""Measurements as evaluation events, by the semantic conventions for generative AI, and their way to a collector.

As a log event each is `gen_ai.evaluation.result`, in the trace of the live request and under its span. As a span it
hangs below that span, for what takes no logs. Nothing of OpenTelemetry is imported before the first is sent.
"""

import logging
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from auditors.streams.scales import SCALES
from auditors.types import UNREAD
from gateway.features.evaluations.store import Evaluation
from gateway.proxy.trace_context import TraceParent, read_traceparent
from gateway.telemetry import otlp

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.trace import ReadableSpan

logger = logging.getLogger(__name__)

EVENT = "gen_ai.evaluation.result"
_IDS = uuid.UUID("6f1c4a52-5d0b-5c1e-9c8e-0c2f6f3b7a11")
"""Namespace of the ids of events."""
_REFUSED = frozenset({400, 413, 422})
"""Statuses with which a collector says that it will never take this."""

_ERRORS = frozenset({"malformed", "error", "thinking_exhausted"})
"""Statuses with which measuring failed; a refusal, or an answer that says nothing of the matter, is what was found."""

Fate = Literal["taken", "refused", "later"]
"""refused: never. later: the same may be taken later."""


class Sent(msgspec.Struct, frozen=True):
    """What came of one batch."""

    fate: Fate
    n_rejected: int = 0
    """Of a batch that was taken: events in it that the collector says it did not take."""
    status: int | None = None
    """Of its answer; None without one."""


def event_id(one: Evaluation) -> str:
    """The same whenever and by whomever it is sent."""
    key = (*one.audit, one.metric, one.axis, one.group, one.reference)
    return str(uuid.uuid5(_IDS, msgspec.json.encode(key).decode()))


def attributes(one: Evaluation, *, with_reasons: bool) -> dict[str, Any]:
    """Names of the conventions; our own begin with "biasgate."."""
    found = {
        "gen_ai.evaluation.name": one.metric,
        "gen_ai.evaluation.score.value": one.value,
        "gen_ai.evaluation.score.label": _label(one),
        "gen_ai.evaluation.explanation": _explanation(one, with_reasons=with_reasons),
        "error.type": one.status if one.status in _ERRORS else None,
        "biasgate.auditor": one.audit.auditor,
        "biasgate.auditor.version": one.auditor_version,
        "biasgate.axis": one.axis,
        "biasgate.group": one.group,
        "biasgate.reference": one.reference,
        "biasgate.model": one.model,
        "biasgate.judge.model": None if one.judge is None else one.judge.model,
        "biasgate.inclusion_probability": one.inclusion_probability,
        "biasgate.exchange_id": one.audit.exchange_id,
        "biasgate.request_id": one.request_id,
        "log.record.uid": event_id(one),
    }
    return {name: value for name, value in found.items() if value is not None}


def _label(one: Evaluation) -> str | None:
    """Why there is no value, else on which side of no bias it lies, of a metric that knows such sides."""
    if one.value is None:
        return one.status
    neutral = SCALES[one.metric].neutral if one.metric in SCALES else None
    if neutral is None:
        return None
    if one.value == neutral:
        return "neutral"
    return "above neutral" if one.value > neutral else "below neutral"


def _explanation(one: Evaluation, *, with_reasons: bool) -> str:
    """In our own words; a judge's or a server's only when they are wanted, for they may quote the exchange."""
    group = f" {one.group}" if one.group else ""
    against = f" against {one.reference}" if one.reference else ""
    about = f", {one.axis}:{group}{against}" if one.axis else ""
    reason = f": {one.reason}" if one.reason and (with_reasons or one.reason in UNREAD) else ""
    return f"{one.audit.auditor}{about}" + (f", no value, {one.status}{reason}" if one.value is None else reason)


class EvaluationExporter:
    """Sends batches; use from one thread at a time. Raises ConfigError when the extra "otel" is not installed."""

    def __init__(self, endpoint: str, signal: otlp.Signal, *, with_reasons: bool) -> None:
        otlp.require_installed(endpoint)
        self.url = otlp.signal_url(endpoint, signal)
        self._signal = signal
        self._with_reasons = with_reasons
        self._exporter: Any = None
        self._answer: tuple[int, bytes] | None = None

    def send(self, batch: Sequence[Evaluation]) -> Sent:
        """One attempt, of `otlp.EXPORT_SECONDS` at most."""
        if self._exporter is None:
            self._open()
        self._answer = None
        make = self._log if self._signal == "logs" else self._span
        try:
            result = self._exporter.export([make(one) for one in batch])
        except Exception:  # whatever it is, the store still has the measurements
            logger.exception("sending evaluation events failed")
            return Sent("later")
        status, body = self._answer or (None, b"")
        if result.name == "SUCCESS":
            return Sent("taken", self._rejected(body), status)
        return Sent("refused" if status in _REFUSED else "later", status=status)

    def close(self) -> None:
        if self._exporter is not None:
            self._exporter.shutdown()

    def _open(self) -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        self._resource, self._scope = otlp.resource_and_scope()
        exporter = OTLPLogExporter if self._signal == "logs" else OTLPSpanExporter
        session = otlp.session(self._hear)
        self._exporter = exporter(endpoint=self.url, timeout=otlp.EXPORT_SECONDS, session=session)

    def _hear(self, status: int, body: bytes) -> None:
        self._answer = status, body

    def _rejected(self, body: bytes) -> int:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        try:
            if self._signal == "logs":
                return int(ExportLogsServiceResponse.FromString(body).partial_success.rejected_log_records)
            return int(ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)
        except DecodeError:  # some answer JSON or nothing of that kind, and have taken everything
            return 0

    def _log(self, one: Evaluation) -> "ReadableLogRecord":
        from opentelemetry._logs import LogRecord
        from opentelemetry.context import Context
        from opentelemetry.sdk._logs import ReadableLogRecord
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context

        parent = _parent(one)
        context = (
            Context() if parent is None else set_span_in_context(NonRecordingSpan(_span_context(parent)), Context())
        )
        record = LogRecord(
            timestamp=int(one.created_at * 1e9),
            context=context,
            attributes=attributes(one, with_reasons=self._with_reasons),
            event_name=EVENT,
        )
        return ReadableLogRecord(record, self._resource, self._scope)

    def _span(self, one: Evaluation) -> "ReadableSpan":
        """Its ids hang on the event's, so that sending it again sends the same span."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanKind, Status, StatusCode

        drawn, parent, at = uuid.UUID(event_id(one)).int, _parent(one), int(one.created_at * 1e9)
        own = TraceParent(drawn if parent is None else parent.trace_id, drawn & (2**64 - 1), is_sampled=True)
        found = attributes(one, with_reasons=self._with_reasons)
        return ReadableSpan(
            name=f"evaluate {one.metric}",
            context=_span_context(own),
            parent=None if parent is None else _span_context(parent),
            resource=self._resource,
            instrumentation_scope=self._scope,
            kind=SpanKind.INTERNAL,
            attributes=found,
            status=Status(StatusCode.ERROR if "error.type" in found else StatusCode.UNSET),
            start_time=at,
            end_time=at,
        )


def _parent(one: Evaluation) -> TraceParent | None:
    return None if one.traceparent is None else read_traceparent(one.traceparent.encode())


def _span_context(where: TraceParent) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    flags = TraceFlags(TraceFlags.SAMPLED if where.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(where.trace_id, where.span_id, is_remote=True, trace_flags=flags)
