"""Whatever a sender sends, a door reads it, rejects it in a line, or refuses the body: nothing else is raised."""

import contextlib
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.text.conversation import NotAuditableError
from auditors.text.lenient_json import read_json
from auditors.text.readers.exchange import read_conversation
from auditors.types import Exchange
from gateway.errors import RequestError
from gateway.features.ingest import litellm, otlp, pairs
from gateway.features.ingest.received import Part, Received, Sent, completed, exchange_of, merged
from gateway.features.ingest.waiting_parts import private
from gateway.privacy.redaction import Redactor

NAMES = st.sampled_from(
    [
        *("id", "request", "response", "messages", "choices", "role", "content", "parts", "type", "text", "path"),
        *("headers", "status", "input_type", "texts", "call_type", "metadata", "http_buffered_trace", "body"),
        *("as_string", "truncated", "key", "value", "sampling_rate", "model", "structured_messages", "tool_calls"),
        *("resourceSpans", "scopeSpans", "spans", "attributes", "traceId", "spanId", "stringValue", "arrayValue"),
        *("values", "kvlistValue", "events", "name", "startTimeUnixNano", "time", "index", "message", "output"),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            *("chat", "text", "request", "response", "user", "gen_ai.choice", "gen_ai.user.message", "/v1/messages"),
            *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.request.model", "gen_ai.prompt.0.content"),
            *("[{", '[{"role": 1}]', '[{"parts": [{"type": "tool_call"}]}]', '{"a": ', "data: {", "1e999", "NaN"),
        ]
    ),
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=5)),
    max_leaves=25,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=8)
ATTRIBUTES = st.dictionaries(TEXTS, VALUES, max_size=8)


SIGNALS: tuple[otlp.Signal, ...] = ("traces", "logs")
PARTS = [{"type": "text", "content": "x"}] * 50


def any_value(value: Any) -> dict[str, Any]:
    match value:
        case list():
            return {"arrayValue": {"values": [any_value(one) for one in value]}}
        case dict():
            return {"kvlistValue": {"values": [{"key": key, "value": any_value(one)} for key, one in value.items()]}}
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": value}
        case float():
            return {"doubleValue": value}
        case int():
            return {"intValue": str(value)}
    return {}


def check(sent: Sent) -> None:
    """Everything that was read can be stored, joined with itself, and read by the auditors or left by them."""
    for part in sent.parts:
        again = msgspec.json.decode(msgspec.json.encode(private(part, Redactor(["email"]))), type=Part)
        whole = merged([part, again])
        assert whole.id == part.id
        stored(completed(whole))
    for one in sent.whole:
        stored(one)


def stored(one: Received) -> None:
    exchange = exchange_of(
        one, stratum="other", probability=0.5, rate_factor=1.0, received_at=0.0, upstream="", model_label="other"
    )
    assert 0.0 < exchange.inclusion_probability <= 0.5
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(exchange), type=Exchange) == exchange
    with contextlib.suppress(NotAuditableError):
        read_conversation(exchange)


def check_unless_refused(read: Callable[[], Sent]) -> None:
    """As `check`; what is refused is refused in one line."""
    try:
        sent = read()
    except RequestError as exc:
        words = str(exc)
    else:
        check(sent)
        return
    assert "\n" not in words


@given(st.lists(st.one_of(OBJECTS, VALUES), max_size=4))
def test_pairs_and_records(objects: list[Any]) -> None:
    """Of the HTTP and the LiteLLM door; each object is taken, ignored or rejected."""
    sent = pairs.read(objects, "sender")
    assert len(sent.whole) + len(sent.parts) + sent.n_ignored + sent.rejected.count == len(objects)
    check(sent)
    check(litellm.read_records(objects, None))


