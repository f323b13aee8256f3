"""Joined answers: what auditors read of each endpoint, and a meaning for whatever a stream does wrong."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from auditors.text.answers.collecting import MOST_PARTS
from auditors.text.answers.joined import NOTES, joined, trimmed
from tests.support.auditors.exchanges import events
from tests.support.processor_time import processor_seconds

CHAT, TEXT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
RESPONSE: dict[str, Any] = {
    "output": [
        {"type": "reasoning", "content": [{"type": "summary_text", "text": "Hm."}]},
        {
            "type": "message",
            "content": [{"type": "output_text", "text": "Hello"}, {"type": "refusal", "refusal": "No"}],
        },
        {"type": "function_call", "content": [], "name": "look", "arguments": '{"a": 1}'},
    ],
    "model": "m",
    "usage": {"output_tokens": 3},
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
}


def chunk(index: Any = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One chat chunk, with the envelope that each repeats."""
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**envelope, "system_fingerprint": "fp", "choices": [choice]}


def call(index: Any = 0, arguments: str = "", **function: Any) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments, **function}}


class TestChat:
    def test_everything_that_is_read(self) -> None:
        """Text, reasoning, refusal and arguments in one piece each, by choice; envelope and numbers once."""
        body = events(
            chunk(role="assistant", content=""),
            chunk(reasoning_content="Let me "),
            chunk(reasoning="think."),
            chunk(content="Hel"),
            chunk(1, refusal="I "),
            chunk(content="lo"),
            chunk(1, "stop", refusal="cannot"),
            chunk(tool_calls=[call(name="look", arguments='{"a"')]),
            chunk(tool_calls=[call(arguments=": 1}"), call(1, name="find")]),
            chunk(finish="tool_calls"),
            {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "details": {"x": 1}}},
            "[DONE]",
        )
        assert joined(CHAT, body) == {
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "content": "Hello",
                        "reasoning_content": "Let me think.",
                        "tool_calls": [
                            {"function": {"name": "look", "arguments": '{"a": 1}'}},
                            {"function": {"name": "find", "arguments": ""}},
                        ],
                    },
                    "finish_reason": "tool_calls",
                },
                {"index": 1, "message": {"content": None, "refusal": "I cannot"}, "finish_reason": "stop"},
            ],
            "model": "m",
            "system_fingerprint": "fp",
            "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        }

    def test_an_answer_that_came_at_once(self) -> None:
        """It has the same form, without log-probabilities, ids and empty members."""
        message = {
            "role": "assistant",
            "content": "Hello",
            "refusal": None,
            "annotations": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        }
        logprobs = {"content": [{"token": "Hello", "logprob": -0.1, "bytes": [72], "top_logprobs": []}]}
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "stop"}
        assert trimmed(CHAT, {"id": "x", "object": "o", "model": "m", "choices": [choice], "prompt_logprobs": []}) == {
            "choices": [
                {
                    "index": 0,
                    "message": {"content": "Hello", "tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]},
                    "finish_reason": "stop",
                }
            ],
            "model": "m",
        }

    @pytest.mark.parametrize(
        "response", [{}, {"choices": 3}, {"choices": [3]}, {"choices": [{}]}, {"choices": [{"message": None}]}]
    )
    def test_another_shape_is_no_answer(self, response: dict[str, Any]) -> None:
        """What has not the endpoint's shape is left to be refused by name."""
        assert trimmed(CHAT, response) is None

    def test_parts_of_content_in_pieces(self) -> None:
        """Pieces in parts (as Mistral sends its thinking) are joined; parts without text are named once."""
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
        body = events(
            chunk(content=[thinking]),
            chunk(content=[thinking]),
            chunk(content=[{"type": "text", "text": "Hel"}]),
            chunk(content="lo"),
            "[DONE]",
        )
        assert joined(CHAT, body)["choices"][0]["message"]["content"] == [{"type": "thinking"}, "Hello"]


class TestOddStreams:
    @pytest.mark.parametrize(
        "odd",
        [
            b": a comment\n\n",
            b"data:\n\n",
            b"data: \n\n",
            b"event: ping\n\n",
            b'event: ping\ndata: {"type": "ping"}\n\n',
            b"id: 7\nretry: 10\nunknown\n\n",
            b'data: {"object": "something.new", "delta": "x"}\n\n',
            b'data: {"choices": [], "prompt_filter_results": [{}]}\n\n',
            b'data: {"choices": [{"index": 0, "content_filter_offsets": {}}]}\n\n',
            b'data: {"choices": null}\n\n',
            b'data: {"choices": [5, {"delta": 7}, {"delta": {"content": 8}}]}\n\n',
        ],
    )
    def test_what_says_nothing(self, odd: bytes) -> None:
        """Comments, events without data or of a type that nobody knows, members of a type that nobody documents."""
        one, two = events(chunk(content="Hel")), events(chunk(content="lo", finish="stop"), "[DONE]")
        assert joined(CHAT, one + odd + two) == joined(CHAT, one + two)

    def test_line_endings_anywhere(self) -> None:
        """CR, LF and CRLF end lines; data may be in several lines."""
        plain = events(chunk(content="Hel"), chunk(content="lo"), "[DONE]")
        assert joined(CHAT, plain.replace(b"\n", b"\r\n")) == joined(CHAT, plain.replace(b"\n", b"\r"))
        assert joined(CHAT, plain.replace(b'"choices"', b'\ndata: "choices"')) == joined(CHAT, plain)

    def test_halves_of_a_character(self) -> None:
        """A server that cuts between the halves of a character, as in JavaScript, has sent it; a lone one is none."""
        body = b""
        for half in (rb"\ud83d", rb"\ude00 and ", rb"\ud83d"):
            body += b'data: {"choices": [{"index": 0, "delta": {"content": "%b"}}]}\n\n' % half
        assert joined(CHAT, body)["choices"][0]["message"]["content"] == "\U0001f600 and \ufffd"

    def test_bytes_that_are_no_text(self) -> None:
        """Broken UTF-8 is U+FFFD, and NaN where a number is expected hides no text."""
        body = b'data: {"choices": [{"index": 0, "delta": {"content": "a\xff"}, "logprobs": NaN}]}\n\ndata: [DONE]\n\n'
        assert joined(CHAT, body) == {
            "choices": [{"index": 0, "message": {"content": "a\ufffd"}, "finish_reason": None}]
        }

    @pytest.mark.parametrize(
        ("ends", "notes"),
        [
            (b"data: [DONE]\n\n", None),
            (b"", ["stream cut off"]),
            (b"data: [DONE]", ["stream cut off"]),
            (b'data: {"error": {"message": "boom"}}\n\ndata: [DONE]\n\n', ["error event"]),
            (b'event: error\ndata: {"message": "boom"}\n\n', ["error event", "stream cut off"]),
            (b"data: {brok\n\ndata: [DONE]\n\n", ["broken event"]),
            (b"data: 5\n\ndata: [DONE]\n\n", ["broken event"]),
        ],
    )
    def test_what_only_the_stream_tells(self, ends: bytes, notes: list[str] | None) -> None:
        """An error in the midst, a missing end and events that are no JSON go with the answer; its text stays."""
        answer = joined(CHAT, events(chunk(content="Hello")) + ends)
        assert answer["choices"][0]["message"]["content"] == "Hello"
        assert answer.get(NOTES) == notes


class TestOtherEndpoints:
    def test_completions(self) -> None:
        """Text by choice."""
        body = events(
            {"model": "m", "choices": [{"index": 1, "text": "b"}, {"index": 0, "text": "a"}]},
            {"choices": [{"index": 0, "text": "c", "finish_reason": "stop", "logprobs": {"tokens": ["c"]}}]},
            "[DONE]",
        )
        whole = [{"index": 1, "text": "b", "finish_reason": None}, {"index": 0, "text": "ac", "finish_reason": "stop"}]
        assert joined(TEXT, body) == {"choices": whole, "model": "m"}
        assert trimmed(TEXT, {"id": "i", "choices": whole, "model": "m"}) == {"choices": whole, "model": "m"}

    def test_responses(self) -> None:
        """Items by index, parts by index within them; the last event's repetition of it all is left out."""
        end = {
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "model": "m",
            "usage": {"output_tokens": 3},
            "instructions": "A long text that the request has too",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}],
        }
        body = events(
            {"type": "response.created", "response": {"model": "m", "tools": [{}] * 9}},
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
            {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "Hm."},
            {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "content": []}},
            {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Hel"},
            {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "lo"},
            {"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": "Hello"},
            {"type": "response.refusal.delta", "output_index": 1, "content_index": 1, "delta": "No"},
            {
                "type": "response.output_item.added",
                "output_index": 2,
                "item": {"type": "function_call", "name": "look"},
            },
            {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"a"'},
            {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": ": 1}"},
            {"type": "response.incomplete", "response": end},
        )
        answer = joined(RESPONSES, body)
        answer["output"][2].setdefault("content", [])
        assert answer == RESPONSE

    def test_responses_without_pieces(self) -> None:
        """A server that sends its answer in the last event only has sent it; one in JSON has the same form."""
        body = events({"type": "response.completed", "response": RESPONSE})
        assert joined(RESPONSES, body) == trimmed(RESPONSES, RESPONSE)
        assert '"text":"Hello"' in msgspec.json.encode(joined(RESPONSES, body)).decode()

    def test_messages(self) -> None:
        """Blocks in the order of their beginning; signatures and citations are left out."""
        start = {"model": "m", "usage": {"input_tokens": 2, "output_tokens": 0}, "content": []}
        thinking = {"type": "thinking", "thinking": ""}
        text_at_1 = {"type": "content_block_delta", "index": 1}
        body = events(
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": thinking},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln" * 99}},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
            {**text_at_1, "delta": {"type": "text_delta", "text": "Hel"}},
            {**text_at_1, "delta": {"type": "text_delta", "text": "lo"}},
            {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "name": "look"}},
            {
                "type": "content_block_delta",
                "index": 2,
                "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'},
            },
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        )
        answer = joined(MESSAGES, body)
        assert answer == {
            "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "text", "text": "Hello"},
                {"type": "tool_use", "name": "look", "input": '{"a":1}'},
            ],
            "model": "m",
            "usage": {"input_tokens": 2, "output_tokens": 5},
            "stop_reason": "tool_use",
        }
        at_once = {**answer, "id": "msg_1", "role": "assistant", "stop_sequence": None}
        at_once["content"] = [
            *answer["content"][:2],
            {"type": "tool_use", "id": "t", "name": "look", "input": {"a": 1}},
        ]
        assert trimmed(MESSAGES, at_once) == answer


