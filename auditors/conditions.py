"""The conditions of a live request: every field that shapes its answer, as a chat completion that probes carry on.
Fields of responses and messages are translated; what is neither carried nor known to shape nothing raises
NotAuditableError `field_not_carried`. The seed is left out: answers drawn with one seed would be one answer.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, Never

import msgspec

from auditors.text.conversation import Conversation, NotAuditableError

_FILE: Mapping[str, str] = tomllib.loads(Path(__file__).with_name("conditions.toml").read_text(encoding="utf-8"))
CARRIED, LEFT_OUT, NUMBERS_KEPT = (frozenset(_FILE[name].split()) for name in ("carried", "left_out", "numbers_kept"))
"""Members that shape the answer; members that are left out; members in which a list of numbers is not text."""

LARGEST_BYTES = 200_000
"""Most bytes of all carried fields together, as JSON."""
DEEPEST_CARRIED = 40
"""Objects and arrays in each other; less than where a stored body ends, so what was cut off there is not carried."""

_KNOWN: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("functions", "audio", "web_search_options", "documents", "previous_input_messages"), ()),
    **dict.fromkeys(("conversation", "prompt", "mcp_servers", "container", "context_management"), ()),
    **dict.fromkeys(("echo", "use_beam_search"), (False,)),
    "function_call": ("none",),
    "best_of": (1,),
    "truncation": ("disabled",),
    "modalities": (["text"],),
}
"""Known fields that cannot be carried, with the values that change nothing. The names hold no client's data."""
_NAMED = frozenset({*_KNOWN, "text", "reasoning", "thinking", "output_config", "the fields"})
REDACTED = re.compile(r"\[(?:key|email|iban|card|ip|phone|number|name|media|user)\]")
"""Pattern of the marks in a stored request in place of redacted parts."""
_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
_OF_FUNCTIONS = ("name", "description", "strict", "defer_loading")
_JSON_FORMATS = ("json_object", "json_schema")


