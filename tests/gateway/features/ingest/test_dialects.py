"""Spans in other conventions than OpenTelemetry's: what is made of OpenInference's and the AI SDK's."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gateway.features.ingest import otlp
from gateway.features.ingest.received import Sent, completed
from tests.support.gateway.otlp import span

OPENINFERENCE = {"openinference.span.kind": "LLM", "llm.model_name": "qwen"}
MESSAGES = {
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "Who leads?",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "She does.",
}
AI_SDK = {"ai.operationId": "ai.generateText.doGenerate", "gen_ai.request.model": "qwen"}


def read(*attributes: Mapping[str, Any]) -> Sent:
    together: dict[str, Any] = {"resourceSpans": []}
    for number, one in enumerate(attributes):
        together["resourceSpans"] += span(dict(one), span_id=f"b7ad6b716920333{number:x}")["resourceSpans"]
    return otlp.read(json.dumps(together).encode(), "traces", is_json=True, sender="app")


def bodies(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The request and the choices of the only exchange, which is whole."""
    [part] = read(attributes).parts
    assert part.is_whole, part
    one = completed(part)
    return msgspec.json.decode(one.request), msgspec.json.decode(one.response)["choices"]


def texts(attributes: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """What was asked and answered."""
    request, choices = bodies(attributes)
    return [one["content"] for one in request["messages"]], [one["message"]["content"] for one in choices]


class TestOpenInference:
    """Conversations with tools come from the real instrumentation in tests/integration/test_instrumentations.py."""

    def test_numbers_are_an_order_and_parts_are_kept_apart(self) -> None:
        """The tenth message is behind the second; an image is not a text, and a thought is not the answer."""
        part = "message.contents.{}.message_content.{}".format
        request, choices = bodies(
            OPENINFERENCE
            | {
                "llm.invocation_parameters": '{"temperature": 0.2, "stream": true}',
                "user.id": "u7",
                "llm.input_messages.10.message.role": "user",
                "llm.input_messages.10.message.content": "And this?",
                "llm.input_messages.2.message.role": "user",
                f"llm.input_messages.2.{part(0, 'type')}": "text",
                f"llm.input_messages.2.{part(0, 'text')}": "What is this?",
                f"llm.input_messages.2.{part(1, 'type')}": "image",
                f"llm.input_messages.2.{part(1, 'image.image.url')}": "data:image/png;base64,AA",
                "llm.output_messages.0.message.role": "assistant",
                f"llm.output_messages.0.{part(0, 'type')}": "reasoning",
                f"llm.output_messages.0.{part(0, 'text')}": "Hm.",
                f"llm.output_messages.0.{part(1, 'type')}": "text",
                f"llm.output_messages.0.{part(1, 'text')}": "A cat.",
            }
        )

        messages = [
            {"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image"}]},
            {"role": "user", "content": "And this?"},
        ]
        assert request == {"model": "qwen", "temperature": 0.2, "user": "u7", "messages": messages}
        message = {"role": "assistant", "content": "A cat.", "reasoning_content": "Hm."}
        assert [choice["message"] for choice in choices] == [message]

    def test_bodies_where_there_are_no_messages(self) -> None:
        """The body of a chat completion, or a text, stands for messages; a text in JSON stays what it is."""
        request = {"messages": [{"role": "user", "content": "Who leads?"}], "model": "qwen"}
        answer = {"choices": [{"message": {"role": "assistant", "content": "She does."}, "finish_reason": "stop"}]}
        chat = {"input.value": json.dumps(request), "output.value": json.dumps(answer)}
        as_json = {"input.mime_type": "application/json", "output.mime_type": "application/json"}
        assert texts(OPENINFERENCE | chat | as_json) == (["Who leads?"], ["She does."])
        assert bodies(OPENINFERENCE | chat | as_json)[1][0]["finish_reason"] == "stop"

        plain = {"input.value": "Who leads?", "output.value": '{"who": "she"}'}
        assert texts(OPENINFERENCE | plain) == (["Who leads?"], ['{"who": "she"}'])

        completion = {"llm.prompts.0.prompt.text": "Who leads?", "llm.choices.0.completion.text": "She does."}
        assert texts(OPENINFERENCE | completion) == (["Who leads?"], ["She does."])

    def test_hidden_text_is_no_text(self) -> None:
        """What a configuration hides is never audited as if it had been said, and not looked for elsewhere."""
        hidden = MESSAGES | {
            "llm.input_messages.0.message.content": "__REDACTED__",
            "llm.output_messages.0.message.content": "__REDACTED__",
            "input.value": "Who leads?",
            "output.value": "__REDACTED__",
        }
        [part] = read(OPENINFERENCE | hidden).parts
        assert not part.has_text
        whole = {"input.value": "__REDACTED__", "output.value": "__REDACTED__"}
        [part] = read(OPENINFERENCE | whole).parts
        assert not part.has_text

    def test_a_span_with_both_conventions(self) -> None:
        """OpenTelemetry's own attributes stand; what they lack comes from the others."""
        both = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "llama"}
        assert texts(OPENINFERENCE | MESSAGES | both) == (["Who leads?"], ["She does."])
        assert bodies(OPENINFERENCE | MESSAGES | both)[0]["model"] == "llama"


