"""Chat completions as bytes. A 200 that is unreadable, or longer than asked for, is a "malformed" `CompletionError`."""

from collections.abc import Sequence
from typing import Any

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.text.thinking import reasoning_in, told_apart
from auditors.types import Completion, CompletionError, CompletionRequest, Message, ToolCall

LONGEST_REPLY_BYTES = 4 * 1024 * 1024
"""Most bytes of a chat completion, decoded: a hundred times the size of the longest answer asked for."""
LONGEST_USAGE_BYTES = 16 * 1024
LONGEST_CALLS_BYTES = 256 * 1024
"""Most bytes of all tool calls of a reply: a hundred times the size of the longest answer asked for."""
LONGEST_LOGPROBS_BYTES = 1024 * 1024
"""Read into Python objects, logprobs and usage take up to thirty times their length."""

_NOTHING = msgspec.Raw(b"null")


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning: msgspec.Raw = _NOTHING
    reasoning_content: msgspec.Raw = _NOTHING
    tool_calls: msgspec.Raw = _NOTHING


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct):
    function: _Function | None = None


class _Choice(msgspec.Struct):
    message: _Message
    index: int = 0
    finish_reason: str | None = None
    logprobs: msgspec.Raw = _NOTHING


class _Chat(msgspec.Struct):
    choices: list[_Choice]
    usage: msgspec.Raw = _NOTHING
    system_fingerprint: str | None = None


class _Index(msgspec.Struct):
    index: int


class _Batch(msgspec.Struct):
    choices: list[msgspec.Raw]
    usage: msgspec.Raw = _NOTHING
    system_fingerprint: str | None = None


_chat_decoder = msgspec.json.Decoder(_Chat)
_batch_decoder = msgspec.json.Decoder(_Batch)
_index_decoder = msgspec.json.Decoder(_Index)
_text_decoder = msgspec.json.Decoder(str)
_calls_decoder = msgspec.json.Decoder(list[_Call] | None)
_object_decoder = msgspec.json.Decoder(dict[str, Any] | None)


def chat_body(request: CompletionRequest, priority: int | None = None) -> bytes:
    """JSON body of a chat completion, without fields that are None; `extra` is merged last. Larger priority: later."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": _sent(request),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "priority": priority,
    }
    if request.response_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {
                "name": request.response_schema.get("title", "reply"),
                "schema": request.response_schema,
                "strict": True,
            },
        }
    return msgspec.json.encode({k: v for k, v in body.items() if v is not None} | dict(request.extra))


def batch_body(requests: Sequence[CompletionRequest], priority: int | None = None) -> bytes:
    """JSON body of vLLM's POST /v1/chat/completions/batch, of requests that differ in their messages alone."""
    body = msgspec.json.decode(chat_body(requests[0], priority))
    return msgspec.json.encode({**body, "messages": [_sent(request) for request in requests]})


def parse_batch(body: bytes, n: int) -> list[Completion]:
    """One completion for each of n conversations, the first with the usage. Raises CompletionError."""
    try:
        reply = _batch_decoder.decode(body)
        choices = {_index_decoder.decode(choice).index: choice for choice in reply.choices}
    except UNREADABLE as exc:
        raise CompletionError("malformed", f"the reply is not a chat completion: {exc}", status_code=200) from exc
    if len(reply.choices) != n or sorted(choices) != list(range(n)):
        raise CompletionError("malformed", f"the reply has no choice for each of {n} conversations", status_code=200)
    usages = (reply.usage, *[_NOTHING] * (n - 1))
    parts = [{"choices": [choices[place]], "usage": usage} for place, usage in enumerate(usages)]
    return [parse_chat(msgspec.json.encode({**part, "system_fingerprint": reply.system_fingerprint})) for part in parts]


def parse_chat(body: bytes) -> Completion:
    """First choice, answer apart from thoughts, with the others in `further`. Raises CompletionError "malformed"."""
    try:
        chat = _chat_decoder.decode(body)
        if not chat.choices:
            raise CompletionError("malformed", "the reply has no choices", status_code=200)
        usage = _object("usage", chat.usage, LONGEST_USAGE_BYTES)
        choices = sorted(chat.choices, key=lambda choice: choice.index)
        first, *further = [_completion_of(choice, chat.system_fingerprint) for choice in choices]
    except UNREADABLE as exc:
        raise CompletionError("malformed", f"the reply is not a chat completion: {exc}", status_code=200) from exc
    return msgspec.structs.replace(first, usage=usage, further=tuple(further))


def _sent(request: CompletionRequest) -> list[Message | dict[str, Any]]:
    """The messages in the form of chat completions: plain ones have it by themselves."""
    return [_sent_message(message) if message.calls or message.call_id else message for message in request.messages]


def _sent_message(message: Message) -> dict[str, Any]:
    if message.call_id:
        named = {"name": message.tool} if message.tool else {}
        return {"role": message.role, "tool_call_id": message.call_id, "content": message.content, **named}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.calls
    ]
    thoughts = {message.thoughts_field: message.thoughts} if message.thoughts else {}
    return {"role": message.role, "content": message.content or None, **thoughts, "tool_calls": calls}


def _completion_of(choice: _Choice, fingerprint: str | None) -> Completion:
    """One choice. Raises CompletionError, or one of UNREADABLE."""
    message = choice.message
    thoughts = reasoning_in(
        {"reasoning": _text(message.reasoning), "reasoning_content": _text(message.reasoning_content)}
    )
    completion = Completion(
        text=message.content,
        reasoning=None if thoughts is None else thoughts.text,
        reasoning_field=None if thoughts is None else thoughts.field,
        finish_reason=choice.finish_reason,
        fingerprint=fingerprint,
        logprobs=_object("logprobs", choice.logprobs, LONGEST_LOGPROBS_BYTES),
        refusal=message.refusal,
        tool_calls=_calls(message.tool_calls),
    )
    return told_apart(completion)


def _calls(raw: msgspec.Raw) -> tuple[ToolCall, ...]:
    """The tools that a reply asks for, in order. Raises CompletionError, or one of UNREADABLE."""
    if len(memoryview(raw)) > LONGEST_CALLS_BYTES:
        message = f"the reply's tool calls are longer than {LONGEST_CALLS_BYTES} bytes"
        raise CompletionError("malformed", message, status_code=200)
    functions = [call.function or _Function() for call in _calls_decoder.decode(raw) or ()]
    return tuple(ToolCall(function.name or "", _arguments(function.arguments)) for function in functions)


def _arguments(arguments: str | dict[str, Any] | None) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()


def _text(raw: msgspec.Raw) -> str | None:
    """A member that some servers send as text; others' objects are not made. Raises one of UNREADABLE."""
    return _text_decoder.decode(raw) if bytes(memoryview(raw)[:1]) == b'"' else None


def _object(name: str, raw: msgspec.Raw, longest: int) -> dict[str, Any] | None:
    """A part of a reply that may have any fields. Raises CompletionError, or one of UNREADABLE."""
    if len(memoryview(raw)) > longest:
        raise CompletionError("malformed", f"the reply's {name} is longer than {longest} bytes", status_code=200)
    fields: dict[str, Any] | None = _object_decoder.decode(raw)
    return fields
