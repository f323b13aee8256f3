"""Finds the thoughts in an exchange; ranges of the metrics about them, for processes that load no auditor."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from auditors.streams.scales import OWN_SCALES, Scale
from auditors.text import tool_calls
from auditors.text.answers.joined import joined
from auditors.text.conversation import NotAuditableError
from auditors.text.events import is_event_stream
from auditors.text.readers.exchange import json_object, thoughts_of_items
from auditors.text.thinking import reasoning_in
from auditors.text.thoughts import split
from auditors.text.tool_calls import UncarriedError
from auditors.types import Exchange

DISAGREEMENT = "thought_disagreement_rate"
PREFIX = "thought_"
"""Begins the names of the metrics of thoughts, so that no panel or alert takes them for those of answers."""
OF_ANSWERS = ("favoritism", "refusal_rate", "over_protection_rate", "premise_rejection_rate")
SCALES: Mapping[str, Scale] = {
    DISAGREEMENT: Scale(0.0, 1.0),
    **{PREFIX + metric: msgspec.structs.replace(OWN_SCALES[metric], has_gap=False) for metric in OF_ANSWERS},
}


def with_thoughts_as_answer(exchange: Exchange) -> Exchange:
    """Return the exchange with its thoughts as answer. Raises NotAuditableError where it has no readable thoughts."""
    is_stream = is_event_stream(exchange)
    body = exchange.response_body
    response = joined(exchange.endpoint, body) if is_stream else json_object(body, "response")
    try:
        thoughts = "\n".join(filter(None, map(str.strip, _thoughts(exchange.endpoint, response))))
        answer = _answer(exchange.endpoint, thoughts)
    except (AttributeError, IndexError, KeyError, TypeError, UncarriedError) as exc:
        raise NotAuditableError("unexpected_shape", f"the thoughts cannot be read: {exc}") from exc
    if not thoughts:
        raise NotAuditableError("no_text", "the model did not think, or its thoughts are not in the reply")
    return msgspec.structs.replace(
        exchange, response_body=msgspec.json.encode(answer), content_type="application/json", stream=False
    )


def _thoughts(endpoint: str, response: Mapping[str, Any]) -> Iterable[str]:
    """Yield the thoughts of the first choice: fields, items and blocks of their own, and marked parts of the text."""
    match endpoint:
        case "/v1/messages":
            yield tool_calls.thoughts_of(block for block in response["content"] if block.get("type") == "thinking")
            yield from (_marked(block["text"]) for block in response["content"] if block.get("type") == "text")
        case "/v1/responses":
            yield thoughts_of_items([item for item in response["output"] if item.get("type") == "reasoning"])
        case _:
            choice = next(choice for choice in response["choices"] if choice.get("index", 0) == 0)
            message = choice.get("message") or {"content": choice.get("text")}
            reasoning = reasoning_in(message)
            yield reasoning.text if reasoning else ""
            yield _marked(message.get("content"))


def _marked(text: object) -> str:
    return (split(text).thoughts or "") if isinstance(text, str) else ""


def _answer(endpoint: str, text: str) -> dict[str, Any]:
    match endpoint:
        case "/v1/messages":
            return {"content": [{"type": "text", "text": text}]}
        case "/v1/responses":
            return {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}
        case "/v1/completions":
            return {"choices": [{"text": text}]}
        case _:
            return {"choices": [{"message": {"role": "assistant", "content": text}}]}
