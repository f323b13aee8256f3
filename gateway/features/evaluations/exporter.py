"""Measurements as events of OpenTelemetry's GenAI conventions: logs in the trace of the request, or spans below it."""

import logging
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from auditors.streams.scales import SCALES
from auditors.types import UNREAD
from gateway.features.evaluations import otlp
from gateway.features.evaluations.store import Evaluation
from gateway.proxy.trace_context import TraceParent, read_traceparent

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
    """The outcome of sending a batch."""

    fate: Fate
    n_rejected: int = 0
    """Events that the collector says it did not take, of a batch that it took."""
    status: int | None = None
    """HTTP status of the collector's answer; None without an answer."""


def event_id(evaluation: Evaluation) -> str:
    """The same whenever and by whomever it is sent."""
    key = (*evaluation.audit, evaluation.metric, evaluation.axis, evaluation.group, evaluation.reference)
    return str(uuid.uuid5(_IDS, msgspec.json.encode(key).decode()))


def attributes(evaluation: Evaluation, *, with_reasons: bool) -> dict[str, Any]:
    """Names of the conventions; our own begin with "biasgate."."""
    group = f" {evaluation.group}" if evaluation.group else ""
    against = f" against {evaluation.reference}" if evaluation.reference else ""
    about = f", {evaluation.axis}:{group}{against}" if evaluation.axis else ""
    reason = f": {evaluation.reason}" if evaluation.reason and (with_reasons or evaluation.reason in UNREAD) else ""
    status = f", no value, {evaluation.status}" if evaluation.value is None else ""
    explanation = f"{evaluation.audit.auditor}{about}{status}{reason}"
    entries = {
        "gen_ai.evaluation.name": evaluation.metric,
        "gen_ai.evaluation.score.value": evaluation.value,
        "gen_ai.evaluation.score.label": _label(evaluation),
        "gen_ai.evaluation.explanation": evaluation.explanation or explanation,
        "error.type": evaluation.status if evaluation.status in _ERRORS else None,
        "biasgate.auditor": evaluation.audit.auditor,
        "biasgate.auditor.version": evaluation.auditor_version,
        "biasgate.axis": evaluation.axis,
        "biasgate.group": evaluation.group,
        "biasgate.reference": evaluation.reference,
        "biasgate.model": evaluation.model,
        "biasgate.judge.model": None if evaluation.judge is None else evaluation.judge.model,
        "biasgate.inclusion_probability": evaluation.inclusion_probability,
        "biasgate.stream": evaluation.stream,
        "biasgate.exchange_id": evaluation.audit.exchange_id if evaluation.stream is None else None,
        "biasgate.request_id": evaluation.request_id,
        "log.record.uid": event_id(evaluation),
    }
    return {name: value for name, value in entries.items() if value is not None}


def _label(evaluation: Evaluation) -> str | None:
    """Return the status without a value, else the side of the neutral value; None for a metric that has none."""
    if evaluation.value is None:
        return evaluation.status
    neutral = SCALES[evaluation.metric].neutral if evaluation.metric in SCALES else None
    if neutral is None:
        return None
    if evaluation.value == neutral:
        return "neutral"
    return "above neutral" if evaluation.value > neutral else "below neutral"


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
            from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            self._resource, self._scope = otlp.resource_and_scope()
            exporter = OTLPLogExporter if self._signal == "logs" else OTLPSpanExporter
            session = otlp.session(self._hear)
            self._exporter = exporter(endpoint=self.url, timeout=otlp.EXPORT_SECONDS, session=session)
        self._answer = None
        make = self._log if self._signal == "logs" else self._span
        try:
            result = self._exporter.export([make(evaluation) for evaluation in batch])
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

    def _log(self, evaluation: Evaluation) -> "ReadableLogRecord":
        from opentelemetry._logs import LogRecord
        from opentelemetry.context import Context
        from opentelemetry.sdk._logs import ReadableLogRecord
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context

        context = Context()
        if (parent := _parent(evaluation)) is not None:
            context = set_span_in_context(NonRecordingSpan(_span_context(parent)), context)
        record = LogRecord(
            timestamp=int(evaluation.created_at * 1e9),
            context=context,
            attributes=attributes(evaluation, with_reasons=self._with_reasons),
            event_name=EVENT,
        )
        return ReadableLogRecord(record, self._resource, self._scope)

    def _span(self, evaluation: Evaluation) -> "ReadableSpan":
        """Builds the span of an event. Its ids derive from the event's, so that it is the same when sent again."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanKind, Status, StatusCode

        drawn, parent, at = uuid.UUID(event_id(evaluation)).int, _parent(evaluation), int(evaluation.created_at * 1e9)
        own = TraceParent(drawn if parent is None else parent.trace_id, drawn & (2**64 - 1), is_sampled=True)
        event_attributes = attributes(evaluation, with_reasons=self._with_reasons)
        return ReadableSpan(
            name=f"evaluate {evaluation.metric}",
            context=_span_context(own),
            parent=None if parent is None else _span_context(parent),
            resource=self._resource,
            instrumentation_scope=self._scope,
            kind=SpanKind.INTERNAL,
            attributes=event_attributes,
            status=Status(StatusCode.ERROR if "error.type" in event_attributes else StatusCode.UNSET),
            start_time=at,
            end_time=at,
        )


def _parent(evaluation: Evaluation) -> TraceParent | None:
    return None if evaluation.traceparent is None else read_traceparent(evaluation.traceparent.encode())


def _span_context(where: TraceParent) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    flags = TraceFlags(TraceFlags.SAMPLED if where.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(where.trace_id, where.span_id, is_remote=True, trace_flags=flags)