@given(OBJECTS)
def test_records_and_guardrails(data: dict[str, Any]) -> None:
    """Records that have what a record has, and guardrail's calls."""
    whole = {"call_type": "acompletion", "messages": [], "response": {}} | data
    check(litellm.read_records([whole], "sender"))
    for side in ("request", "response"):
        check_unless_refused(partial(guardrail_call, {**data, "input_type": side}))


def guardrail_call(data: dict[str, Any]) -> Sent:
    return Sent(parts=[litellm.read_guardrail_call(data, None)])


@given(ATTRIBUTES, VALUES, st.sampled_from(["gen_ai.choice", "gen_ai.user.message", "gen_ai.assistant.message", "x"]))
def test_spans_and_records_of_logs(attributes: dict[str, Any], body: Any, name: str) -> None:
    """Attributes and bodies of any shape behind the names that are read."""
    listed = [{"key": key, "value": any_value(value)} for key, value in attributes.items()]
    listed.append({"key": "gen_ai.request.model", "value": {"stringValue": "m"}})
    ids = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331"}
    span = {**ids, "attributes": listed, "events": [{"name": name, "attributes": listed}]}
    log = {**ids, "attributes": listed, "eventName": name, "body": any_value(body)}
    traces = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [log]}]}]}
    check(otlp.read(json.dumps(traces).encode(), "traces", is_json=True, sender=None))
    check(otlp.read(json.dumps(logs).encode(), "logs", is_json=True, sender=None))


@given(st.one_of(st.binary(max_size=200), VALUES.map(lambda value: json.dumps(value).encode())))
def test_bodies_that_are_no_export(body: bytes) -> None:
    """JSON of another shape and random bytes are refused in one line."""
    for is_json in (True, False):
        for signal in SIGNALS:
            check_unless_refused(partial(otlp.read, body, signal, is_json=is_json, sender=None))


@pytest.mark.parametrize(
    "large",
    [
        pytest.param({"gen_ai.input.messages": "[" * 1_000_000}, id="deep text"),
        pytest.param({f"gen_ai.prompt.{number}.content": "x" for number in range(20_000)}, id="numbered"),
        pytest.param(
            {
                "gen_ai.input.messages": json.dumps(
                    [{"role": "user", "parts": [{"type": "text", "content": "x"}] * 50}] * 2000
                )
            },
            id="many parts",
        ),
        pytest.param({"gen_ai.prompt": json.dumps([{"role": "user", "content": "same"}] * 50_000)}, id="repetitive"),
    ],
)
def test_large_ones_take_time_in_proportion(large: dict[str, str]) -> None:
    """Each of some megabytes is read, merged with itself and made a body within seconds on a busy machine."""
    listed = [{"key": key, "value": {"stringValue": value}} for key, value in large.items()]
    listed += [{"key": "gen_ai.request.model", "value": {"stringValue": "m"}}]
    ids = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331"}
    export = {"resourceSpans": [{"scopeSpans": [{"spans": [{**ids, "attributes": listed}]}]}]}
    body = json.dumps(export).encode()
    started = time.process_time()
    [part] = otlp.read(body, "traces", is_json=True, sender=None).parts
    completed(merged([part, part]))

    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    "body",
    [
        b'{"id": "a", "request": {"messages": [], "n": 1000000000000000000000000000000}, "response": {"choices": []}}',
        rb'{"id": "a", "request": {"messages": [{"role": "user", "content": "\ud800"}]}, "response": {"choices": []}}',
        b'{"id": "a", "request": {"messages": [], "x": NaN}, "response": {"choices": [], "y": -Infinity}}',
        rb'{"id": "\u0000", "request": "' + b"[" * 100_000 + b'", "response": {"choices": []}}',
        b'{"id": "a", "time": 1e400, "seconds": -1e308, "request": {"messages": []}, "response": {"choices": []}}',
    ],
)
def test_numbers_and_texts_that_are_hard_to_write(body: bytes) -> None:
    """Numbers beyond 64 bits, halves of characters and no numbers are read, and can be written again."""
    check(pairs.read([read_json(body)], None))
