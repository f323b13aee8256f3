"""Target: an exchange folded for the store, and read into a conversation (gateway/sampling/folding.py,
auditors/text/readers/).

Whatever was copied off the wire is read or refused as not auditable, and every text that comes out can be stored.
Folded it says the same, in bodies that are strict JSON or as they were, and redacted it is read or refused just so.
"""

import msgspec

from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.identity import mentions_identity
from auditors.text.readers.exchange import read_conversation
from auditors.types import Exchange
from gateway.privacy.redaction import Redactor
from gateway.privacy.texts import Texts
from gateway.sampling.folding import TooMuchTextError, folded
from tools.fuzz.target import Broken

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
        b"\4" + b'{"messages": [{"role": "user", "content": "a \\ud800"}], "x": ' + b"[" * 300 + b"]" * 300 + b"}"
        + SEPARATOR + b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\r\r'
        + b'data: {"choices": [{"delta": {"content": "\\ude00", "tool_calls": [{"index": 1000000000, "function": '
        + b'{"arguments": "{}"}}]}, "finish_reason": "stop"}], "usage": {"total_tokens": 3}}\n\ndata: [DONE]\n\n',
        b"\6" + b'{"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,'
        + b'aa"}, {"type": "input_file", "file_data": "aa"}, {"type": "input_text", "text": "q"}]}]}' + SEPARATOR
        + b'data: {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "b"}\n\n'
        + b'data: {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{}"}\n\n',
        b"\7" + b'{"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": '
        + b'"aa"}}]}]}' + SEPARATOR + b'data: {"type": "content_block_delta", "index": 9, "delta": {"type": '
        + b'"input_json_delta", "partial_json": "{}"}}\n\ndata: {"type": "message_stop"}\n\n',
    )  # fmt: skip
    tokens = (
        b"data: ", b"event: error\n", b"\n\n", b"\r", b"[DONE]", b'"choices"', b'"delta"', b'"content"',
        b'"messages"', b'"type"', b'"text"', b'"tool_calls"', b'"refusal"', b'"output"', b'"index"', b"null",
        b"{}", b"[]", b"-1", b"1e9", b"NaN", b'"\\udc00"', b"1" * 30, b"1" * 400, b'"data"', b'"image_url"',
        b'"file"', b'"content_block"', b'"response.completed"', b'"output_index"', b'"function"', b'"arguments"',
        b"true", b'"\\ud800"', b"\xff", b"\xe2\x80\xa8", b"[" * 1500, b'{"a":' * 1500, SEPARATOR,
    )  # fmt: skip

    def __init__(self) -> None:
        self._texts = Texts(Redactor())

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
        said = self._read(exchange)
        stored = folded(exchange, None)
        for before, after in ((asked, stored.request_body), (answered, stored.response_body)):
            if after != before:
                msgspec.json.decode(after)
        read_again = self._read(stored)
        if said is not None and read_again != said:
            raise Broken(f"{said!r} is {read_again!r} once it is folded")
        text = self._texts.enter(stored)
        redacted = msgspec.structs.replace(stored, request_body=text.request_body, response_body=text.response_body)
        if read_again is not None and self._read(redacted) is None:
            raise Broken(f"{read_again!r} cannot be read once it is redacted")
        self._check_limit(exchange, stored)

    def _read(self, exchange: Exchange) -> Conversation | None:
        """None when it is refused as not auditable."""
        try:
            conversation = read_conversation(exchange)
        except NotAuditableError as exc:
            _encodable(str(exc))
            return None
        self._check(conversation)
        return conversation

    def _check_limit(self, exchange: Exchange, stored: Exchange) -> None:
        largest = max(len(stored.request_body), len(stored.response_body))
        try:
            folded(exchange, largest)
        except TooMuchTextError as exc:
            raise Broken(f"more text than {largest} bytes, in bodies of no more than that") from exc

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
