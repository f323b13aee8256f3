"""Translates attributes of spans in the conventions of OpenInference and the AI SDK to those of OpenTelemetry.
Sources: https://arize-ai.github.io/openinference/spec/attributes/semantic-conventions.html,
https://ai-sdk.dev/docs/ai-sdk-core/telemetry.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from auditors.text.lenient_json import read_piece
from gateway.features.ingest.received import MOST_MESSAGES, Json

HIDDEN = "__REDACTED__"
"""Written by OpenInference in place of text that its configuration hides."""
_KIND = "openinference.span.kind"
_MESSAGE = re.compile(
    r"llm\.(input|output)_messages\.(\d{1,5})\.message\.(?:(contents|tool_calls)\.(\d{1,5})\.)?"
    r"(role|content|tool_call_id|message_content\.(?:type|text)|tool_call\.(?:id|function\.(?:name|arguments)))"
)
_PIECE = re.compile(r"llm\.(prompts|choices)\.(\d{1,5})\.(?:prompt|completion)\.text")
_PARAMETERS = ("temperature", "top_p", "max_tokens", "seed")
_AI_SDK_CALLS = frozenset(
    {"ai.generateText.doGenerate", "ai.streamText.doStream", "ai.generateObject.doGenerate", "ai.streamObject.doStream"}
)
"""Operations of the AI SDK that are one call of a model; the span around it tells the same again."""


def in_gen_ai(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes, with those of another convention translated; OpenTelemetry's own take precedence."""
    if _KIND in attributes:
        return {**_from_openinference(attributes), **attributes}
    if isinstance(operation := attributes.get("ai.operationId"), str):
        return {**_from_ai_sdk(operation, attributes), **attributes}
    return attributes


def _from_openinference(attributes: Mapping[str, Any]) -> Json:
    if attributes[_KIND] != "LLM":
        return {"gen_ai.operation.name": str(attributes[_KIND]).lower()}
    translated: Json = {"gen_ai.operation.name": "chat", "gen_ai.request.model": attributes.get("llm.model_name")}
    parameters = _json(attributes.get("llm.invocation_parameters"))
    if isinstance(parameters, dict):
        translated |= {f"gen_ai.request.{name}": parameters[name] for name in _PARAMETERS if name in parameters}
    for side, messages in _messages(attributes).items():
        whole = _whole(attributes.get(f"{side}.value"), attributes.get(f"{side}.mime_type"))
        translated[f"gen_ai.{side}.messages"] = (
            [message for message in messages if message["parts"]] if messages else whole
        )
    return translated


def _messages(attributes: Mapping[str, Any]) -> dict[str, list[Json]]:
    by_side: dict[str, dict[int, Json]] = {"input": {}, "output": {}}
    for name, value in attributes.items():
        if match := _MESSAGE.fullmatch(name):
            side, index, pieces, number, field = match.groups()
            message = by_side[side].setdefault(int(index), {"contents": {}, "tool_calls": {}})
            (message if pieces is None else message[pieces].setdefault(int(number), {}))[field] = value
        elif match := _PIECE.fullmatch(name):
            side, index = match.groups()
            message = {"content": value, "contents": {}, "tool_calls": {}}
            by_side["input" if side == "prompts" else "output"].setdefault(int(index), message)
    return {side: [_message(entry) for entry in _in_order(numbered)] for side, numbered in by_side.items()}


def _message(fields: Json) -> Json:
    content = fields.get("content")
    parts = [_text("text", content)] if content and content != HIDDEN else []
    for entry in _in_order(fields["contents"]):
        kind, text = entry.get("message_content.type"), entry.get("message_content.text")
        if text != HIDDEN and (text or kind not in ("text", "reasoning", "tool_use")):  # calls stand beside
            parts.append(_text(kind, text) if kind in ("text", "reasoning") else {"type": str(kind)})
    for entry in _in_order(fields["tool_calls"]):
        name, arguments = (entry.get(f"tool_call.function.{field}") for field in ("name", "arguments"))
        parts.append({"type": "tool_call", "id": entry.get("tool_call.id"), "name": name, "arguments": arguments})
    return {"role": fields.get("role", "user"), "parts": parts, "tool_call_id": fields.get("tool_call_id")}


def _whole(value: Any, mime_type: Any) -> Any:
    if not isinstance(value, str) or value == HIDDEN:
        return None
    if mime_type != "application/json":
        return [{"parts": [_text("text", value)]}]
    body = _json(value)
    if not isinstance(body, dict) or not isinstance(choices := body.get("choices"), list):
        return body.get("messages") if isinstance(body, dict) else None
    return [{**choice["message"], "finish_reason": choice.get("finish_reason")} for choice in choices]


def _from_ai_sdk(operation: str, attributes: Mapping[str, Any]) -> Json:
    if operation not in _AI_SDK_CALLS:
        return {"gen_ai.operation.name": operation}
    prompt = _json(attributes.get("ai.prompt.messages"))
    parts = [
        _text(kind, attributes[name])
        for kind, name in (("reasoning", "ai.response.reasoning"), ("text", "ai.response.text"))
        if attributes.get(name)
    ]
    if not parts and attributes.get("ai.response.object"):
        parts.append(_text("text", attributes["ai.response.object"]))
    calls = _json(attributes.get("ai.response.toolCalls"))
    parts += [_ai_sdk_part({**call, "type": "tool-call"}) for call in calls or () if isinstance(call, dict)]
    answered = [{"role": "assistant", "parts": parts, "finish_reason": attributes.get("ai.response.finishReason")}]
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": [
            _ai_sdk_message(message) for message in islice(prompt or (), MOST_MESSAGES) if isinstance(message, dict)
        ],
        "gen_ai.output.messages": answered if parts else None,
        "gen_ai.response.id": attributes.get("ai.response.id"),
    }


def _ai_sdk_message(message: Json) -> Json:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {"role": message.get("role"), "parts": [_ai_sdk_part(part) for part in content if isinstance(part, dict)]}


def _ai_sdk_part(part: Json) -> Json:
    match part.get("type"):
        case "text" | "reasoning" as kind:
            return _text(kind, part.get("text"))
        case "tool-call":
            arguments = part.get("input", part.get("args"))
            call = {"id": part.get("toolCallId"), "name": part.get("toolName"), "arguments": arguments}
            return {"type": "tool_call", **call}
        case "tool-result":
            result = part.get("output", part.get("result"))
            if isinstance(result, dict) and result.keys() >= {"type", "value"}:
                result = result["value"]
            return {"type": "tool_call_response", "id": part.get("toolCallId"), "response": result}
        case kind:
            return {"type": str(kind)}


def _text(kind: Any, text: Any) -> Json:
    return {"type": kind, "content": text}


def _in_order(numbered: Mapping[int, Json]) -> Iterable[Json]:
    return (numbered[index] for index in islice(sorted(numbered), MOST_MESSAGES))


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return read_piece(value)
    except ValueError:
        return None
