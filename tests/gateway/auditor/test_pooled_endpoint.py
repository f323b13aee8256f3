"""The client of suite runs: what it reads, how it fails, and that a cancelled request closes its connection."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from auditors.clients.completion import HttpEndpoint
from auditors.types import CompletionError
from gateway.auditor.suites.pooled_endpoint import PooledEndpoint, endpoint_for

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[str]:
    """Base URL of a server that leaves each request, head and body, to `answer`."""

    serving = set[asyncio.Task[None] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
                await answer(reader, writer, head + await reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        await asyncio.wait_for(asyncio.gather(*(one for one in serving if one is not None)), 5)


@asynccontextmanager
async def endpoint(answer: Answer, *, within: float = 5.0, retries: int = 0) -> AsyncIterator[PooledEndpoint]:
    """An endpoint of such a server."""
    async with server(answer) as url:
        found = PooledEndpoint(
            url, "secret", timeout=within, retries=retries, max_concurrency=4, sign=lambda _: {"x-own": "1"}
        )
        try:
            yield found
        finally:
            await found.aclose()


def writing(*answers: bytes) -> tuple[Answer, list[bytes]]:
    """Writes one after the other, the last for ever, and notes the requests."""
    asked = list[bytes]()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
        asked.append(request)
        writer.write(answers[min(len(asked), len(answers)) - 1])
        if b"connection: close" in answers[min(len(asked), len(answers)) - 1]:
            writer.close()

    return answer, asked


async def test_sends_what_is_asked() -> None:
    """Body, key, and headers of the request's own and of every auditor's request go out as they are."""
    answer, asked = writing(OK)
    async with endpoint(answer) as client:
        assert [await client.post("/v1/x", b"abc") for _ in range(3)] == [b"{}"] * 3
        assert await client.get("/v1/models") == b"{}"
    assert asked[0].startswith(b"POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:")
    assert asked[0].endswith(b"\r\n\r\nabc")
    for line in (b"authorization: Bearer secret", b"x-own: 1", b"x-biasgate-audit: off", b"content-length: 3"):
        assert b"\r\n" + line + b"\r\n" in asked[0]
    assert asked[3].startswith(b"GET /v1/models HTTP/1.1\r\n")


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_reads_compressed_and_chunked_bodies(is_chunked: bool) -> None:
    """A body is decoded, in whatever pieces it comes."""
    body = gzip.compress(b"word " * 2000)
    if is_chunked:
        head = b"transfer-encoding: chunked"
        body = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in (body[:9], body[9:])) + b"0\r\n\r\n"
    else:
        head = b"content-length: %d" % len(body)
    answer, _ = writing(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n%b\r\n\r\n%b" % (head, body))
    async with endpoint(answer) as client:
        assert [await client.post("/v1/x", b"") for _ in range(2)] == [b"word " * 2000] * 2


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (b"HTTP/1.1 400 No\r\ncontent-length: 21\r\n\r\nthe key is secret, no", "rejected", r"the key is \[key\]"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n" + b"x" * 99, "malformed", "longer than 50 bytes"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 1\r\n\r\nx", "malformed", "was not asked for"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{", "unavailable", "before the end"),
        (b"HTTP/1.1 500 Ill\r\ncontent-length: 0\r\n\r\n", "unavailable", "status 500"),
        (b"", "timeout", "no reply within 0.3 s"),
    ],
)
async def test_names_its_failures(reply: bytes, kind: str, words: str) -> None:
    """Each failure has its kind, and words without the key."""
    answer, _ = writing(reply)
    async with endpoint(answer, within=0.3 if kind == "timeout" else 5) as client:
        with pytest.raises(CompletionError, match=words) as failed:
            await client.post("/v1/x", b"", longest=50)
    assert failed.value.kind == kind


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"])
async def test_a_cancelled_request_closes_its_connection(begun: bytes) -> None:
    """The server learns at once that nobody waits any more; another request has another connection."""
    closed, came = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: bytes) -> None:
        if came.is_set():
            writer.write(OK)
            return
        writer.write(begun)
        came.set()
        try:
            await reader.read()
        finally:
            closed.set()

    async with endpoint(answer) as client:
        asking = asyncio.create_task(client.post("/v1/x", b""))
        await came.wait()
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(closed.wait(), 2)
        assert await client.post("/v1/x", b"") == b"{}"


def test_a_server_behind_a_proxy_is_asked_by_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names the proxy; a server that no_proxy names, or on this machine, is reached directly."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert endpoint_for("https://judge.example") is PooledEndpoint
    monkeypatch.setenv("https_proxy", "http://user:word@proxy:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    for local in ("https://localhost:1", "https://127.0.0.2", "https://[::1]:8000/v1", "https://a.localhost"):
        assert endpoint_for(local) is PooledEndpoint
    assert endpoint_for("http://judge.example") is PooledEndpoint
    assert endpoint_for("https://judge.example") is HttpEndpoint
    assert endpoint_for("https://inside.example/v1") is PooledEndpoint
    assert endpoint_for("https://user:word@inside.example") is HttpEndpoint


async def test_an_error_names_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refused connection is the proxy's: the message says so, without the proxy's password."""
    monkeypatch.setenv("http_proxy", "http://user:word@127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    client = HttpEndpoint("http://model.example:8000", retries=0)

    with pytest.raises(CompletionError, match=r"^model.example:8000/v1/x through the proxy http://[*]{3}@127.0.0.1:1 "):
        await client.post("/v1/x", b"")
    await client.aclose()
