"""Folding: what is stored of an exchange is its text, read as before, in at most two bytes for one."""

import base64
import gzip
import random
import zlib
from typing import Any

import msgspec
import pytest

from auditors.text.conversation import NotAuditableError
from auditors.text.readers.exchange import read_conversation
from gateway.privacy.media import PLACEHOLDER
from gateway.privacy.redaction import Redactor
from gateway.privacy.texts import Texts
from gateway.sampling.folding import ENVELOPE_BYTES, MOST_INFLATED_BYTES, TooMuchTextError, folded
from tests.support.auditors.exchanges import events, exchange

TEXT = "She asked whether the women on the committee lead any better than the men did, and nobody knew. "
WORDS = TEXT.split(" ")
ASKED: dict[str, Any] = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Who leads better?"}]}
PICTURE = base64.b64encode(random.Random(1).randbytes(300_000)).decode()


def words(count: int) -> list[str]:
    return [f" {WORDS[n % len(WORDS)]}" for n in range(count)]


def chat_stream(pieces: list[str], **more: Any) -> bytes:
    """As vLLM sends it, some 240 bytes a token."""
    envelope = {"id": f"chatcmpl-{'0' * 32}", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
    chunks = [
        {"index": 0, "delta": {"content": one}, "logprobs": None, "finish_reason": None, **more} for one in pieces
    ]
    chunks.append({"index": 0, "delta": {"content": ""}, "logprobs": None, "finish_reason": "stop"})
    return events(*({**envelope, "choices": [chunk]} for chunk in chunks), "[DONE]")


@pytest.mark.parametrize("said", ["vllm-0.32.0-tp2-1a2b3c4d", None, 7, ""])
def test_the_fingerprint_of_whole_and_streamed_answers(said: Any) -> None:
    """What names the server is kept beside the bodies; what is no name is none."""
    name = said if isinstance(said, str) and said else None
    choice = {"index": 0, "message": {"role": "assistant", "content": '"system_fingerprint": "mine"'}}
    whole = exchange(ASKED, {"choices": [choice], "system_fingerprint": said})
    chunk = {"system_fingerprint": said, "choices": [{"index": 0, "delta": {"content": "Yes."}}]}
    streamed = exchange(ASKED, events(chunk, "[DONE]"), stream=True)
    assert [folded(one, None).system_fingerprint for one in (whole, streamed)] == [name, name]


class TestCompressed:
    WHOLE = msgspec.json.encode({"choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}}]})

    @pytest.mark.parametrize("form", ["gzip", "deflate", "members", "without its end"])
    @pytest.mark.parametrize("streams", [True, False])
    def test_it_is_stored_as_if_it_were_not(self, form: str, streams: bool) -> None:
        """A client or a proxy asked for it compressed; what is audited is what was said."""
        body = chat_stream(words(200)) if streams else self.WHOLE
        compressed = {
            "gzip": gzip.compress(body),
            "deflate": zlib.compress(body),
            "members": gzip.compress(body[:77]) + gzip.compress(body[77:]),
            "without its end": gzip.compress(body)[:-8],
        }[form]
        raw = exchange(ASKED, compressed, stream=streams)
        coding = "deflate" if form == "deflate" else "gzip"
        stored = folded(msgspec.structs.replace(raw, content_encoding=coding), 256 * 1024)

        assert stored == folded(exchange(ASKED, body, stream=streams), 256 * 1024)
        assert stored.content_encoding == ""

    def test_what_is_not_what_its_header_says(self) -> None:
        """There is no answer then, and auditors say so; a bomb is truncated and takes no memory."""
        raw = exchange(ASKED, b"no gzip")
        stored = folded(msgspec.structs.replace(raw, content_encoding="gzip"), None)
        with pytest.raises(NotAuditableError, match="the response has no text"):
            read_conversation(stored)
        bomb = exchange(ASKED, gzip.compress(b" " * (MOST_INFLATED_BYTES + 1)))
        with pytest.raises(TooMuchTextError):
            folded(msgspec.structs.replace(bomb, content_encoding="gzip"), None)


@pytest.mark.parametrize("end", [b"\n\n", b"\n", b"", b"\r\n"])
def test_the_last_event_of_a_stream(end: bytes) -> None:
    """Without its empty line it is part of the answer too, as clients show it; what is cut off within is not."""
    body = events({"choices": [{"index": 0, "delta": {"content": "Women"}}]})
    last = b'data: {"choices": [{"index": 0, "delta": {"content": " lead."}}]}'
    texts = [
        read_conversation(folded(exchange(ASKED, body + one, stream=True), None)).reply_text
        for one in (last + end, last[:-1])
    ]

    assert texts == ["Women lead.", "Women"]


def completion_stream(pieces: list[str]) -> bytes:
    chunks = [{"index": 0, "text": one, "logprobs": None, "finish_reason": None} for one in pieces]
    return events(*({"id": "cmpl-1", "object": "text_completion", "choices": [chunk]} for chunk in chunks), "[DONE]")


def response_stream(pieces: list[str]) -> bytes:
    whole = {"status": "completed", "output": [{"type": "message", "content": [{"text": "".join(pieces)}]}]}
    place = {"item_id": f"msg_{'0' * 32}", "output_index": 0, "content_index": 0, "logprobs": []}
    deltas = [
        {"type": "response.output_text.delta", "sequence_number": number, **place, "delta": one}
        for number, one in enumerate(pieces)
    ]
    return events(
        {"type": "response.created", "response": {}}, *deltas, {"type": "response.completed", "response": whole}
    )


def message_stream(pieces: list[str]) -> bytes:
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": one}} for one in pieces
    ]
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    return events({"type": "message_start", "message": {}}, block, *deltas, {"type": "message_stop"})


STREAMS = {
    "/v1/chat/completions": (chat_stream, ASKED),
    "/v1/completions": (completion_stream, {"prompt": "Who leads better?"}),
    "/v1/responses": (response_stream, {"input": "Who leads better?"}),
    "/v1/messages": (message_stream, {"messages": ASKED["messages"], "max_tokens": 5}),
}


@pytest.mark.parametrize("count", [300, 4000])
@pytest.mark.parametrize("endpoint", STREAMS)
def test_a_streamed_answer_is_stored_as_its_text(endpoint: str, count: int) -> None:
    """However long: the conversation is that of the events, in at most two bytes for a byte of its text."""
    stream, asked = STREAMS[endpoint]
    pieces = words(count)
    raw = exchange(asked, stream(pieces), endpoint=endpoint, stream=True)
    stored = folded(raw, 256 * 1024)
    conversation = read_conversation(stored)
    assert conversation == read_conversation(raw)
    assert conversation.reply_text == "".join(pieces)
    assert conversation.notes == []
    assert len(stored.response_body) <= 2 * len("".join(pieces))


@pytest.mark.parametrize("endpoint", STREAMS)
def test_the_limit_counts_text(endpoint: str) -> None:
    """A text as long as the limit is stored, one byte more is not, whatever the events around it weigh."""
    stream, asked = STREAMS[endpoint]
    pieces = [*words(500), "é"]
    raw = exchange(asked, stream(pieces), endpoint=endpoint, stream=True)
    size = len("".join(pieces).encode())
    assert len(raw.response_body) > 10 * size
    folded(raw, size)
    with pytest.raises(TooMuchTextError):
        folded(raw, size - 1)


def test_what_is_no_text_is_bounded_too() -> None:
    """Numbers and members without text cannot fill the store."""
    numbers = {f"n{n}": n for n in range(1000)}
    with pytest.raises(TooMuchTextError):
        folded(exchange({**ASKED, "logit_bias": numbers}, {"choices": []}), 2000)
    assert len(msgspec.json.encode(numbers)) > 2 * 2000 + ENVELOPE_BYTES
    folded(exchange({**ASKED, "logit_bias": numbers}, {"choices": []}), 10_000)


def image(**more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}", "detail": "high", **more}}


MEDIA = {
    "chat": ("/v1/chat/completions", image()),
    "chat, the address alone": ("/v1/chat/completions", {"type": "image_url", "image_url": f" DATA:x/y,{PICTURE}"}),
    "chat, no type": ("/v1/chat/completions", {"image_url": f"data:image/png;base64,{PICTURE}", "type": "image_url"}),
    "chat, bare base64": ("/v1/chat/completions", {"type": "image_url", "image_url": {"url": PICTURE}}),
    "audio": ("/v1/chat/completions", {"type": "input_audio", "input_audio": {"data": PICTURE, "format": "wav"}}),
    "video": ("/v1/chat/completions", {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{PICTURE}"}}),
    "file": ("/v1/chat/completions", {"type": "file", "file": {"filename": "a.pdf", "file_data": PICTURE}}),
    "responses image": ("/v1/responses", {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}),
    "responses file": ("/v1/responses", {"type": "input_file", "filename": "a.pdf", "file_data": PICTURE}),
    "messages image": (
        "/v1/messages",
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
    ),
    "messages document": (
        "/v1/messages",
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PICTURE}},
    ),
}


@pytest.mark.parametrize("name", MEDIA)
def test_media_beside_a_question(name: str) -> None:
    """The bytes go and count nothing, the question stays, and that there was something else is noted as ever."""
    endpoint, part = MEDIA[name]
    text = {"type": "input_text" if endpoint == "/v1/responses" else "text", "text": "Who leads better here?"}
    turns = [{"role": "user", "content": [text, part]}]
    asked = {"input": turns} if endpoint == "/v1/responses" else {"messages": turns, "max_tokens": 5}
    answers: dict[str, Any] = {
        "/v1/chat/completions": {"choices": [{"message": {"content": "Both."}}]},
        "/v1/responses": {"output": [{"type": "message", "content": "Both."}]},
        "/v1/messages": {"content": [{"type": "text", "text": "Both."}]},
    }
    raw = exchange(asked, answers[endpoint], endpoint=endpoint)
    stored = folded(raw, 100)
    assert read_conversation(stored) == read_conversation(raw)
    assert read_conversation(stored).prompt_text == "Who leads better here?"
    assert read_conversation(stored).notes
    assert PLACEHOLDER.encode() in stored.request_body
    assert len(stored.request_body) < 500


@pytest.mark.parametrize(
    "text",
    [
        "data:text/plain;base64,V29tZW5DYW5ub3REcml2ZQ==",
        "data:x/y;base64, women cannot drive",
        "WomenCannotDrive" * 100,
        PLACEHOLDER,
    ],
)
def test_text_that_looks_like_media_is_text(text: str) -> None:
    """Only fields that hold media are media: no prefix and no shape hides a question."""
    raw = exchange({"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}, {"choices": []})
    stored = Texts(Redactor()).enter(folded(raw, 10_000))
    assert read_conversation(exchange(stored.request_body, {"choices": []})).prompt_text == text


@pytest.mark.parametrize(
    "ignored",
    [
        b'"\\ud800"',
        b"[" * 400 + b"]" * 400,
        b"[" * 900 + b"]" * 900,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b"[" * 20_000 + b"]" * 20_000,
        b"1" * 30,
        b"1" * 5000,
        b"1e999",
        b"NaN",
        b'"\xff"',
        b'{"\\udfff": {"\\ud800": "\xed\xa0\x80"}}',
    ],
    ids=str,
)
def test_no_ignored_member_hides_the_question(ignored: bytes) -> None:
    """Whatever a lenient upstream passes over beside the messages, they are stored and audited, redacted as ever."""
    for lone, shown in ((b"", ""), (rb" \ud83d", " \ufffd")):
        content = b"I am ann@example.org%b. Who leads?" % lone
        body = b'{"x": %b, "messages": [{"role": "user", "content": "%b"}]}' % (ignored, content)
        stored = folded(exchange(body, {"choices": [{"message": {"content": "Anyone."}}], "x": None}), 256 * 1024)
        text = Texts(Redactor()).enter(stored)
        said = read_conversation(exchange(text.request_body, text.response_body))
        assert (said.prompt_text, said.reply_text) == (f"I am [email]{shown}. Who leads?", "Anyone.")


def test_a_value_in_pieces_is_redacted() -> None:
    """An address that comes in two events is one: text is joined before it is redacted."""
    raw = exchange(ASKED, chat_stream(["to a", "nn@exam", "ple.org"]), stream=True)
    text = Texts(Redactor()).enter(folded(raw, None))
    stored = msgspec.structs.replace(raw, response_body=text.response_body)
    assert read_conversation(stored).reply_text == "to [email]"
    assert text.redactions == {"email": 1}
