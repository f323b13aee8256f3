"""The OTLP door: spans and log records of GenAI clients, as protobuf or JSON (OTLP/HTTP)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec

from auditors.text.lenient_json import read_json
from gateway.errors import RequestError
from gateway.features.ingest import gen_ai, reading, received
from gateway.features.ingest.dialects import in_gen_ai
from gateway.features.ingest.rates import Rates, threshold_in
from gateway.features.ingest.wire import WireError, records_of, require_few_messages

Signal = Literal["traces", "logs"]

RATE_ATTRIBUTE = "biasgate.sampling_rate"
TAG_ATTRIBUTE = "biasgate.tag"
AUDIT_ATTRIBUTE = "biasgate.audit"
DEEPEST = 40
"""Deepest nesting of values that is read."""
FAILED = 500
"""Status of a request that its span says failed; which one, no convention tells."""
_ERROR = 2
_STRANGE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors that reading a value of an unexpected type ends in."""
_AttributesOf = Callable[[Any], dict[str, Any]]
MOST_LEVELS = 32
"""Spans around another that are looked at: many spans below one long chain would each go through all of it."""


class Event(NamedTuple):
    name: str
    attributes: Mapping[str, Any]


class Span(NamedTuple):
    """A span, or a log record about one (without an end and events)."""

    trace_id: str
    span_id: str
    parent_id: str
    started_at: float | None
    """Unix seconds."""
    ended_at: float | None
    attributes: Mapping[str, Any]
    events: list[Event]
    trace_state: str = ""
    is_failed: bool = False
    name: str = ""
    body: Any = None


def read(
    body: bytes, signal: Signal, *, is_json: bool, sender: str | None, rates: Rates | None = None
) -> received.Sent:
    """Read an export of the key `sender`; without `rates` no stated rate counts. Raises RequestError if it is none."""
    rates = rates or Rates()
    records = (_from_json if is_json else _from_protobuf)(body, signal)
    parts: dict[str, list[received.Part]] = {}
    around: dict[str, str] = {}
    n_ignored, n_parts, rejected = 0, 0, received.Rejections()
    try:
        for record in records:
            try:
                part = _span_part(record, sender, rates) if signal == "traces" else _log_part(record, sender, rates)
            except received.UnreadableError as exc:
                rejected.add(str(exc))
                continue
            except _STRANGE as exc:
                rejected.add(f"span {record.span_id or 'without an id'}: {type(exc).__name__} while it was read")
                continue
            if part is None:
                n_ignored += 1
            else:
                n_parts += 1
                reading.require_few_entries(n_parts)
                parts.setdefault(part.id, []).append(part)
                if record.parent_id:
                    around[part.id] = received.exchange_id(sender, f"{record.trace_id}/{record.parent_id}")
    except _STRANGE as exc:
        raise RequestError(f"not an OTLP export of {signal}: {type(exc).__name__} while the body was read") from exc
    by_id = {key: received.merged(some) for key, some in parts.items()}
    distinct = one_a_call(by_id, around)
    n_ignored += len(by_id) - len(distinct)
    return received.Sent(parts=distinct, n_ignored=n_ignored, rejected=rejected, n_ignored_rates=rates.n_ignored)


def _span_part(span: Span, sender: str | None, rates: Rates) -> received.Part | None:
    attributes = in_gen_ai(span.attributes)
    if not gen_ai.is_exchange(attributes):
        return None
    span = span._replace(attributes=attributes)
    messages, answered = gen_ai.content_of(attributes)
    for event in span.events:
        more_asked, more_answered = gen_ai.event_content(event.name, event.attributes, None)
        messages += more_asked
        answered += more_answered
    started, ended = span.started_at, span.ended_at
    return msgspec.structs.replace(
        _part(span, sender, rates, messages, answered),
        status=FAILED if span.is_failed or "error.type" in attributes else 200,
        seconds=ended - started if started and ended and ended >= started else None,
    )


def _log_part(record: Span, sender: str | None, rates: Rates) -> received.Part | None:
    attributes = record.attributes
    name = record.name or attributes.get("event.name")
    if name not in gen_ai.EVENTS or not isinstance(name, str):
        return None
    messages, answered = gen_ai.event_content(name, attributes, record.body)
    return _part(record, sender, rates, messages, answered)