class TestAISDK:
    def test_a_call_with_tools(self) -> None:
        """Messages with parts, of both ways in which versions of it name a call's arguments and its result."""
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Rome?"}, {"type": "image", "image": "AA"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool-call", "toolCallId": "c1", "toolName": "weather", "input": {"city": "Rome"}},
                    {"type": "tool-call", "toolCallId": "c2", "toolName": "news", "args": {"of": "Rome"}},
                ],
            },
            {
                "role": "tool",
                "content": [
                    {"type": "tool-result", "toolCallId": "c1", "output": {"type": "json", "value": {"t": 27}}},
                    {"type": "tool-result", "toolCallId": "c2", "result": "None."},
                ],
            },
        ]
        request, choices = bodies(
            AI_SDK
            | {
                "ai.prompt.messages": json.dumps(messages),
                "ai.response.text": "27 C",
                "ai.response.reasoning": "Hm.",
                "ai.response.finishReason": "stop",
                "ai.response.toolCalls": '[{"toolCallId": "c3", "toolName": "map", "input": "{}"}]',
                "gen_ai.request.temperature": 0.5,
            }
        )

        system, user, assistant, first, second = request["messages"]
        assert system == {"role": "system", "content": "Be brief."}
        assert user == {"role": "user", "content": [{"type": "text", "text": "Rome?"}, {"type": "image"}]}
        called = [one["function"] for one in assistant["tool_calls"]]
        assert called == [
            {"name": "weather", "arguments": '{"city":"Rome"}'},
            {"name": "news", "arguments": '{"of":"Rome"}'},
        ]
        assert first == {"role": "tool", "tool_call_id": "c1", "content": '{"t":27}'}
        assert second == {"role": "tool", "tool_call_id": "c2", "content": "None."}
        assert request["temperature"] == 0.5
        [choice] = choices
        assert choice["finish_reason"] == "stop"
        assert choice["message"]["content"] == "27 C"
        assert choice["message"]["reasoning_content"] == "Hm."
        assert choice["message"]["tool_calls"][0]["function"] == {"name": "map", "arguments": "{}"}


@pytest.mark.parametrize(
    "attributes",
    [
        *({**OPENINFERENCE, **MESSAGES, "openinference.span.kind": kind} for kind in ("CHAIN", 7)),
        *(
            {**AI_SDK, "ai.operationId": operation, "ai.response.text": "She does."}
            for operation in ("ai.generateText", "ai.toolCall", "ai.embed.doEmbed")
        ),
    ],
    ids=["chain", "7", "generateText", "toolCall", "embed"],
)
def test_spans_around_a_call_are_ignored(attributes: dict[str, Any]) -> None:
    """Chains, agents and the spans around a call tell what the calls of models tell again."""
    sent = read(attributes)
    assert (sent.parts, sent.n_ignored) == ([], 1)


class TestOlderForms:
    @pytest.mark.parametrize("answer", ['[{"name": "Ann"}]', '{"name": "Ann"}', '[{"type": "fruit"}]', "[{", "[1, 2]"])
    def test_an_answer_in_json_is_text(self, answer: str) -> None:
        """A model that was asked for JSON answers in JSON, and that is what it said."""
        numbered = {"gen_ai.request.model": "qwen", "gen_ai.prompt.0.content": "Who?"}
        assert texts(numbered | {"gen_ai.completion.0.content": answer})[1] == [answer]
        alone = {"gen_ai.request.model": "qwen", "gen_ai.prompt": "Who?"}
        assert texts(alone | {"gen_ai.completion": answer})[1] == [answer]

    def test_parts_written_as_text(self) -> None:
        """OpenLLMetry's: a list of parts in JSON is what it stands for."""
        parts = [{"type": "text", "text": "Who?"}, {"type": "image_url", "image_url": {"url": "x"}}]
        numbered = {"gen_ai.request.model": "qwen", "gen_ai.prompt.0.content": json.dumps(parts)}
        assert texts(numbered | {"gen_ai.completion.0.content": "She."})[0] == [parts]


class TestParts:
    def test_calls_beside_the_parts(self) -> None:
        """LiteLLM's: an assistant's calls, and the call that a tool answers, are members of the message."""
        call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
        asked = [
            {"role": "assistant", "parts": [], "tool_calls": [call]},
            {"role": "tool", "parts": [{"type": "text", "content": "27 C"}], "tool_call_id": "c1"},
        ]
        assert bodies(chat_of(asked))[0]["messages"] == [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "27 C"},
        ]

    def test_a_message_whose_parts_are_not_told_was_not_empty(self) -> None:
        """An instrumentation that leaves the parts out has not told what was asked; the answer may have been empty."""
        [part] = read(chat_of([{"role": "user", "parts": []}])).parts
        assert (part.asked, len(part.answered)) == ([], 1)
        asked = chat_of([{"role": "user", "parts": [{"type": "text", "content": "Who leads?"}]}])
        none = json.dumps([{"role": "assistant", "parts": [], "finish_reason": "length"}])
        [choice] = bodies(asked | {"gen_ai.output.messages": none})[1]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("", "length")


def chat_of(asked: list[Any]) -> dict[str, Any]:
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "She does."}]}]
    told = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(said)}
    return {"gen_ai.operation.name": "chat", "gen_ai.request.model": "qwen", **told}


class TestStrangeSpans:
    def test_one_is_refused_and_the_others_are_taken(self) -> None:
        """A span with values of types that no convention has costs its sender no other span."""
        good = OPENINFERENCE | MESSAGES
        sent = read(good, {"gen_ai.operation.name": ["chat"]}, good)
        assert [part.is_whole for part in sent.parts] == [True, True]
        assert sent.rejected.count == 1
        assert sent.rejected.first == ["span b7ad6b7169203331: TypeError while it was read"]
