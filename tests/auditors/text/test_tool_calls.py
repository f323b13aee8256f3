"""Calls and results of tools in requests to three endpoints, read as messages of a chat; and what no chat can say."""

from typing import Any

import msgspec
import pytest

from auditors.clients.chat_format import chat_body
from auditors.text import tool_calls
from auditors.text.conversation import Conversation
from auditors.text.readers.exchange import read_conversation
from auditors.types import CompletionRequest, Message, ToolCall
from tests.support.auditors.exchanges import exchange

RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
ASKED = {"role": "user", "content": "Look it up."}
ARGUMENTS = '{"who": "my sister"}'
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": ARGUMENTS}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "Found."}
ITEM = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look_up", "arguments": ARGUMENTS}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "Found."}
USE = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"who": "my sister"}}
GIVEN = {"type": "tool_result", "tool_use_id": "c1", "content": "Found."}
READ = ToolCall("look_up", ARGUMENTS, "c1")
READ_RESULT = Message("tool", "Found.", call_id="c1")
QUESTION = Message("user", "Look it up.")


def of_chat(*messages: dict[str, Any]) -> Conversation:
    return read_conversation(exchange({"messages": [ASKED, *messages]}, {"choices": [{"message": {"content": "A"}}]}))


def of_responses(*items: dict[str, Any]) -> Conversation:
    return read_conversation(exchange({"input": [ASKED, *items]}, {"output": []}, endpoint=RESPONSES))


def of_messages(*messages: dict[str, Any]) -> Conversation:
    return read_conversation(exchange({"messages": [ASKED, *messages]}, {"content": []}, endpoint=MESSAGES))


def by_assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def by_user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def sent(conversation: Conversation) -> list[dict[str, Any]]:
    """The messages of a probe, as they go out."""
    request = CompletionRequest(model="m", messages=conversation.messages, max_tokens=1)
    messages: list[dict[str, Any]] = msgspec.json.decode(chat_body(request))["messages"]
    return messages


