"""No reply of a judge, model or embedder takes more memory or time than it may: compressed, endless, deep or slow."""

import time
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import pytest

from auditors.clients.bounded_body import BodyError, BoundedBody
from auditors.clients.chat_format import parse_chat
from auditors.clients.completion import EmbeddingClient, HttpCompleter, served_models
from auditors.clients.failures import LONGEST_MESSAGE
from auditors.types import CompletionError, CompletionRequest, Message
from gateway.auditor.backpressure.vllm_load import LoadReader
from tests.support.integration.failing import drips
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script, reply, scripted_upstream

REQUEST = CompletionRequest(model="m", messages=[Message("user", "Hi")], max_tokens=5)
EXPANDED = 128 * 1024 * 1024
MOST_MEMORY = 48 * 1024 * 1024
"""A client that takes what it is given needs three times as much and more."""
CHAT = b'{"choices": [{"message": {"content": "yes"}}]}'
DEEP = 200_000


def compressed(*pieces: bytes, window_bits: int = 16 + zlib.MAX_WBITS) -> bytes:
    """gzip, unless other bits say zlib's format or none at all."""
    packing = zlib.compressobj(9, zlib.DEFLATED, window_bits)
    return b"".join([*map(packing.compress, pieces), packing.flush()])


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Some 130 kB of gzip that are 128 MB of blanks."""
    mebibyte = b" " * (1024 * 1024)
    return compressed(*[mebibyte] * (EXPANDED // len(mebibyte)))


async def completes(base_url: str, seconds: float = 20) -> None:
    completer = HttpCompleter(base_url, retries=0, timeout=seconds)
    try:
        await completer.complete(REQUEST)
    finally:
        await completer.aclose()


async def embeds(base_url: str) -> None:
    client = EmbeddingClient(base_url, timeout=20)
    try:
        await client.embed("e", ["a"] * 32)
    finally:
        await client.aclose()


Ask = Callable[[str], Awaitable[object]]
CLIENTS: tuple[Ask, ...] = (completes, embeds, served_models)


async def failed(ask: Ask, script: Script) -> CompletionError:
    """How a client fails at a server that always answers like this."""
    async with scripted_upstream(default=script) as server:
        with pytest.raises(CompletionError) as caught:
            await ask(server.base_url)
    return caught.value


@pytest.mark.parametrize("ask", CLIENTS)
async def test_130_kilobytes_do_not_become_128_megabytes(ask: Ask, bomb: bytes) -> None:
    """Decoding stops at the limit, before the memory is used, and the failure says what was wrong."""
    assert len(bomb) < 1024 * 1024
    script = reply(bomb, headers=b"content-type: application/json\r\ncontent-encoding: gzip\r\n")
    tracemalloc.start()
    try:
        error = await failed(ask, script)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (error.kind, "longer than" in str(error)) == ("malformed", True)
    assert peak < MOST_MEMORY


async def test_an_error_that_is_a_bomb_keeps_its_status(bomb: bytes) -> None:
    """Of an error's body only the beginning is read: the status counts, and the message stays short."""
    for script in (
        reply(bomb, "400 Bad Request", headers=b"content-encoding: gzip\r\n"),
        reply(b"x" * 30_000_000, "400 Bad Request"),
        reply(b"[" * DEEP, "400 Bad Request"),
        reply(b"{}", "400 Bad Request", headers=b"content-encoding: br\r\n"),
    ):
        error = await failed(completes, script)
        assert (error.kind, error.status_code) == ("rejected", 400)
        assert len(str(error)) < LONGEST_MESSAGE + 100


async def endless(_: ReceivedRequest, channel: Channel) -> None:
    await channel.send(b"HTTP/1.1 200 OK\r\n\r\n" + CHAT)
    while True:
        await channel.send(b" " * 65536)


# Whoever sends without end may still be at it when the test's loop closes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("ask", CLIENTS)
async def test_a_body_without_end_is_given_up(ask: Ask) -> None:
    """At the limit of bytes, long before any limit of time."""
    error = await failed(ask, endless)

    assert (error.kind, "longer than" in str(error)) == ("malformed", True)


