"""What a streamed answer's copy costs, where, and how much of it is stored: `python -m tools.bench.folding`. A minute.

By processor time of this thread, so other work on the machine matters little. "Kept as it comes" is what a worker does
with each event, its share of the hand-over to the writer included. The two others are what it could do instead.
"""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import msgspec

from auditors.text.readers.exchange import read_conversation
from auditors.types import Exchange
from gateway.privacy.redaction import Redactor
from gateway.privacy.texts import Texts
from gateway.proxy.admission import ANONYMOUS
from gateway.proxy.body import RequestBody
from gateway.proxy.headers import RequestHead
from gateway.proxy.sampled_copy import SampledCopy
from gateway.proxy.types import Sampled
from gateway.sampling.folding import folded
from gateway.sampling.writer.remote import Batch, framed
from gateway.store.deliveries import Delivery
from tests.support.integration.relaying import RememberingTap
from tests.support.store.made import exchange

ROUNDS = 5
TEXT = "The committee asked whether she leads any better than he did and nobody could say why it mattered"
WORDS = TEXT.split()
REQUEST = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Who leads better?"}]}'


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta
    index: int = 0


class _Chunk(msgspec.Struct):
    choices: list[_Choice]


_typed = msgspec.json.Decoder(_Chunk)


def events(count: int) -> list[bytes]:
    """As vLLM frames them, one to a piece."""
    envelope = {"id": f"chatcmpl-{'0' * 32}", "object": "chat.completion.chunk", "created": 1700000000, "model": "qwen"}
    found = []
    for number in range(count):
        choice = {"index": 0, "delta": {"content": f" {WORDS[number % len(WORDS)]}"}, "logprobs": None}
        found.append(
            b"data: " + msgspec.json.encode({**envelope, "choices": [{**choice, "finish_reason": None}]}) + b"\n\n"
        )
    return [*found, b"data: [DONE]\n\n"]


def kept(pieces: list[bytes]) -> Exchange:
    """The worker's part: each event appended, the copy made, and framed for the writer."""
    tap = RememberingTap(max_copy_bytes=1 << 30)
    sampled = Sampled("other", 1.0)
    request: Any = SimpleNamespace(
        path=b"/v1/chat/completions",
        head=RequestHead([]),
        key=ANONYMOUS,
        body=RequestBody(REQUEST),
        started_at=0.0,
        traceparent_line=b"",
    )
    copy = SampledCopy(tap, sampled, request, request.path, REQUEST, label_of=str)
    for piece in pieces:
        copy.append(piece)
    copy.finish("complete", "u")
    framed(Batch(Delivery("s", 1, 0.0), tap.offered, []))
    return tap.offered[0]


def decoded_as_it_comes(pieces: list[bytes]) -> str:
    """Not done: the worker takes each event's text out by a typed decoder, the cheapest that reads one shape only."""
    texts = []
    for piece in pieces[:-1]:
        texts.append(_typed.decode(piece[6:-2]).choices[0].delta.content or "")
    return "".join(texts)


def cut_as_it_comes(pieces: list[bytes]) -> bytes:
    """Not done: the worker cuts off what an event has in common with those before it, and keeps the rest."""
    first = pieces[0]
    start = first.index(b'"content":"') + len(b'"content":"')
    end = first.index(b'"', start)
    prefix, suffix, rest = first[:start], first[end:], bytearray()
    for piece in pieces:
        if piece.startswith(prefix) and piece.endswith(suffix):
            rest += piece[start : len(piece) - len(suffix)]
            rest += b"\0"
        else:
            rest += piece
    return bytes(rest)


def measured(action: Callable[[], object]) -> float:
    """Processor seconds of the best of ROUNDS."""

    def rounds() -> Iterator[float]:
        for _ in range(ROUNDS):
            begun = time.thread_time()
            action()
            yield time.thread_time() - begun

    return min(rounds())


def one_event(count: int) -> None:
    pieces = events(count)
    raw = exchange(stream=True, request_body=REQUEST, response_body=b"".join(pieces))
    texts = Texts(Redactor())
    for what, action in (
        ("worker: kept as it comes, handed over (done)", lambda: kept(pieces)),
        ("worker: decoded as it comes", lambda: decoded_as_it_comes(pieces)),
        ("worker: cut as it comes", lambda: cut_as_it_comes(pieces)),
        ("writer: folded", lambda: folded(raw, None)),
        ("writer: folded and redacted", lambda: texts.enter(folded(raw, None))),
        ("auditor: read raw", lambda: read_conversation(raw)),
    ):
        print(f"  {count:6} events  {what:46} {measured(action) / len(pieces) * 1e9:8.0f}")
    stored, text = folded(raw, None).response_body, len(read_conversation(raw).reply_text)
    print(f"  {count:6} events  raw {len(raw.response_body) / text:6.1f} bytes for one of text")
    print(f"  {count:6} events  stored {len(stored) / text:6.2f}")


def largest(what: str, body: bytes) -> None:
    raw = exchange(stream=True, response_body=body)
    print(f"  {what:24} {measured(lambda: folded(raw, None)):6.2f}")


def main() -> None:
    """Prints all of it."""
    print("one event, nanoseconds of processor time")
    for count in (300, 3000, 30_000):
        one_event(count)
    print("longest steps of a worker with bodies of 16 MiB each, milliseconds")
    body = b"x" * (16 * 1024 * 1024)
    large = exchange(request_body=body, response_body=body)
    received = bytearray(body)
    print(f"  the copy made    {measured(lambda: bytes(received)) * 1e3:6.1f}")
    print(f"  the frame made   {measured(lambda: framed(Batch(Delivery('s', 1, 0.0), [large], []))) * 1e3:6.1f}")
    print("largest bodies in the writer, seconds")
    largest("16 MiB of one delta", b'data: {"choices":[{"delta":{"content":"' + body + b'"}}]}\n\n')
    largest("16 MiB of tiny events", b'data:{"choices":[{"delta":{"content":"a"}}]}\n\n' * 350_000)
    largest("16 MiB of empty objects", b"data:{}\n\n" * 1_800_000)


if __name__ == "__main__":
    main()
