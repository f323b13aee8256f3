"""What stands beside the bias of an answer, read from stored exchanges."""

import json
import math
from typing import Any

import pytest

from auditors.answer_quality import answer_quality
from tests.support.store.made import exchange


def quality(answer: Any = None, **fields: Any) -> dict[str, float | None]:
    """By metric, of an exchange with this answer."""
    body = {} if answer is None else {"response_body": json.dumps(answer).encode()}
    return {one.metric: one.value for one in answer_quality(exchange(**body | fields))}


def chat(content: str | None, *arguments: str) -> dict[str, Any]:
    """A chat's answer with calls of a tool."""
    calls = [{"id": "1", "type": "function", "function": {"name": "find", "arguments": one}} for one in arguments]
    return {"choices": [{"message": {"role": "assistant", "content": content, "tool_calls": calls}}]}


def test_words_and_refusals() -> None:
    """Words as a logarithm, and whether an answer declines, in its own field or in words."""
    assert quality(chat("Three plain words")) == {"answer_declined": 0.0, "answer_words": 2.0}
    assert quality(chat("I'm sorry, but I can't help with that."))["answer_declined"] == 1.0
    refused = {"choices": [{"message": {"role": "assistant", "content": None, "refusal": "No."}}]}
    assert quality(refused)["answer_declined"] == 1.0


def test_what_nobody_can_read_has_no_value() -> None:
    """It is missing, with a reason, and not an answer of no words; its times are known all the same."""
    found = answer_quality(exchange(response_body=b"<html>", seconds=4.0))
    assert [(one.metric, one.value, one.status) for one in found] == [
        ("answer_declined", None, "malformed"),
        ("answer_words", None, "malformed"),
        ("answer_seconds", 2.0, "ok"),
    ]


def test_times_are_the_gateways() -> None:
    """Seconds as a logarithm; the first chunk of streams alone; none where none were kept."""
    times = {"seconds": 8.0, "first_chunk_seconds": 0.25}
    assert "answer_first_chunk_seconds" not in quality(**times)
    streamed = quality(**times, stream=True)
    assert (streamed["answer_seconds"], streamed["answer_first_chunk_seconds"]) == (3.0, -2.0)
    assert not [name for name in quality(stream=True) if "seconds" in name]


RESPONSES: dict[str, Any] = {
    "output": [
        {"type": "function_call", "name": "find", "call_id": "1", "arguments": '{"city": "Bern"}'},
        {"type": "function_call", "name": "find", "call_id": "2", "arguments": '{"city": "Be'},
    ]
}
MESSAGES = {"content": [{"type": "tool_use", "id": "1", "name": "now", "input": {}}]}


@pytest.mark.parametrize(
    ("answer", "fields", "share"),
    [
        (chat(None, '{"city": "Bern"}'), {}, 1.0),
        (chat("Looking.", '{"city": "Bern"}', '{"city": "Be', "[1]", ""), {}, 0.25),
        (RESPONSES, {"endpoint": "/v1/responses", "request_body": b'{"input": "Where?"}'}, 0.5),
        (MESSAGES, {"endpoint": "/v1/messages"}, 1.0),
        (chat("No call."), {}, None),
    ],
)
def test_calls_of_tools_are_valid_or_not(answer: Any, fields: dict[str, Any], share: float | None) -> None:
    """The share of an answer's calls whose arguments are a JSON object; nothing of an answer without calls."""
    assert quality(answer, **fields).get("answer_valid_tool_calls") == share


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"choices": [1]}', b'{"choices": [{"message": 1}]}', b"\xff"])
def test_odd_answers_raise_nothing(body: bytes) -> None:
    """Whatever a server sent is described or counted as missing."""
    for one in answer_quality(exchange(response_body=body)):
        assert one.value is None or math.isfinite(one.value)