def _part(
    record: Span, sender: str | None, rates: Rates, messages: list[dict[str, Any]], answered: list[dict[str, Any]]
) -> received.Part:
    attributes = record.attributes
    name = f"{record.trace_id}/{record.span_id}" if record.trace_id and record.span_id else None
    stated = attributes.get(RATE_ATTRIBUTE)
    if stated is None or stated == "":
        rate = rates.of_threshold(threshold_in(record.trace_state))
    else:
        rate = rates.of_exchange(stated, RATE_ATTRIBUTE)
    response_id = received.text_of(attributes.get("gen_ai.response.id"))
    key = received.exchange_id(sender, name or response_id)
    return received.Part(
        id=key,
        request_id=response_id or received.text_of(record.span_id) or key,
        at=record.started_at,
        model=gen_ai.model_of(attributes),
        fields=gen_ai.fields_of(attributes),
        asked=messages,
        answered=answered,
        sender_rate=rate,
        tag=received.text_of(attributes.get(TAG_ATTRIBUTE), 64),
        opt="off" if attributes.get(AUDIT_ATTRIBUTE) in ("off", False) else None,
    )


def _from_json(body: bytes, signal: Signal) -> Iterator[Span]:
    """Yield one record after the other. Raises RequestError for a body that is not an export."""
    outer, inner, leaf = _NAMES[signal]
    try:
        resources: list[_Resource] = getattr(_export.decode(body), outer)
        groups: Any = [[getattr(scope, leaf) or [] for scope in getattr(group, inner) or []] for group in resources]
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # not strict, or of another shape
        groups = _lenient_groups(body, signal)
    return (
        _json_record(reading.read_value(record) if isinstance(record, msgspec.Raw) else record)
        for group in groups
        for scope in group
        for record in scope
    )


class _Scope(msgspec.Struct, gc=False):
    spans: list[msgspec.Raw] | None = None
    logRecords: list[msgspec.Raw] | None = None


class _Resource(msgspec.Struct, gc=False):
    scopeSpans: list[_Scope] | None = None
    scopeLogs: list[_Scope] | None = None


class _Export(msgspec.Struct, gc=False):
    resourceSpans: list[_Resource] = []
    resourceLogs: list[_Resource] = []


_export = msgspec.json.Decoder(_Export)
_NAMES = {"traces": ("resourceSpans", "scopeSpans", "spans"), "logs": ("resourceLogs", "scopeLogs", "logRecords")}


def _lenient_groups(body: bytes, signal: Signal) -> list[list[list[Any]]]:
    reading.require_few_containers(body, reading.MOST_LENIENT_CONTAINERS)
    try:
        data = read_json(body)
    except ValueError as exc:
        raise RequestError(f"the body is not JSON: {str(exc)[: received.LONGEST_NAME]}") from exc
    outer, inner, leaf = _NAMES[signal]
    if not isinstance(data, dict) or not isinstance(data.get(outer, []), list):
        raise RequestError(f'the body is not an OTLP export of {signal}, which is an object with a list "{outer}"')
    try:
        return [[scope.get(leaf) or [] for scope in resource.get(inner) or []] for resource in data.get(outer, [])]
    except _STRANGE as exc:
        raise RequestError(f"not an OTLP export of {signal}: {type(exc).__name__} while the body was read") from exc


def _json_record(record: dict[str, Any]) -> Span:
    started = record.get("startTimeUnixNano") or record.get("timeUnixNano") or record.get("observedTimeUnixNano")
    return Span(
        trace_id=_hex(record.get("traceId")),
        span_id=_hex(record.get("spanId")),
        parent_id=_hex(record.get("parentSpanId")),
        started_at=_seconds(started),
        ended_at=_seconds(record.get("endTimeUnixNano")),
        attributes=_json_attributes(record),
        events=_read_events(record.get("events") or [], lambda event: str(event.get("name")), _json_attributes),
        trace_state=str(record.get("traceState") or ""),
        is_failed=(record.get("status") or {}).get("code") in (_ERROR, "STATUS_CODE_ERROR"),
        name=str(record.get("eventName") or ""),
        body=_json_value(record.get("body"), DEEPEST),
    )


def _read_events(events: Iterable[Any], name_of: Callable[[Any], str], attributes_of: _AttributesOf) -> list[Event]:
    content_events = (
        Event(name, attributes_of(event)) for event in events if (name := name_of(event)) in gen_ai.EVENTS
    )
    return [*islice(content_events, received.MOST_MESSAGES)]


def _json_attributes(holder: dict[str, Any]) -> dict[str, Any]:
    return {
        str(attribute["key"]): _json_value(attribute.get("value"), DEEPEST)
        for attribute in holder.get("attributes") or []
    }


def _json_value(value: Any, depth: int) -> Any:
    if not isinstance(value, dict) or not depth:
        return None
    for kind, inner in value.items():
        match kind:
            case "stringValue" | "boolValue" | "doubleValue":
                return inner
            case "intValue":
                return int(inner) if len(str(inner)) < 20 else None
            case "arrayValue":
                return [_json_value(element, depth - 1) for element in inner.get("values") or []]
            case "kvlistValue":
                return {
                    str(entry["key"]): _json_value(entry.get("value"), depth - 1) for entry in inner.get("values") or []
                }
    return None


