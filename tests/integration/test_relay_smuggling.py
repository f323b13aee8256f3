"""No request is read in two ways: it is refused with one status and a closed connection, or is relayed once."""

import asyncio
import contextlib
import re

import pytest

from tests.support.integration.relaying import Gateway, config_for, running_gateway
from tests.support.integration.scripted_upstream import ScriptedUpstream, scripted_upstream
from tests.support.integration.smuggling import AFTER, PASSED, REFUSED, get, post

WAIT_SECONDS = 30.0


async def answers_of(gateway: Gateway, data: bytes, *, piece: int = 0, before: tuple[bytes, ...] = ()) -> list[int]:
    """Return each response's status until the gateway closes; `piece` is bytes per write, `before` earlier requests."""
    reader, writer = await gateway.connect()
    for request in before:
        writer.write(request)
        await reader.readuntil(b'{"ok": true}')
    sending = asyncio.create_task(send(writer, data, piece))
    answer = b""
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while received := await reader.read(65536):
                answer += received
    except ConnectionError:
        pass  # it closed while we were still sending
    finally:
        sending.cancel()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 ")
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


async def send(writer: asyncio.StreamWriter, data: bytes, piece: int) -> None:
    with contextlib.suppress(ConnectionError):
        for start in range(0, len(data), piece or len(data)):
            writer.write(data[start : start + (piece or len(data))])
            await writer.drain()
            await asyncio.sleep(0)


def seen(upstream: ScriptedUpstream) -> list[tuple[str, str, bytes]]:
    return [(request.method, request.target, request.body) for request in upstream.requests]


PIECES = pytest.mark.parametrize("piece", [0, 1, 5])
"""Bytes written at a time, 0 for all: where the network cuts a request must make no difference."""


@PIECES
async def test_refused(piece: int) -> None:
    """One clean status, then the end of the connection; no upstream sees the request or the one behind it."""
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        for name, (data, status) in REFUSED.items():
            if not piece or len(data) < 5_000:
                assert (name, await answers_of(gateway, data + AFTER, piece=piece)) == (name, [status])
                assert (name, seen(upstream)) == (name, [])


async def test_refused_behind_a_good_one() -> None:
    """The request before is answered in full, whatever follows it on the connection; the upstream sees it alone."""
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        for name, (data, status) in REFUSED.items():
            upstream.requests.clear()
            statuses = await answers_of(gateway, get(b"/v1/good") + data + AFTER)

            assert (name, statuses) in ((name, [200]), (name, [200, status]))
            assert (name, seen(upstream)) == (name, [("GET", "/v1/good", b"")])


async def test_on_a_used_connection() -> None:
    """What a connection has carried before, in nearly the same bytes, changes nothing about how the next is read."""
    usual = post(b"Content-Length: 3\r\n")
    last = AFTER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    used = [("POST", "/v1/x", b"abc")] * 3
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        for name, (data, status) in REFUSED.items():
            upstream.requests.clear()
            assert (name, await answers_of(gateway, data + AFTER, before=(usual,) * 3)) == (name, [status])
            assert (name, seen(upstream)) == (name, used)
        for name, case in PASSED.items():
            upstream.requests.clear()
            await answers_of(gateway, case.data + last, before=(usual,) * 3)
            assert (name, seen(upstream)[:4]) == (name, [*used, (case.method, case.target, case.body)])


@PIECES
async def test_passed(piece: int) -> None:
    """The upstream reads the same one request, with one length, no coding and its own host; then the one after it."""
    last = AFTER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        for name, case in PASSED.items():
            upstream.requests.clear()
            statuses = await answers_of(gateway, case.data + last, piece=piece)

            expected = [(case.method, case.target, case.body)]
            if not case.is_last:
                expected.append(("GET", "/v1/after", b""))
            assert (name, statuses, seen(upstream)) == (name, [200] * len(expected), expected)
            assert framing_of(upstream) == (upstream.base_url.removeprefix("http://"), int(bool(case.body)), 0)


def framing_of(upstream: ScriptedUpstream) -> tuple[str, int, int]:
    """Hosts, and how many lengths and codings, in the first request that an upstream has read."""
    headers = upstream.requests[0].headers
    names = [name for name, _ in headers]
    hosts = ", ".join(value for name, value in headers if name == "host")
    return hosts, names.count("content-length"), names.count("transfer-encoding")


@pytest.mark.parametrize("tail", [b"0\r\nX: ", b"1;"])
@pytest.mark.parametrize("path", [b"/v1/x", b"/elsewhere"])
async def test_endless_framing(tail: bytes, path: bytes) -> None:
    """Trailers and chunk extensions without end are cut off long before the body's limit, on every path."""
    head = post(b"Transfer-Encoding: chunked\r\n", b"").replace(b"/v1/x", path)
    sent = 0
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        reader, writer = await gateway.connect()
        writer.write(head + tail)
        answering = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
        async with asyncio.timeout(WAIT_SECONDS):
            while not answering.done():
                writer.write(b"x" * 16_384)
                sent += 16_384
                await asyncio.sleep(0.001)
            answer = await answering
        writer.close()

        assert answer.startswith(b"HTTP/1.1 431")
        assert sent < 8_000_000
        assert seen(upstream) == []


async def test_many_small_chunks() -> None:
    """A long body of one-byte chunks is framing for the greatest part, and passes."""
    body = b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n"
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        assert await answers_of(gateway, post(b"Transfer-Encoding: chunked\r\nConnection: close\r\n", body)) == [200]
        assert seen(upstream) == [("POST", "/v1/x", b"a" * 100_000)]
