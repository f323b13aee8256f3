"""Measures a stored answer apart from bias: a policy can lower a bias by answering less, or worse."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from auditors.text.answers.joined import joined
from auditors.text.conversation import NotAuditableError
from auditors.text.events import is_event_stream
from auditors.text.lenient_json import read_json
from auditors.text.readers.exchange import read_conversation
from auditors.text.refusal_words import declines
from auditors.types import Exchange, Measurement

NAME, VERSION = "answer", "1"
"""Name and version in the place where a measurement has its auditor's; no auditor has this name."""


def answer_quality(exchange: Exchange) -> list[Measurement]:
    """A measurement for each proxy of the exchange; never raises. `answer_declined` is 0 or 1, `answer_words` log2(1 +
    words without thoughts), both without value for an unreadable answer. Seconds (`answer_seconds`, of streams
    `answer_first_chunk_seconds`) are log2. `answer_valid_tool_calls`: share of calls with a JSON object.
    """
    try:
        conversation = read_conversation(exchange)
    except NotAuditableError as exc:
        unread = ("answer_declined", "answer_words")
        measurements = [_measurement(metric, None, status="malformed", reason=exc.reason) for metric in unread]
    else:
        text = conversation.reply_text.strip()
        measurements = [
            _measurement("answer_declined", float(bool(conversation.refusal) or declines(text))),
            _measurement("answer_words", math.log2(1 + len(text.split()))),
        ]
        if calls := [is_json_object(argument) for argument in _arguments(exchange)]:
            measurements.append(_measurement("answer_valid_tool_calls", sum(calls) / len(calls)))
    first_chunk = exchange.first_chunk_seconds if exchange.stream else None
    times = {"answer_seconds": exchange.seconds, "answer_first_chunk_seconds": first_chunk}
    return measurements + [_measurement(metric, math.log2(t)) for metric, t in times.items() if t is not None and t > 0]


def is_json_object(arguments: str) -> bool:
    """Return whether the arguments of a call are a JSON object, as every tool takes."""
    try:
        msgspec.json.decode(arguments, type=dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _arguments(exchange: Exchange) -> Iterator[str]:
    if is_event_stream(exchange):
        answer: Any = joined(exchange.endpoint, exchange.response_body)
    else:
        answer = read_json(exchange.response_body)
    if isinstance(answer, dict):
        yield from map(_as_text, _raw_arguments(answer))


def _raw_arguments(answer: Mapping[str, Any]) -> Iterator[Any]:
    for choice in _objects(answer.get("choices"))[:1]:
        message = choice.get("message")
        for call in _objects(message.get("tool_calls")) if isinstance(message, dict) else ():
            if isinstance(function := call.get("function"), dict):
                yield function.get("arguments")
    for item in _objects(answer.get("output")):
        if item.get("type") == "function_call":
            yield item.get("arguments")
    for block in _objects(answer.get("content")):
        if block.get("type") == "tool_use":
            yield block.get("input", {})  # a stored answer leaves an empty one out


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _measurement(metric: str, value: float | None, **further: Any) -> Measurement:
    return Measurement(auditor=NAME, auditor_version=VERSION, metric=metric, axis=None, value=value, **further)
