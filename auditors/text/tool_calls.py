"""Reads calls and results of tools as messages of a chat, or raises `UncarriedError` where it cannot."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from auditors.types import ToolCall

OTHER_CALL = "a call of a tool other than a plain function"
OTHER_RESULT = "a result other than text"
NO_ID = "a call or result without an id"
OTHER_ROLE = "a call or result in a message of another role"
SERVER_TOOL = "a tool of the server's own or of another kind"
LEGACY = "calls in the legacy form"
UNREADABLE_THOUGHTS = "thoughts that only their server can read"


class UncarriedError(Exception):
    """A call or result that no message of a chat can repeat unchanged; the error's message is the reason."""


def chat_calls(calls: Any) -> tuple[ToolCall, ...]:
    """Return the calls of an assistant's message (`tool_calls`), in order. Raises UncarriedError."""
    if not isinstance(calls, list):
        raise UncarriedError(OTHER_CALL)
    return tuple(map(_chat_call, calls))


def responses_call(item: Mapping[str, Any]) -> ToolCall:
    """Return the call in an item `function_call`. Raises UncarriedError."""
    return _call(item, item.get("call_id"), item.get("arguments"))


def messages_call(block: Mapping[str, Any]) -> ToolCall:
    """Return the call in a block `tool_use`, with its input as JSON. Raises UncarriedError."""
    tool_input = block.get("input")
    if not isinstance(tool_input, dict | None):
        raise UncarriedError(OTHER_CALL)
    return _call(block, block.get("id"), tool_input)


def id_of(value: Any) -> str:
    """Return the id that connects a call with its result. Raises UncarriedError for any other value."""
    if not isinstance(value, str) or not value:
        raise UncarriedError(NO_ID)
    return value


def result_of(content: Any) -> str:
    """Return the text of a tool's result: a string, or text parts, a line each. Raises UncarriedError."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise UncarriedError(OTHER_RESULT)
    return "\n".join(filter(None, map(_text_of, content)))


def thoughts_of(parts: Iterable[Any]) -> str:
    """Return the thoughts in parts of a reasoning item, or in thinking blocks, a line each."""
    texts = [part.get("thinking") or part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _chat_call(call: Any) -> ToolCall:
    if not isinstance(call, dict) or call.get("type", "function") != "function":
        raise UncarriedError(OTHER_CALL)
    function = call.get("function")
    if not isinstance(function, dict):
        raise UncarriedError(OTHER_CALL)
    return _call(function, call.get("id"), function.get("arguments"))


def _call(function: Mapping[str, Any], call_id: Any, arguments: Any) -> ToolCall:
    """Return a call. Arguments as an object, which some servers accept, become JSON; None becomes an empty object."""
    name = function.get("name")
    if not isinstance(name, str) or not name or not isinstance(arguments, str | dict | None):
        raise UncarriedError(OTHER_CALL)
    arguments_json = (
        arguments
        if isinstance(arguments, str)
        else json.dumps(arguments or {}, ensure_ascii=False, separators=(",", ":"))
    )
    return ToolCall(name, arguments_json, id_of(call_id))


def _text_of(part: Any) -> str:
    if isinstance(part, str):
        return part
    is_text = isinstance(part, dict) and part.get("type") in ("text", "input_text", "output_text")
    if not is_text or not isinstance(part.get("text"), str):
        raise UncarriedError(OTHER_RESULT)
    return str(part["text"])