def _hex(value: Any) -> str:
    return value.lower() if isinstance(value, str) and value.strip("0") else ""


def _seconds(nanoseconds: Any) -> float | None:
    return int(nanoseconds) / 1e9 if nanoseconds and len(str(nanoseconds)) < 20 else None


def _from_protobuf(body: bytes, signal: Signal) -> Iterator[Span]:
    """One record after the other: an empty one takes two bytes there and two hundred here."""
    # protobuf is of the extra "otel", and a worker that receives none does without.
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
        from opentelemetry.proto.trace.v1.trace_pb2 import Span as TraceSpan
    except ImportError as exc:
        raise received.UnreadableError(
            'OTLP as protobuf needs the extra "otel": pip install "biasgate[otel]", or send application/json'
        ) from exc
    try:
        for record in records_of(body):
            if signal == "traces":
                require_few_messages(record, "span")
                yield _proto_span(TraceSpan.FromString(record))
            else:
                require_few_messages(record, "record")
                yield _proto_log(LogRecord.FromString(record))
    except (DecodeError, WireError) as exc:
        raise RequestError(f"the body is not an OTLP export of {signal} as protobuf") from exc


def _proto_span(span: Any) -> Span:
    return Span(
        trace_id=_hex(span.trace_id.hex()),
        span_id=_hex(span.span_id.hex()),
        parent_id=_hex(span.parent_span_id.hex()),
        started_at=_seconds(span.start_time_unix_nano),
        ended_at=_seconds(span.end_time_unix_nano),
        attributes=_proto_attributes(span.attributes),
        events=_read_events(span.events, lambda event: event.name, lambda event: _proto_attributes(event.attributes)),
        trace_state=span.trace_state,
        is_failed=span.status.code == _ERROR,
    )


def _proto_log(record: Any) -> Span:
    return Span(
        trace_id=_hex(record.trace_id.hex()),
        span_id=_hex(record.span_id.hex()),
        parent_id="",
        started_at=_seconds(record.time_unix_nano or record.observed_time_unix_nano),
        ended_at=None,
        attributes=_proto_attributes(record.attributes),
        events=[],
        name=record.event_name,
        body=_proto_value(record.body, DEEPEST),
    )


def _proto_attributes(attributes: Any) -> dict[str, Any]:
    return {attribute.key: _proto_value(attribute.value, DEEPEST) for attribute in attributes}


def _proto_value(value: Any, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind is None or not depth:
        return None
    if kind == "array_value":
        return [_proto_value(element, depth - 1) for element in value.array_value.values]
    if kind == "kvlist_value":
        return {entry.key: _proto_value(entry.value, depth - 1) for entry in value.kvlist_value.values}
    return None if kind == "bytes_value" else getattr(value, kind)


def one_a_call(by_id: Mapping[str, received.Part], around: Mapping[str, str]) -> list[received.Part]:
    """Drop parts of spans around (parent in `around`) another with the same answer, which takes tag, rate and opt."""
    repeated = {
        outer
        for inner, outer in around.items()
        if inner != outer and outer in by_id and _is_same_call(by_id[inner], by_id[outer])
    }
    distinct = (part for key, part in by_id.items() if key not in repeated)
    return [_marked(part, _above(part.id, by_id, around, repeated)) for part in distinct]


def _is_same_call(inner: received.Part, outer: received.Part) -> bool:
    if not inner.is_whole or len(inner.answered) != len(outer.answered):
        return False
    return all(_words(choice) == _words(other) for choice, other in zip(inner.answered, outer.answered, strict=True))


def _words(choice: dict[str, Any]) -> tuple[Any, list[str]]:
    """Return an answer's content and the names of its calls; arguments are JSON that each writes differently."""
    message = choice["message"]
    return message["content"] or "", [call["function"]["name"] for call in message.get("tool_calls", [])]


def _above(
    key: str, by_id: Mapping[str, received.Part], around: Mapping[str, str], repeated: set[str]
) -> Iterator[received.Part]:
    seen = {key}
    while (key := around.get(key, "")) in repeated and key not in seen and len(seen) <= MOST_LEVELS:
        seen.add(key)
        yield by_id[key]


def _marked(part: received.Part, above: Iterator[received.Part]) -> received.Part:
    for outer in above:
        part = msgspec.structs.replace(
            part,
            opt=part.opt or outer.opt,
            tag=part.tag or outer.tag,
            sender_rate=outer.sender_rate if part.sender_rate is None else part.sender_rate,
        )
    return part
