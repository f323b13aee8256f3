"""Reads messages of OpenTelemetry's GenAI conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/) as chats.
The attributes of today (`gen_ai.input.messages`, with parts), the events before them (`gen_ai.user.message`), the
attributes before those (`gen_ai.prompt`), and OpenLLMetry's numbered attributes (`gen_ai.prompt.0.content`) are read.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from auditors.text.lenient_json import read_piece
from gateway.features.ingest.received import MOST_MESSAGES, Json

OPERATIONS = frozenset({"chat", "text_completion", "generate_content", "completion"})
"""Values of gen_ai.operation.name, or llm.request.type, that have a prompt and an answer."""
DETAILS = "gen_ai.client.inference.operation.details"
CHOICE = "gen_ai.choice"
_ASKING = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
EVENTS = frozenset({*_ASKING, CHOICE, DETAILS, "gen_ai.content.prompt", "gen_ai.content.completion"})
_FIELDS = {
    "gen_ai.request.temperature": "temperature",
    "gen_ai.request.top_p": "top_p",
    "gen_ai.request.max_tokens": "max_tokens",
    "gen_ai.request.seed": "seed",
    "user.id": "user",
    "enduser.id": "user",
}
_OF_A_MESSAGE = frozenset({"role", "content", "message", "tool_calls"})
_PARTS = frozenset(
    {"text", "image_url", "image", "input_audio", "file", "refusal", "thinking", "tool_use", "tool_result"}
)
_NUMBERED = re.compile(r"gen_ai\.(prompt|completion)\.(\d{1,5})\.([a-z_]+)")


def is_exchange(attributes: Mapping[str, Any]) -> bool:
    """Return whether a span with these attributes asked a model for text."""
    operation = attributes.get("gen_ai.operation.name") or attributes.get("llm.request.type")
    if operation is not None:
        return operation in OPERATIONS
    return "gen_ai.request.model" in attributes


def model_of(attributes: Mapping[str, Any]) -> str | None:
    """Return the model that was asked for; the model that answered, where only that is known; None where neither is."""
    names = (attributes.get("gen_ai.request.model"), attributes.get("gen_ai.response.model"))
    return next((name[:200] for name in names if isinstance(name, str) and name), None)


def fields_of(attributes: Mapping[str, Any]) -> Json:
    """Other members of the request."""
    fields = {field: attributes[name] for name, field in _FIELDS.items() if name in attributes}
    return {field: value for field, value in fields.items() if isinstance(value, str | int | float)}


def content_of(attributes: Mapping[str, Any]) -> tuple[list[Json], list[Json]]:
    """Messages and choices that attributes hold, of a span or of the event of details."""
    text = "\n".join(_text(part) for part in _objects(attributes.get("gen_ai.system_instructions")))
    messages: list[Json] = [{"role": "system", "content": text}] if text else []
    for entry in _objects(attributes.get("gen_ai.input.messages")):
        if entry.get("parts") != [] or entry.get("tool_calls"):  # else its parts are not stated
            messages += _from_parts(entry)
    finished = attributes.get("gen_ai.response.finish_reasons")
    reasons = finished if isinstance(finished, list) else []
    answered = [
        _choice(index, message) for index, message in enumerate(_objects(attributes.get("gen_ai.output.messages")))
    ]
    if not messages:
        messages = [_chat(entry) for entry in _read_messages(attributes.get("gen_ai.prompt"))]
    if not answered:
        completions = _read_messages(attributes.get("gen_ai.completion"))
        answered = [_whole_choice(index, completion) for index, completion in enumerate(completions)]
    if not messages or not answered:
        by_kind: dict[str, dict[int, Json]] = {"prompt": {}, "completion": {}}
        for name, value in attributes.items():
            if match := _NUMBERED.fullmatch(name):
                kind, index, field = match.groups()
                by_kind[kind].setdefault(int(index), {})[field] = value
        numbered = {kind: [ones[index] for index in sorted(ones)] for kind, ones in by_kind.items()}
        messages = messages or [_chat(entry) for entry in numbered["prompt"]]
        answered = answered or [
            _whole_choice(index, completion) for index, completion in enumerate(numbered["completion"])
        ]
    for choice, reason in zip(answered, reasons, strict=False):
        if not choice.get("finish_reason") and isinstance(reason, str):
            choice["finish_reason"] = reason
    return messages[:MOST_MESSAGES], answered[:MOST_MESSAGES]


def event_content(name: str, attributes: Mapping[str, Any], body: Any) -> tuple[list[Json], list[Json]]:
    """Messages and choices of an event, of a span or as a log record."""
    fields = body if isinstance(body, dict) else dict(attributes)
    if name in _ASKING:
        return [_chat({"role": _ASKING[name], **fields})], []
    if name == CHOICE:
        return [], [_whole_choice(fields.get("index"), fields)]
    return content_of({**(body if isinstance(body, dict) else {}), **attributes})


def _from_parts(message: Json) -> list[Json]:
    """Read a message with parts; results of tools are messages of their own. LiteLLM puts calls next to the parts."""
    if "parts" not in message:
        return [_chat(message)]
    beside = _chat({**message, "content": None})
    messages = list[Json]()
    content: list[Any] = []
    calls: list[Json] = beside.get("tool_calls", [])
    thoughts = list[str]()
    for part in _objects(message["parts"]):
        match part.get("type"):
            case "text":
                content.append(_text(part))
            case "reasoning":
                thoughts.append(_text(part))
            case "tool_call":
                calls.append(_call(part))
            case "tool_call_response":
                result = part.get("response", part.get("result"))
                messages.append(
                    {"role": "tool", "tool_call_id": str(part.get("id") or ""), "content": _json_text(result)}
                )
            case kind:
                modality = part.get("modality")
                content.append({"type": modality if isinstance(modality, str) else str(kind)[:40]})
    if content or calls or not messages:
        words = "\n".join(content) if all(isinstance(piece, str) for piece in content) else _as_parts(content)
        turn = {**beside, "content": words}
        if calls:
            turn["tool_calls"] = calls
        if thoughts:
            turn["reasoning_content"] = "\n".join(thoughts)
        messages.append(turn)
    return messages


def _as_parts(content: list[Any]) -> list[Json]:
    return [{"type": "text", "text": piece} if isinstance(piece, str) else piece for piece in content]


def _choice(index: int, message: Json) -> Json:
    answer = _from_parts(message)[-1]
    return {"index": index, "message": {**answer, "role": "assistant"}, "finish_reason": message.get("finish_reason")}


def _whole_choice(index: Any, completion: Json) -> Json:
    inner = completion.get("message")
    message = _chat(inner if isinstance(inner, dict) else completion)
    number = index if isinstance(index, int) else 0
    finish = completion.get("finish_reason")
    return {"index": number, "message": {**message, "role": "assistant"}, "finish_reason": finish}


def _chat(message: Json) -> Json:
    role, content = message.get("role"), message.get("content")
    chat: Json = {"role": role if isinstance(role, str) else "user"}
    if isinstance(content, str) and content[:2] == "[{":  # OpenLLMetry writes parts as text; others answer in JSON
        parts = _value(content)
        content = parts if all(isinstance(part, dict) and part.get("type") in _PARTS for part in parts) else content
    chat["content"] = content if isinstance(content, str | list) or content is None else _json_text(content)
    if calls := _objects(message.get("tool_calls")):
        chat["tool_calls"] = [_call(call.get("function") or call, call.get("id")) for call in calls]
    if isinstance(call_id := message.get("id") or message.get("tool_call_id"), str) and role == "tool":
        chat["tool_call_id"] = call_id
    return chat


def _call(call: Json, call_id: Any = None) -> Json:
    arguments = call.get("arguments")
    function = {"name": str(call.get("name") or ""), "arguments": _json_text(arguments)}
    return {"id": str(call_id or call.get("id") or ""), "type": "function", "function": function}


def _objects(value: Any) -> list[Json]:
    value = _value(value)
    values = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
    return [entry for entry in map(_value, values[:MOST_MESSAGES]) if isinstance(entry, dict)]


def _read_messages(value: Any) -> list[Json]:
    """Read messages, one object, or either as JSON; text that is not JSON of messages is a user's message."""
    entries = _objects(value)
    if isinstance(value, str) and not any(entry.keys() & _OF_A_MESSAGE for entry in entries):
        return [{"role": "user", "content": value}] if value else []
    return entries


def _value(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return [{"role": "user", "content": value}] if isinstance(value, str) and value else value
    try:
        return read_piece(value)
    except ValueError:
        return [{"role": "user", "content": value}]


def _text(part: Any) -> str:
    content = part.get("content", part.get("text")) if isinstance(part, dict) else part
    return content if isinstance(content, str) else ""


def _json_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
