"""Spans in spans: one call that a framework and its client both tell of counts once, and nothing else is left out."""

import json
from typing import Any

from gateway.features.ingest import otlp
from gateway.features.ingest.rates import Rates
from gateway.features.ingest.received import Sent
from tests.support.gateway.otlp import span

ANSWER = "Anyone may."


def chat(answer: str = ANSWER, *, calls: str | None = None) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "text", "content": answer}]
    if calls is not None:
        parts.append({"type": "tool_call", "id": "c1", "name": "weather", "arguments": calls})
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "qwen",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Who leads?"}]}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
    }


def read(*spans: tuple[str, str, dict[str, Any]]) -> Sent:
    """Of the id of each span, that of the one around it, and its attributes."""
    together: dict[str, Any] = {"resourceSpans": []}
    for name, parent, attributes in spans:
        one = span(attributes, span_id=name * 16, parentSpanId=parent * 16)
        together["resourceSpans"] += one["resourceSpans"]
    body, believed = json.dumps(together).encode(), Rates(is_believed=True)
    return otlp.read(body, "traces", is_json=True, sender="app", rates=believed)


def kept(sent: Sent) -> list[str]:
    """First digits of the ids of the spans that are kept."""
    return [part.request_id[0] for part in sent.parts]


def test_the_inner_span_stands_for_the_call() -> None:
    """Of three spans in one another with one answer the innermost is kept, with what the others say of it."""
    framework = chat() | {"biasgate.audit": "off", "biasgate.tag": "letters", "biasgate.sampling_rate": 0.5}
    sent = read(("c", "b", chat()), ("b", "a", chat()), ("a", "f", framework), ("f", "", {"db.system": "postgresql"}))
    assert (kept(sent), sent.n_ignored) == (["c"], 3)
    [one] = sent.parts
    assert (one.opt, one.tag, one.sender_rate) == ("off", "letters", 0.5)


def test_calls_within_another_are_calls() -> None:
    """A tool that asks a model itself, within the span of the call that led to it, has another answer."""
    assert kept(read(("b", "a", chat("Yes.")), ("a", "", chat()))) == ["b", "a"]


def test_a_call_of_tools_however_its_arguments_are_written() -> None:
    """The same name called with the same words beside it is the same answer."""
    inner, outer = chat(calls='{"city": "Rome"}'), chat(calls='{"city":"Rome"}')
    assert kept(read(("b", "a", inner), ("a", "", outer))) == ["b"]
    assert kept(read(("b", "a", chat()), ("a", "", outer))) == ["b", "a"]


def test_what_tells_no_content_stands_for_nothing() -> None:
    """Where the client's span has no content the framework's is the exchange."""
    bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "qwen"}
    sent = read(("b", "a", bare), ("a", "", chat()))
    assert [part.is_whole for part in sent.parts] == [False, True]


def test_a_failed_try_and_the_one_after_it() -> None:
    """Both tries are kept; the span around them tells what the second tells."""
    failed = {name: value for name, value in chat().items() if "output" not in name} | {"error.type": "timeout"}
    sent = read(("b", "a", failed), ("c", "a", chat()), ("a", "", chat()))
    assert (kept(sent), [part.status for part in sent.parts]) == (["b", "c"], [500, 200])


def test_spans_side_by_side_or_in_circles() -> None:
    """Two spans with one answer are two; a span in itself is kept, and two in each other end."""
    assert kept(read(("b", "a", chat()), ("c", "a", chat()), ("a", "", {"db.system": "x"}))) == ["b", "c"]
    assert kept(read(("a", "a", chat()))) == ["a"]
    assert len(read(("a", "b", chat()), ("b", "a", chat()), ("c", "a", chat())).parts) == 1