def delta_events(count: int, choice: str) -> bytes:
    """That many chat chunks; `choice` has its number."""
    return b"".join(b'data: {"choices": [{%b}]}\n\n' % (choice % n).encode() for n in range(count))


LARGE = {
    "choices": '"index": %d, "delta": {"content": "a"}',
    "calls": '"index": 0, "delta": {"tool_calls": [{"index": %d, "function": {"arguments": "a"}}]}',
    "choices with huge numbers": '"index": 1000000000%d, "delta": {"content": "a"}',
    "finish reasons": '"index": 0, "delta": {}, "finish_reason": "%d"',
    "parts": '"index": 0, "delta": {"content": [{"type": "%d"}]}',
    "deltas": '"index": 0, "delta": {"content": "%d"}',
}


@pytest.mark.parametrize("name", LARGE)
def test_numbers_of_parts_cost_nothing(name: str) -> None:
    """Two thousand events with a number each: memory for the bytes and MOST_PARTS parts, no more of either."""
    body = delta_events(2_000, LARGE[name])
    tracemalloc.start()
    answer = joined(CHAT, body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(body) + 4000 * MOST_PARTS
    assert len(answer["choices"]) <= MOST_PARTS
    assert all(len(choice["message"].get("tool_calls", ())) <= MOST_PARTS for choice in answer["choices"])


@pytest.mark.parametrize(
    "name", ["choices with huge numbers", "deltas", "one delta", "empty events", "data lines", "other blocks"]
)
def test_time_is_in_proportion_to_the_bytes(name: str) -> None:
    """Eight times the bytes take no more than 24 times as long."""

    def seconds(count: int) -> float:
        match name:
            case "one delta":
                body = delta_events(1, '"delta": {"content": "%%d%s"}' % ("a" * 40 * count))
            case "empty events":
                body = b"data:{}\n\n" * count
            case "data lines":
                body = b"data:\n" * 4 * count + b"\n"
            case "other blocks":
                body = b'data: {"type": "content_block_start", "index": 7, "content_block": {}}\n\n' * count
            case _:
                body = delta_events(count, LARGE[name])
        return processor_seconds(lambda: joined(MESSAGES if name == "other blocks" else CHAT, body))

    assert seconds(4000) < 24 * seconds(500) + 0.02
