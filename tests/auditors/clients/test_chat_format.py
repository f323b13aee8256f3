"""Bodies of chat completions, and what is read of their replies."""

import tracemalloc

import msgspec
import pytest

from auditors.clients.chat_format import chat_body, parse_chat
from auditors.types import Completion, CompletionError, CompletionRequest, Message, ToolCall

REQUEST = CompletionRequest(model="m", messages=[Message("user", "Hi")], max_tokens=5)


class TestChatBody:
    def test_every_field(self) -> None:
        """Schema, priority and extras have their places; extras win."""
        schema = {"title": "verdict", "type": "object"}
        request = msgspec.structs.replace(
            REQUEST,
            temperature=None,
            top_p=0.5,
            seed=3,
            response_schema=schema,
            extra={"priority": 99, "logprobs": True},
        )

        assert msgspec.json.decode(chat_body(request, 10)) == {
            "model": "m",
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 5,
            "top_p": 0.5,
            "seed": 3,
            "priority": 99,
            "logprobs": True,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "schema": schema, "strict": True},
            },
        }

    def test_calls_and_results_of_tools(self) -> None:
        """They have the members of chat completions, and no more; other messages are as they were."""
        messages = [
            Message("user", "Hi"),
            Message(
                "assistant", "", calls=(ToolCall("f", "{}", "c1"),),
                thoughts="Hm.", thoughts_field="reasoning_content",
            ),
            Message("tool", "1", call_id="c1"),
            Message("tool", "", call_id="c1", tool="f"),
            Message("assistant", "Wait.", calls=(ToolCall("g", "[]", "c2"),)),
        ]  # fmt: skip
        body = msgspec.json.decode(chat_body(msgspec.structs.replace(REQUEST, messages=messages)))

        assert body["messages"] == [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "reasoning_content": "Hm.",
             "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c1", "content": "", "name": "f"},
            {"role": "assistant", "content": "Wait.",
             "tool_calls": [{"id": "c2", "type": "function", "function": {"name": "g", "arguments": "[]"}}]},
        ]  # fmt: skip


class TestParseChat:
    def test_an_official_reply(self) -> None:
        """Text, finish reason, usage, fingerprint, logprobs and refusal are read; unknown fields are ignored."""
        body = msgspec.json.encode(
            {
                "id": "c",
                "usage": {"total_tokens": 3},
                "system_fingerprint": "f",
                "choices": [
                    {"index": 1, "message": {"content": "second"}},
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "first", "refusal": None},
                        "finish_reason": "stop",
                        "logprobs": {"content": []},
                    },
                ],
            }
        )

        assert parse_chat(body) == Completion(
            text="first",
            finish_reason="stop",
            usage={"total_tokens": 3},
            fingerprint="f",
            logprobs={"content": []},
            refusal=None,
            further=(Completion(text="second", fingerprint="f"),),
        )

    @pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b"\xff\xfe"])
    def test_no_chat_completion(self, body: bytes) -> None:
        """What is no chat completion is malformed."""
        with pytest.raises(CompletionError) as caught:
            parse_chat(body)

        assert caught.value.kind == "malformed"

    @pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
    def test_thoughts_that_are_no_text_are_not_read(self, field: str) -> None:
        """A server's objects under the names of thoughts take no memory; `null` and text are read as they are."""
        objects = b"[" + b"{}," * 300_000 + b"{}]"
        tracemalloc.start()
        try:
            found = parse_chat(b'{"choices": [{"message": {"content": "yes", "%s": %s}}]}' % (field.encode(), objects))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert (found.text, found.reasoning) == ("yes", None)
        assert peak < 4 * len(objects)
        for given, thoughts in ((b' "Hm"', "Hm"), (b"null", None), (b'""', None)):
            said = b'{"choices": [{"message": {"content": "yes", "%s":%s}}]}' % (field.encode(), given)
            assert parse_chat(said).reasoning == thoughts
