"""A client that takes its time holds a connection for so long and no longer, and costs nobody else anything."""

import asyncio
import contextlib
from typing import Any

import pytest

from tests.support.integration.relaying import Gateway, config_for, eventually, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, reply, scripted_upstream

WAIT_SECONDS = 30.0
"""For what comes within two or three seconds on an idle machine."""
IMPATIENT: dict[str, Any] = {"header_timeout_seconds": 0.3, "body_timeout_seconds": 0.3}


async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Byte by byte, without a pause that could itself be called silence."""
    with contextlib.suppress(ConnectionError):
        for offset in range(len(data)):
            writer.write(data[offset : offset + 1])
            await writer.drain()
            await asyncio.sleep(0.02)


async def answer_to_dripping(gateway: Gateway, at_once: bytes, slowly: bytes) -> bytes:
    """All that comes until the gateway closes, which must be long before `slowly` is through."""
    reader, writer = await gateway.connect()
    writer.write(at_once)
    dripping = asyncio.create_task(drip(writer, slowly))
    answer = b""
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            with contextlib.suppress(ConnectionError):
                while received := await reader.read(65536):
                    answer += received
    finally:
        assert not dripping.done()
        dripping.cancel()
        writer.close()
    return answer


LONG = b"x" * 100_000
GET = b"GET /v1/x HTTP/1.1\r\nHost: g\r\n"
POST = b"POST %b HTTP/1.1\r\nHost: g\r\nContent-Length: 50000\r\n\r\n"


@pytest.mark.parametrize(
    ("at_once", "slowly"),
    [
        (b"", GET + b"A: " + LONG),
        (GET + b"A: ", LONG),
        (POST % b"/v1/x", LONG),
        (POST % b"/elsewhere", LONG),
        (b"POST /v1/x HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 20_000),
    ],
    ids=["request line", "header", "body", "body for the app", "chunks"],
)
async def test_drop_by_drop(at_once: bytes, slowly: bytes) -> None:
    """Head or body, relayed or not: what comes drop by drop is refused with a 408 and the connection closed."""
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream, server=IMPATIENT)) as gateway:
        answer = await answer_to_dripping(gateway, at_once, slowly)

        assert answer.startswith(b"HTTP/1.1 408 ")
        assert answer.count(b"HTTP/1.1") == 1
        assert b'"code":"request_timeout"' in answer
        assert upstream.requests == []
        await eventually(lambda: not gateway.plane.clients, seconds=WAIT_SECONDS)


async def test_second_request_drop_by_drop() -> None:
    """A connection that was used well before has no more time for its next head."""
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream, server=IMPATIENT)) as gateway:
        answer = await answer_to_dripping(gateway, GET + b"\r\n", GET + b"A: " + LONG)

        assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"408"]
        assert len(upstream.requests) == 1


async def test_connection_without_a_request() -> None:
    """A connection on which nothing ever comes is closed without a word."""
    async with running_gateway(config_for(server=IMPATIENT)) as gateway:
        reader, writer = await gateway.connect()
        async with asyncio.timeout(WAIT_SECONDS):
            assert await reader.read(-1) == b""
        writer.close()


async def test_body_of_a_refused_request_drop_by_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client without a key cannot hold its connection with a body that nobody reads."""
    monkeypatch.setenv("SLOW_TEST_KEY", "k")
    keys = [{"name": "app", "key_env": "SLOW_TEST_KEY"}]
    async with running_gateway(config_for(server=IMPATIENT, keys=keys)) as gateway:
        answer = await answer_to_dripping(gateway, POST % b"/v1/x", LONG)

        assert answer.startswith(b"HTTP/1.1 401 ")
        assert answer.count(b"HTTP/1.1") == 1


async def test_slow_but_steady() -> None:
    """A body that keeps the asked-for rate passes, however long it takes beyond the timeout."""
    limits = {"body_timeout_seconds": 2.0, "body_min_bytes_per_second": 1}
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream, server=limits)) as gateway:
        reader, writer = await gateway.connect()
        writer.write(b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 30\r\n\r\n")
        for _ in range(30):
            writer.write(b"x")
            await asyncio.sleep(0.1)
        async with asyncio.timeout(WAIT_SECONDS):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()

        assert upstream.requests[0].body == b"x" * 30


async def test_waiting_for_an_answer_is_not_slow() -> None:
    """Half a head sent while the answer to the request before is still coming is given its full time after that."""

    async def late(request: ReceivedRequest, channel: Channel) -> None:
        await asyncio.sleep(2.5)
        await reply()(request, channel)

    limits = {"header_timeout_seconds": 1.5}
    async with scripted_upstream(late) as upstream, running_gateway(config_for(upstream, server=limits)) as gateway:
        reader, writer = await gateway.connect()
        writer.write(GET + b"\r\n" + GET)
        async with asyncio.timeout(WAIT_SECONDS):
            first = await reader.readuntil(b'{"ok": true}')
            writer.write(b"\r\n")
            second = await reader.readuntil(b'{"ok": true}')
        writer.close()

        assert first.startswith(b"HTTP/1.1 200")
        assert second.startswith(b"HTTP/1.1 200")
        assert len(upstream.requests) == 2