def conditions_of(endpoint: str, request: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    """Fields besides a request's words and limits; `min_tokens` is `max_tokens` at most. Raises NotAuditableError."""
    fields = {name: value for name, value in request.items() if not _is_empty(value)}
    translate = _TRANSLATED.get(endpoint)
    translated = translate(fields) if translate else fields
    carried: dict[str, Any] = {}
    for name, value in translated.items():
        if name in CARRIED:
            carried[name] = value
        elif name not in LEFT_OUT and value not in _KNOWN.get(name, ()):
            _not_carried(name, "no rule says how")
    _check_tools(carried)
    _check_numbers(fields, carried, max_tokens)
    for name, value in carried.items():
        _check(name, value, 0)
    if carried and len(msgspec.json.encode(carried)) > LARGEST_BYTES:
        _not_carried("the fields", f"they have more than {LARGEST_BYTES} bytes")
    return carried


def returns_json(conditions: Mapping[str, Any]) -> bool:
    """Return whether an answer in words is held to JSON."""
    form, guided = conditions.get("response_format"), conditions.get("structured_outputs")
    return (
        (isinstance(form, dict) and form.get("type") in _JSON_FORMATS)
        or (isinstance(guided, dict) and not (_is_empty(guided.get("json")) and not guided.get("json_object")))
        or "guided_json" in conditions
    )


def offers_tools(conditions: Mapping[str, Any]) -> bool:
    """Return whether an answer may be a call of a tool."""
    return "tools" in conditions and conditions.get("tool_choice") != "none"


def has_room(conversation: Conversation, max_tokens: int) -> bool:
    """Return whether the answer is surely no longer than so many tokens; a text has at most as many tokens as bytes."""
    if conversation.max_tokens is not None and conversation.max_tokens <= max_tokens:
        return True
    if conversation.answer_tokens is not None:
        return conversation.answer_tokens <= max_tokens
    return len(conversation.reply_text.encode()) <= max_tokens


def _not_carried(name: str, why: str) -> Never:
    field = name if name in CARRIED | LEFT_OUT | _NAMED else "a field of an unknown name"
    raise NotAuditableError("field_not_carried", f"{field} cannot be carried into a probe: {why}")


def _is_empty(value: Any) -> bool:
    return value is None or value in ([], {}, "")


def _of_responses(request: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in request.items() if name not in ("text", "reasoning", "tools")}
    text = _object(request.get("text") or {}, "text", {"format", "verbosity"})
    reasoning = _object(request.get("reasoning") or {}, "reasoning", {"effort", "summary", "generate_summary"})
    form = _object(text.get("format") or {}, "text")
    if form.get("type") == "json_schema":
        schema = {name: form[name] for name in ("name", "description", "schema", "strict") if name in form}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif form and form.get("type") != "text":
        fields["response_format"] = form
    if "verbosity" in text:
        fields["verbosity"] = text["verbosity"]
    if not _is_empty(effort := reasoning.get("effort")):
        fields["reasoning_effort"] = effort
    if "tools" in request:
        fields["tools"] = [_chat_tool(tool, "parameters") for tool in _list(request["tools"], "tools")]
    choice = request.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function" and "name" in choice:
        fields["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
    return fields


def _of_messages(request: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in request.items() if name not in ("stop_sequences", "tools", *_OF_MESSAGES)}
    if "stop_sequences" in request:
        fields["stop"] = request["stop_sequences"]
    if "tools" in request:
        fields["tools"] = [_chat_tool(tool, "input_schema") for tool in _list(request["tools"], "tools")]
    for name, translate in _OF_MESSAGES.items():
        fields |= translate(request[name]) if name in request else {}
    return fields


def _thinking_of_messages(thinking: Any) -> dict[str, Any]:
    """Translate thinking as vLLM itself reads it: to a budget of tokens, to no effort at all, or to nothing."""
    match thinking:
        case {"type": "enabled", "budget_tokens": int(budget)}:
            return {"thinking_token_budget": budget}
        case {"type": "disabled"}:
            return {"reasoning_effort": "none"}
        case {"type": "adaptive"}:
            return {}
    _not_carried("thinking", "it has an unknown form")


def _output_of_messages(config: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    match _object(config, "output_config", {"effort", "format"}).get("format"):
        case None:
            pass
        case {"type": "json_schema", "schema": dict(schema)} | {"type": "json_schema", "json_schema": dict(schema)}:
            json_schema = {"name": "json_schema", "schema": schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        case _:
            _not_carried("output_config", "it has an unknown form")
    if not _is_empty(effort := config.get("effort")):
        fields["reasoning_effort"] = effort
    return fields


def _choice_of_messages(choice: Any) -> dict[str, Any]:
    kind = _object(choice, "tool_choice", {"type", "name", "disable_parallel_tool_use"}).get("type")
    if kind == "tool":
        fields: dict[str, Any] = {"tool_choice": {"type": "function", "function": {"name": choice.get("name")}}}
    elif kind in ("auto", "any", "none"):
        fields = {"tool_choice": "required" if kind == "any" else kind}
    else:
        _not_carried("tool_choice", "it has an unknown form")
    if choice.get("disable_parallel_tool_use"):
        fields["parallel_tool_calls"] = False
    return fields


def _chat_tool(tool: Any, schema: str) -> dict[str, Any]:
    members = {"type", "name", "description", "strict", "defer_loading", "cache_control", schema}
    if not isinstance(tool, dict) or tool.get("type", "function") not in ("function", "custom") or set(tool) - members:
        _not_carried("tools", "one of them is not a plain function")
    if tool.get("type") == "custom" and schema not in tool:
        _not_carried("tools", "one of them is not a plain function")
    function = {name: tool[name] for name in _OF_FUNCTIONS if not _is_empty(tool.get(name))}
    if not _is_empty(tool.get(schema)):
        function["parameters"] = tool[schema]
    return {"type": "function", "function": function}


def _object(value: Any, name: str, members: Set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict) or (members is not None and set(value) - members):
        _not_carried(name, "it has an unknown form")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        _not_carried(name, "it is not a list")
    return value


def _check_tools(fields: dict[str, Any]) -> None:
    """Only functions, which no server runs by itself; what is said about tools goes where there are none."""
    if "tools" not in fields:
        for name in _OF_TOOLS:
            fields.pop(name, None)
        return
    for tool in _list(fields["tools"], "tools"):
        match tool:
            case {"function": {"name": str()}} if tool.get("type", "function") == "function":
                continue
        _not_carried("tools", "one of them is not a plain function")


def _check_numbers(fields: Mapping[str, Any], carried: Mapping[str, Any], max_tokens: int) -> None:
    """Check that a question's numeric fields are numbers, and that a probe may end within its own limit."""
    for name in ("temperature", "top_p", "max_tokens", "max_completion_tokens", "max_output_tokens"):
        if isinstance(fields.get(name, 0), bool) or not isinstance(fields.get(name, 0), int | float):
            _not_carried(name, "it is not a number")
    least = carried.get("min_tokens", 0)
    if not isinstance(least, int) or least > max_tokens:
        _not_carried("min_tokens", "it is more than a probe may have")


def _check(name: str, value: Any, depth: int) -> None:
    """Raises NotAuditableError for what was taken out before it was stored, or lies too deep."""
    if depth > DEEPEST_CARRIED:
        _not_carried(name, f"it has more than {DEEPEST_CARRIED} levels")
    match value:
        case str() if REDACTED.search(value):
            _not_carried(name, "a part of it was redacted")
        case dict():
            for key, item in value.items():
                _check(name, key, depth)
                _check(name, item, depth + 1)
        case list():
            for item in value:
                _check(name, item, depth + 1)


_OF_MESSAGES: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "tool_choice": _choice_of_messages,
    "thinking": _thinking_of_messages,
    "output_config": _output_of_messages,
}
_TRANSLATED: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "/v1/responses": _of_responses,
    "/v1/messages": _of_messages,
}
