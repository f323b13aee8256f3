"""Target: an exchange read into a conversation, with its events joined (auditors/text/conversation.py).

Whatever was copied off the wire is read or refused as not auditable, and every text that comes out can be stored.
"""

from auditors.text.conversation import Conversation, NotAuditableError, read_conversation
from auditors.text.identity import mentions_identity
from auditors.types import Exchange
from tests.fuzz.target import Broken

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
SEPARATOR = b"\0\0"
"""Between request and response."""


class Events:
    """The first byte chooses endpoint and framing; then request, separator, response."""

    seeds = (
        b"\0" + b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}' + SEPARATOR
        + b'{"choices": [{"index": 0, "message": {"content": "b", "refusal": null}, "finish_reason": "stop"}]}',
        b"\4" + b'{"messages": [{"role": "user", "content": "a"}], "stream": true}' + SEPARATOR
        + b'data: {"choices": [{"index": 0, "delta": {"content": "b"}}]}\n\n: c\n\ndata: [DONE]\n\n',
        b"\5" + b'{"prompt": ["a", [1, 2]]}' + SEPARATOR + b'data: {"choices": [{"index": 1, "text": "b"}]}\r\n\r\n',
        b"\2" + b'{"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]}' + SEPARATOR
        + b'{"output": [{"type": "message", "content": [{"type": "output_text", "text": "b"}]}]}',
        b"\6" + b'{"input": "a", "instructions": "i"}' + SEPARATOR
        + b'event: response.completed\ndata: {"type": "response.completed", "response": {"output": []}}\n\n',
        b"\3" + b'{"system": [{"type": "text", "text": "s"}], "messages": []}' + SEPARATOR
        + b'{"content": [{"type": "text", "text": "b"}], "stop_reason": "end_turn"}',
        b"\7" + b'{"messages": [{"role": "user", "content": "a"}]}' + SEPARATOR
        + b"event: content_block_delta\n"
        + b'data: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "b"}}\n\n',
        b'\5{"prompt":' + b"[" * 3000,
    )  # fmt: skip
    tokens = (
        b"data: ", b"event: error\n", b"\n\n", b"\r", b"[DONE]", b'"choices"', b'"delta"', b'"content"',
        b'"messages"', b'"type"', b'"text"', b'"tool_calls"', b'"refusal"', b'"output"', b'"index"', b"null",
        b"{}", b"[]", b"-1", b"1e9", b"NaN", b"true", b'"\\ud800"', b"\xff", b"\xe2\x80\xa8", b"[" * 1500,
        b'{"a":' * 1500, SEPARATOR,
    )  # fmt: skip

    def check(self, data: bytes) -> None:
        choice = data[0] if data else 0
        asked, _, answered = data[1:].partition(SEPARATOR)
        mentions_identity(asked)
        exchange = Exchange(
            id="i",
            request_id="r",
            received_at=0.0,
            endpoint=ENDPOINTS[choice % 4],
            model="m",
            served_model="m",
            upstream="u",
            stream=bool(choice & 4),
            status_code=200,
            content_type="text/event-stream" if choice & 8 else "application/json",
            stratum="other",
            inclusion_probability=1.0,
            request_body=asked,
            response_body=answered,
        )
        try:
            conversation = read_conversation(exchange)
        except NotAuditableError as exc:
            _encodable(str(exc))
            return
        self._check(conversation)

    def _check(self, conversation: Conversation) -> None:
        texts = [conversation.prompt_text, conversation.reply_text, *conversation.notes]
        texts += [text for text in (conversation.refusal, conversation.finish_reason) if text is not None]
        for text in texts:
            _encodable(text)

    def close(self) -> None:
        """Nothing runs."""


def _encodable(text: object) -> None:
    if not isinstance(text, str):
        raise Broken(f"no text but {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise Broken(f"a text that cannot be stored: {text!r}") from exc
