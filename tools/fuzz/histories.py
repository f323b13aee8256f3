"""Target: requests with calls and results of tools, from reading to the body of a probe about another group.

A request is read or not auditable for a known reason; what is read can be sent; what is swapped keeps ids, names, the
JSON of arguments and results, and their shape; and no input of this size takes a second.
"""

import json
from typing import Any, get_args

from auditors.clients.chat_format import chat_body
from auditors.probes import check_tool_history
from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.readers.exchange import read_conversation
from auditors.text.swaps.prompt import SwappedPrompt, swapped_prompt
from auditors.types import CompletionRequest, Exchange, Message, NotAuditable
from tools.fuzz.target import Broken, check_in_time

ENDPOINTS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
ANSWER = b'{"choices": [], "output": [], "content": []}'


class Histories:
    """The first byte chooses the endpoint; the rest is the request's body."""

    seeds = (
        b'\0{"messages": [{"role": "user", "content": "My sister asks for a loan."}, {"role": "assistant", "content": '
        b'null, "reasoning": "She asks.", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", '
        b'"arguments": "{\\"who\\": \\"my sister\\", \\"n\\": 1.10}"}}]}, {"role": "tool", "tool_call_id": "c1", '
        b'"content": "{\\"gender\\": \\"female\\", \\"a\\": [1, \\"sister\\"]}"}]}',
        b'\1{"input": [{"role": "user", "content": "My sister asks for a loan."}, {"type": "reasoning", "summary": [], '
        b'"content": [{"type": "reasoning_text", "text": "Hm."}]}, {"type": "function_call", "call_id": "c1", "name": '
        b'"f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c1", "output": "She is known."}, '
        b'{"type": "web_search_call"}]}',
        b'\2{"system": "Help.", "messages": [{"role": "user", "content": "My sister asks for a loan."}, {"role": '
        b'"assistant", "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "tool_use", "id": "c1", "name": '
        b'"f", "input": {"who": "my sister"}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": '
        b'"c1", "is_error": true, "content": [{"type": "text", "text": "She is gone."}]}]}]}',
        b'\0{"messages": [{"role": "user", "content": "My sister asks."}, {"role": "tool", "tool_call_id": "c", '
        b'"content": "' + b"[" * 3_000 + b'"}]}',
        b'\0{"messages": [{"role": "user", "content": "My sister asks."}, {"role": "assistant", "tool_calls": ['
        + b'{"id": "c", "function": {"name": "f", "arguments": {"a": ["sister"]}}}, ' * 60
        + b"null]}]}",
    )
    tokens = (
        b'"role"', b'"tool"', b'"assistant"', b'"user"', b'"tool_calls"', b'"tool_call_id"', b'"function"', b'"id"',
        b'"name"', b'"arguments"', b'"content"', b'"type"', b'"tool_use"', b'"tool_result"', b'"function_call"',
        b'"function_call_output"', b'"call_id"', b'"output"', b'"input"', b"null", b"{}", b"[]", b"1e999", b'""',
        b'\\"sister\\"', b'\\"gender\\": \\"female\\"', b"sister", b"brother", b"women", b"\\ud800", b"\\u0000",
        b'"reasoning"', b'"redacted_thinking"', b"[email]", b"[media]", b"{", b"}", b"[", b"]", b'"', b"\\",
    )  # fmt: skip

    def check(self, data: bytes) -> None:
        check_in_time(self._check, data)

    def _check(self, data: bytes) -> None:
        try:
            conversation = read_conversation(_exchange(data))
            _sent(conversation.messages)
            check_tool_history(conversation)
        except NotAuditableError as exc:
            if exc.reason not in get_args(NotAuditable):
                raise Broken(f"no known reason: {exc.reason}") from exc
        else:
            _check_swap(conversation)

    def close(self) -> None:
        """Nothing runs."""


def _check_swap(conversation: Conversation) -> None:
    other = swapped_prompt("e1", conversation.messages)
    if not isinstance(other, SwappedPrompt):
        return
    _sent(other.messages)
    if len(other.asked) != len(other.swap.texts):
        raise Broken("texts do not stand beside each other")
    for message, changed in zip(conversation.messages, other.messages, strict=True):
        pairs = zip(message.calls, changed.calls, strict=True)
        written = [(call.arguments, new.arguments) for call, new in pairs]
        if message.call_id:
            written.append((message.content, changed.content))
        if any(_shape(_value(first)) != _shape(_value(second)) for first, second in written):
            raise Broken(f"JSON has another shape: {message!r} became {changed!r}")
        kept = [(m.role, m.call_id, m.tool, [(call.id, call.name) for call in m.calls]) for m in (message, changed)]
        if kept[0] != kept[1]:
            raise Broken(f"ids and names must stay: {message!r} became {changed!r}")


def _sent(messages: list[Message]) -> None:
    chat_body(CompletionRequest(model="m", messages=messages, max_tokens=1)).decode()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return "no JSON"


def _shape(value: Any) -> Any:
    """The value with one string in place of all that are no names of members."""
    match value:
        case dict():
            return [(name, _shape(one)) for name, one in value.items()]
        case list():
            return [_shape(one) for one in value]
        case str():
            return ""
    return repr(value)


def _exchange(data: bytes) -> Exchange:
    return Exchange(
        id="e1",
        request_id="r1",
        received_at=0.0,
        endpoint=ENDPOINTS[(data[0] if data else 0) % len(ENDPOINTS)],
        model="m",
        served_model="m",
        upstream="one",
        stream=False,
        status_code=200,
        content_type="application/json",
        stratum="other",
        inclusion_probability=1.0,
        request_body=data[1:],
        response_body=ANSWER,
    )
