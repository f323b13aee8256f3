"""Reading exchanges: the official payload shapes of four endpoints, streams, and everything odd."""

from typing import Any

import pytest

from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.events import server_events
from auditors.text.readers.exchange import read_conversation
from auditors.types import Message
from tests.support.auditors.exchanges import chat_exchange, events, exchange

ASKED: dict[str, Any] = {"model": "alias", "messages": [{"role": "user", "content": "Hi"}]}


def delta(content: str | None = None, *, index: int = 0, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One chat chunk."""
    said = ({} if content is None else {"content": content}) | more
    return {"object": "chat.completion.chunk", "choices": [{"index": index, "delta": said, "finish_reason": finish}]}


CHAT_STREAM = events(
    delta("", role="assistant"),
    delta("Grüße "),
    delta("中文 😀"),
    delta(finish="stop"),
    {"choices": [], "usage": {"total_tokens": 7}},
    "[DONE]",
)


def streamed(
    body: bytes, endpoint: str = "/v1/chat/completions", request: dict[str, Any] | None = None
) -> Conversation:
    return read_conversation(exchange(request or ASKED, body, endpoint=endpoint, stream=True))


class TestServerEvents:
    def test_a_byte_order_mark_is_skipped(self) -> None:
        """The stream may begin with a byte order mark."""
        assert list(server_events(b"\xef\xbb\xbfdata: 1\n\n")) == [("message", "1")]


class TestChat:
    def test_a_plain_chat(self) -> None:
        """Messages, reply, finish reason and sampling parameters are read."""
        found = read_conversation(chat_exchange("Hi", "Hello", temperature=0, top_p=0.9, max_completion_tokens=5))

        assert found == Conversation(
            messages=[Message("user", "Hi")],
            request_texts=["Hi"],
            reply_text="Hello",
            finish_reason="stop",
            temperature=0.0,
            top_p=0.9,
            max_tokens=5,
            fields={"model": "alias", "temperature": 0, "top_p": 0.9, "max_completion_tokens": 5},
        )

    def test_content_parts(self) -> None:
        """Text parts are kept, images are noted, on both sides."""
        parts = [
            {"type": "text", "text": "What"},
            {"type": "image_url", "image_url": {}},
            {"type": "text", "text": "?"},
        ]
        answer = [{"type": "text", "text": "A cat"}, {"type": "refusal", "refusal": "no more"}]
        found = read_conversation(
            exchange(
                {"messages": [{"role": "user", "content": parts}]},
                {"choices": [{"message": {"content": answer}, "finish_reason": "stop"}]},
            )
        )

        assert (found.messages, found.reply_text) == ([Message("user", "What\n?")], "A cat")
        assert (found.refusal, found.notes) == ("no more", ["image"])

    def test_the_first_choice_is_read_and_the_others_noted(self) -> None:
        """Of n choices the one with index 0 is audited, in whatever order they come."""
        choices = [{"index": i, "message": {"content": f"c{i}"}, "finish_reason": "stop"} for i in (1, 0)]
        found = read_conversation(exchange(ASKED, {"choices": choices}))

        assert (found.reply_text, found.notes) == ("c0", ["further choices"])


class TestChatStream:
    def test_a_cut_at_every_byte(self) -> None:
        """A stream cut anywhere, inside a character too, gives the events whose data is whole, and says so."""
        for cut in range(len(CHAT_STREAM)):
            found = streamed(CHAT_STREAM[:cut])
            before = CHAT_STREAM[:cut].partition(b"data: [DONE]")[0]
            whole = before.count(b"\n\n") + before.endswith(b"}\n")
            whole += before.endswith(b"}") and CHAT_STREAM[cut : cut + 2] == b"\n\n"

            assert found.reply_text == "".join(["", "", "Grüße ", "中文 😀", "", ""][: whole + 1])
            assert found.notes == ["stream cut off"]

    def test_an_answer_that_came_at_once_though_a_stream_was_asked_for(self) -> None:
        """A server that ignores "stream" answers in JSON, which is read as such."""
        body = b'{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
        assert (streamed(body).reply_text, streamed(body).notes) == ("Hello", [])


class TestLenientBodies:
    """What only a lenient reader takes, an upstream behind the gateway may have read: so do the auditors."""

    @pytest.mark.parametrize(
        "request_body",
        [
            b'{"messages": [{"role": "user", "content": "Hi \\ud800"}]}',
            b'{"messages": [{"role": "user", "content": "Hi \\ufffd"}], "x": %b1%b}' % (b"[" * 5000, b"]" * 5000),
            b'{"messages": [{"role": "user", "content": "Hi \\ufffd"}], "x": %b1%b}' % (b'{"a":' * 5000, b"}" * 5000),
        ],
        ids=["lone surrogate", "deep lists", "deep objects"],
    )
    def test_requests(self, request_body: bytes) -> None:
        """They are read, with U+FFFD for what is no character."""
        found = read_conversation(exchange(request_body, {"choices": [{"message": {"content": "Hello"}}]}))

        assert (found.messages, found.reply_text) == ([Message("user", "Hi \ufffd")], "Hello")


class TestCompletions:
    def test_a_list_of_prompts(self) -> None:
        """The first prompt is audited, the others are noted."""
        found = read_conversation(
            exchange({"prompt": ["a", "b"]}, {"choices": [{"text": "x"}]}, endpoint="/v1/completions")
        )

        assert (found.messages, found.notes) == ([Message("user", "a")], ["further prompts"])

    @pytest.mark.parametrize("prompt", [[1, 2, 3], [[1], [2]], []])
    def test_token_numbers_are_no_text(self, prompt: list[Any]) -> None:
        """A prompt of token numbers cannot be audited."""
        with pytest.raises(NotAuditableError, match="token numbers"):
            read_conversation(exchange({"prompt": prompt}, {"choices": []}, endpoint="/v1/completions"))


class TestResponses:
    REQUEST: dict[str, Any] = {  # noqa: RUF012 - read only
        "instructions": "Be kind",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "max_output_tokens": 9,
    }

    def test_plain(self) -> None:
        """Instructions are the system prompt; output text is joined, reasoning noted."""
        output = [
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]},
        ]
        found = read_conversation(
            exchange(self.REQUEST, {"status": "completed", "error": None, "output": output}, endpoint="/v1/responses")
        )

        assert found.messages == [Message("system", "Be kind"), Message("user", "Hi")]
        assert (found.reply_text, found.notes) == ("Hello", ["reasoning"])
        assert (found.finish_reason, found.max_tokens) == ("completed", 9)

    def test_a_failed_stream(self) -> None:
        """A failure is noted, a cut by the token limit is the finish reason."""
        failed = events({"type": "response.failed", "response": {"status": "failed"}})
        short = events(
            {
                "type": "response.incomplete",
                "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            }
        )

        assert streamed(failed, "/v1/responses", self.REQUEST).notes == ["error event"]
        assert streamed(short, "/v1/responses", self.REQUEST).finish_reason == "max_output_tokens"


class TestMessages:
    REQUEST: dict[str, Any] = {  # noqa: RUF012 - read only
        "system": [{"type": "text", "text": "Be kind"}],
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 9,
    }

    def test_plain(self) -> None:
        """Text blocks are the reply; the system prompt comes first."""
        reply = {"type": "message", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"}
        found = read_conversation(exchange(self.REQUEST, reply, endpoint="/v1/messages"))

        assert found.messages == [Message("system", "Be kind"), Message("user", "Hi")]
        assert (found.reply_text, found.finish_reason, found.notes) == ("Hello", "end_turn", [])


class TestUnreadable:
    @pytest.mark.parametrize(
        ("request_body", "response_body", "message"),
        [
            (b"not json", b"{}", "the request is not JSON"),
            (b"[]", b"{}", "the request is not a JSON object"),
            (b'{"messages": ' + b"[" * 5000, b"{}", "the request is not JSON: it ends in the middle"),
            (b"", b"{}", "the request has no text"),
            (b'{"messages": [], "temperature": 1%b}' % (b"0" * 400), b'{"choices": []}', "unexpected shape"),
            (b'{"messages": "hi"}', b"{}", "unexpected shape"),
            (b'{"messages": [{"content": "x"}]}', b"{}", "unexpected shape"),
            (b'{"messages": []}', b"\xff\xfe", "the response is not JSON"),
            (b'{"messages": []}', b"{}", "unexpected shape"),
            (b'{"messages": []}', b'{"choices": [{"message": null}]}', "unexpected shape"),
            (b'{"messages": []}', b'{"choices": 3}', "unexpected shape"),
        ],
    )
    def test_it_is_said_why(self, request_body: bytes, response_body: bytes, message: str) -> None:
        """What cannot be read raises one error that says what is wrong."""
        with pytest.raises(NotAuditableError, match=message):
            read_conversation(exchange(request_body, response_body))

    def test_a_broken_event(self) -> None:
        """An event that is not JSON makes the stream unreadable."""
        with pytest.raises(NotAuditableError, match="an event of the stream is not a JSON object"):
            streamed(CHAT_STREAM + b"data: {broken\n\n")