async def test_a_body_that_drips_is_given_up_in_time() -> None:
    """Each byte comes soon enough, and all of them do not: the limit is for the whole reply."""
    began = time.monotonic()
    error = await failed(partial(completes, seconds=0.5), drips)

    assert error.kind == "timeout"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "body",
    [
        b"[" * DEEP,
        b'{"usage": ' + b"[" * DEEP,
        CHAT[:-1] + b', "usage": {"a": ' + b"[" * 5000 + b"]" * 5000 + b"}}",
        CHAT[:-1] + b', "usage": {"a": [' + b"{}," * 10_000 + b"{}]}}",
        CHAT[:-3] + b', "logprobs": {"content": [' + b"[]," * 600_000 + b"[]]}}]}",
    ],
    ids=["not even an object", "open", "deep", "many", "many tokens"],
)
def test_values_that_would_take_much_more_memory_than_bytes(body: bytes) -> None:
    """Nesting without end, and lists of a million empty things, are malformed and nothing worse."""
    with pytest.raises(CompletionError) as caught:
        parse_chat(body)

    assert caught.value.kind == "malformed"
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", CHAT),
        ("identity", CHAT),
        ("gzip", compressed(CHAT)),
        ("GZip", compressed(CHAT)),
        ("deflate", compressed(CHAT, window_bits=zlib.MAX_WBITS)),
        ("deflate", compressed(CHAT, window_bits=-zlib.MAX_WBITS)),
    ],
    ids=["none", "identity", "gzip", "capitals", "deflate", "deflate without a header"],
)
async def test_honest_replies_are_read(encoding: str, body: bytes) -> None:
    """Whatever encoding was asked for, however small the pieces."""
    headers = b"content-type: application/json\r\n"
    headers += b"content-encoding: " + encoding.encode() + b"\r\n" if encoding else b""
    in_pieces = BoundedBody(encoding, len(CHAT))
    for start in range(len(body)):
        in_pieces.feed(body[start : start + 1])
    async with scripted_upstream(default=reply(body, headers=headers)) as server:
        completer = HttpCompleter(server.base_url)
        completion = await completer.complete(REQUEST)
        await completer.aclose()

    assert completion.text == "yes"
    assert in_pieces.content == CHAT
    assert "br" not in (server.requests[0].header("accept-encoding") or "br").split(", ")


@pytest.mark.parametrize(
    ("encoding", "body", "why"),
    [
        ("br", b"x", 'content-encoding "br" was not asked for'),
        ("gzip, gzip", b"x", "was not asked for"),
        ("gzip", b"no gzip at all", "the body is not gzip"),
        ("gzip", compressed(CHAT + b" "), "longer than"),
        ("", CHAT + b" ", "longer than"),
    ],
)
def test_what_is_not_read(encoding: str, body: bytes, why: str) -> None:
    """The message says which rule it broke."""
    with pytest.raises(BodyError, match=why):
        BoundedBody(encoding, len(CHAT)).feed(body)


@pytest.mark.parametrize(
    ("encoding", "body", "why"),
    [
        ("gzip", compressed(CHAT) + b"x", "goes on behind the end of its gzip"),
        ("deflate", compressed(CHAT, window_bits=zlib.MAX_WBITS) * 2, "goes on behind the end of its deflate"),
        ("gzip", compressed(CHAT)[:-1], "ends in the middle of its gzip"),
        ("gzip", b"\x1f", "ends in the middle of its gzip"),
        ("gzip", compressed(CHAT) * 2, "longer than"),
    ],
)
def test_what_does_not_end_where_it_should(encoding: str, body: bytes, why: str) -> None:
    """Nothing behind the body is left out without a word, in whatever pieces it comes."""
    for size in (1, 7, len(body)):
        with pytest.raises(BodyError, match=why):
            read_in_pieces(encoding, body, size)


def test_members_are_one_body() -> None:
    """Of a gzip, in pieces of any size; nothing is an empty body."""
    body = compressed(CHAT[:10]) + compressed(b"") + compressed(CHAT[10:])
    for size in (1, 7, len(body)):
        assert read_in_pieces("gzip", body, size) == CHAT
    assert read_in_pieces("gzip", b"", 1) == b""


def read_in_pieces(encoding: str, body: bytes, size: int) -> bytes:
    bounded = BoundedBody(encoding, len(CHAT))
    for start in range(0, len(body), size):
        bounded.feed(body[start : start + size])
    bounded.finish()
    return bounded.content


async def test_a_page_of_metrics_that_is_a_bomb_tells_of_no_load(bomb: bytes) -> None:
    """It is left alone as a page without vLLM's metrics is, and takes no memory."""
    tracemalloc.start()
    try:
        async with scripted_upstream(default=reply(bomb, headers=b"content-encoding: gzip\r\n")) as server:
            reader = LoadReader(server.base_url)
            load = await reader.poll()
            await reader.aclose()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert load is None
    assert peak < MOST_MEMORY


async def test_embeddings_of_a_whole_batch_are_read() -> None:
    """The limit grows with the number of texts: 32 vectors of 4,096 numbers are no bomb."""
    rows = [{"index": i, "embedding": [0.123456789012345678] * 4096} for i in range(32)]
    async with scripted_upstream(default=reply(msgspec.json.encode({"data": rows}))) as server:
        client = EmbeddingClient(server.base_url)
        vectors = await client.embed("e", ["a"] * 32)
        await client.aclose()

    assert {len(vector) for vector in vectors} == {4096}