class TestChat:
    def test_a_history_goes_out_as_it_came(self) -> None:
        """Calls, ids, names, arguments to the letter, results and thoughts are those of the request."""
        called = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [CALL]}
        history: list[dict[str, Any]] = [
            called,
            RESULT | {"name": "look_up"},
            {"role": "assistant", "content": "Done."},
        ]
        found = of_chat(*history)

        assert (found.uncarried, found.request_notes, found.answer_notes) == ([], ["tool call"], [])
        assert sent(found) == [ASKED, *history]

    def test_several_calls(self) -> None:
        """Words beside calls, equal ids and parts of text are kept; results are joined line by line."""
        history: list[dict[str, Any]] = [
            {"role": "assistant", "content": "Wait.", "tool_calls": [CALL, CALL]},
            RESULT | {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            RESULT | {"content": None},
        ]

        assert sent(of_chat(*history)) == [
            ASKED, history[0], RESULT | {"content": "a\nb"}, RESULT | {"content": ""}
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("arguments", "written"),
        [({"a": [1, "é"]}, '{"a":[1,"é"]}'), (None, "{}"), ("", ""), ("no JSON {", "no JSON {"), ({"n": 10**40}, None)],
    )
    def test_arguments(self, arguments: Any, written: str | None) -> None:
        """An object is written as JSON, missing ones are an empty object, and any string stays as it is."""
        call = CALL | {"function": {"name": "f", "arguments": arguments}}
        (read,) = of_chat({"role": "assistant", "tool_calls": [call]}).messages[1].calls

        assert read.arguments == (f'{{"n":{10**40}}}' if written is None else written)

    @pytest.mark.parametrize(
        ("message", "why"),
        [
            ({"role": "assistant", "tool_calls": {"a": 1}}, tool_calls.OTHER_CALL),
            ({"role": "assistant", "tool_calls": ["look_up"]}, tool_calls.OTHER_CALL),
            ({"role": "assistant", "tool_calls": [CALL, {"id": "c2", "type": "function"}]}, tool_calls.OTHER_CALL),
            ({"role": "assistant", "tool_calls": [CALL | {"type": "custom"}]}, tool_calls.OTHER_CALL),
            ({"role": "assistant", "tool_calls": [CALL | {"function": {"name": 5}}]}, tool_calls.OTHER_CALL),
            ({"role": "assistant", "tool_calls": [CALL | {"function": {"arguments": "{}"}}]}, tool_calls.OTHER_CALL),
            (
                {"role": "assistant", "tool_calls": [CALL | {"function": {"name": "f", "arguments": [1]}}]},
                tool_calls.OTHER_CALL,
            ),
            ({"role": "assistant", "tool_calls": [CALL | {"id": None}]}, tool_calls.NO_ID),
            ({"role": "user", "tool_calls": [CALL], "content": "Hi"}, tool_calls.OTHER_ROLE),
            ({"role": "tool", "content": "Found."}, tool_calls.NO_ID),
            ({"role": "tool", "tool_call_id": 7, "content": "Found."}, tool_calls.NO_ID),
            (RESULT | {"content": {"text": "Found."}}, tool_calls.OTHER_RESULT),
            (RESULT | {"content": [{"type": "image_url", "image_url": {"url": "[media]"}}]}, tool_calls.OTHER_RESULT),
            (RESULT | {"content": [{"type": "text", "text": "a"}, {"type": "other"}]}, tool_calls.OTHER_RESULT),
            ({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}, tool_calls.LEGACY),
            ({"role": "function", "name": "f", "content": "Found."}, tool_calls.LEGACY),
        ],
    )
    def test_what_is_not_carried(self, message: dict[str, Any], why: str) -> None:
        """Malformed calls, missing ids, other kinds of tools and the legacy form are read on, with the reason."""
        found = of_chat(message)

        assert (found.uncarried, found.reply_text) == ([why], "A")


class TestResponses:
    def test_a_history(self) -> None:
        """Items of one turn are one message with its calls; results follow, parts of text line by line."""
        found = of_responses(
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}],
             "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Wait."}]},
            ITEM, ITEM | {"call_id": "c2"}, OUTPUT,
            OUTPUT | {"call_id": "c2", "output": [{"type": "input_text", "text": "a"}]},
            {"role": "user", "content": "And?"}, ITEM | {"call_id": "c3"},
        )  # fmt: skip

        assert found.uncarried == []
        assert found.messages == [
            QUESTION,
            Message("assistant", "Wait.", calls=(READ, msgspec.structs.replace(READ, id="c2")), thoughts="Hm."),
            READ_RESULT,
            Message("tool", "a", call_id="c2"),
            Message("user", "And?"),
            Message("assistant", "", calls=(msgspec.structs.replace(READ, id="c3"),)),
        ]

    def test_a_turn_ends_with_its_result(self) -> None:
        """Calls after a result, or after words that follow calls, are another message."""
        found = of_responses(ITEM, OUTPUT, ITEM, {"role": "assistant", "content": "Wait."}, ITEM)

        assert [len(message.calls) for message in found.messages] == [0, 1, 0, 1, 1]
        assert sent(found)[1]["content"] is None

    @pytest.mark.parametrize(
        ("item", "why"),
        [
            ({"type": "web_search_call", "id": "w", "status": "completed"}, tool_calls.SERVER_TOOL),
            ({"type": "mcp_call", "name": "f", "arguments": "{}"}, tool_calls.SERVER_TOOL),
            ({"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "x"}, tool_calls.SERVER_TOOL),
            ({"type": "computer_call_output", "call_id": "c1", "output": {}}, tool_calls.SERVER_TOOL),
            (ITEM | {"call_id": None}, tool_calls.NO_ID),
            (ITEM | {"name": ""}, tool_calls.OTHER_CALL),
            (OUTPUT | {"output": [{"type": "input_image", "image_url": "[media]"}]}, tool_calls.OTHER_RESULT),
            (OUTPUT | {"output": 5}, tool_calls.OTHER_RESULT),
        ],
    )
    def test_what_is_not_carried(self, item: dict[str, Any], why: str) -> None:
        """Tools of the server's own, results that are no text and items without id or name, with the reason."""
        assert of_responses(item).uncarried == [why]

    def test_thoughts_that_are_sealed(self) -> None:
        """Encrypted thoughts before a call cannot be repeated; where no call follows, they are left out as others."""
        sealed = {"type": "reasoning", "summary": [], "encrypted_content": "[media]"}

        assert of_responses(sealed, ITEM).uncarried == [tool_calls.UNREADABLE_THOUGHTS]
        assert of_responses(sealed, {"role": "assistant", "content": "A"}).uncarried == []


class TestMessages:
    def test_a_history(self) -> None:
        """Blocks of a call go to their message, results come before what their user says, errors as other results."""
        found = of_messages(
            by_assistant({"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Wait."}, USE),
            by_user(GIVEN, GIVEN | {"is_error": True, "content": [{"type": "text", "text": "Gone."}]}),
            by_assistant(USE | {"input": None}),
            by_user({"type": "text", "text": "And?"}, {"type": "tool_result", "tool_use_id": "c1"}),
        )  # fmt: skip

        assert found.uncarried == []
        assert found.messages == [
            QUESTION,
            Message("assistant", "Wait.", calls=(ToolCall("look_up", '{"who":"my sister"}', "c1"),), thoughts="Hm."),
            READ_RESULT,
            Message("tool", "Gone.", call_id="c1"),
            Message("assistant", "", calls=(ToolCall("look_up", "{}", "c1"),)),
            Message("tool", "", call_id="c1"),
            Message("user", "And?"),
        ]

    @pytest.mark.parametrize(
        ("message", "why"),
        [
            (by_assistant({"type": "server_tool_use", "id": "s", "name": "web_search"}), tool_calls.SERVER_TOOL),
            (by_assistant({"type": "mcp_tool_use", "id": "s", "name": "f", "input": {}}), tool_calls.SERVER_TOOL),
            (by_user({"type": "web_search_tool_result", "tool_use_id": "s"}), tool_calls.SERVER_TOOL),
            (by_assistant(USE | {"id": ""}), tool_calls.NO_ID),
            (by_assistant(USE | {"input": "x"}), tool_calls.OTHER_CALL),
            (by_assistant({"type": "redacted_thinking", "data": "[media]"}, USE), tool_calls.UNREADABLE_THOUGHTS),
            (by_assistant(GIVEN), tool_calls.OTHER_ROLE),
            (by_user(USE), tool_calls.OTHER_ROLE),
            (by_user(GIVEN | {"content": [{"type": "image", "source": {}}]}), tool_calls.OTHER_RESULT),
            (by_user(GIVEN | {"content": [{"type": "tool_reference", "tool_name": "f"}]}), tool_calls.OTHER_RESULT),
            (by_user(GIVEN | {"tool_use_id": None}), tool_calls.NO_ID),
        ],
    )
    def test_what_is_not_carried(self, message: dict[str, Any], why: str) -> None:
        """Tools of the server's own, images in results and blocks without an id, with the reason."""
        assert of_messages(message).uncarried == [why]


class TestWords:
    def test_a_prompt_has_them(self) -> None:
        """All that the model reads counts as the prompt, in text and in length, its arguments and ids too."""
        found = of_responses(ITEM, OUTPUT)

        assert found.prompt_text == f"Look it up.\nlook_up {ARGUMENTS}\nFound."
        assert [one.n_chars for one in found.messages] == [11, len("look_up") + len(ARGUMENTS) + 2, len("Found.") + 2]

    def test_notes_of_request_and_answer_are_apart(self) -> None:
        """A tool in the request is none in the answer: an answer without text is empty then, and called nothing."""
        found = of_chat({"role": "assistant", "content": None, "tool_calls": [CALL]}, RESULT)

        assert (found.notes, found.request_notes, found.answer_notes) == (["tool call"], ["tool call"], [])
