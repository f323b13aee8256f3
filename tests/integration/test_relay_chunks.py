"""Streams whose packets are whole chunks: passed on unparsed, until one is not."""

import asyncio

import pytest

from tests.support.integration.relaying import Gateway, RememberingTap, config_for, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script, reply, scripted_upstream

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
BODY = b'{"stream": true}'
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def packets(*pieces: bytes) -> Script:
    """Each piece in a packet of its own."""

    async def script(_: ReceivedRequest, channel: Channel) -> None:
        for piece in pieces:
            await channel.send(piece)
            await asyncio.sleep(0.01)

    return script


async def ask(gateway: Gateway, version: bytes = b"1.1") -> bytes:
    """The body of a streamed completion with its framing, on a connection that is closed behind it."""
    head = b"POST /v1/chat/completions HTTP/%b\r\nhost: a\r\nconnection: close\r\n" % version
    answer = await gateway.exchange(head + b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY))
    return answer.partition(b"\r\n\r\n")[2]


EVENTS = [b"data: a\n\n", "data: 日本\n\n".encode(), b": keep-alive\n\n", b"data: b\n\n", b"data: [DONE]\n\n"]
FRAMED = [chunk(event) for event in EVENTS]


@pytest.mark.parametrize("is_sampled", [False, True], ids=["unsampled", "sampled"])
@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD, *FRAMED, END],
        [HEAD + FRAMED[0], FRAMED[1] + FRAMED[2], FRAMED[3], FRAMED[4] + END],
        [HEAD, FRAMED[0], *FRAMED[1:], b"0\r\nx-late: 1\r\n\r\n"],
        [HEAD, *FRAMED[:3], b"9;a=b\r\ndata: b\n\n\r\n", FRAMED[4], END],
        [HEAD, *FRAMED[:3], b"009\r\ndata: b\n\n\r\n", FRAMED[4], END],
    ],
    ids=["one each", "several", "trailers", "an extension", "a size with zeros"],
)
async def test_whole_chunks(pieces: list[bytes], *, is_sampled: bool) -> None:
    """Client and copy get every byte, the framing is sound, and the connection to the upstream is used again."""
    async with (
        scripted_upstream(packets(*pieces), reply(b"{}")) as upstream,
        running_gateway(config_for(upstream), tap=RememberingTap(samples=is_sampled)) as gateway,
    ):
        assert await unframed(await ask(gateway)) == b"".join(EVENTS)
        assert await ask(gateway) == b"{}"

        assert {seen.connection for seen in upstream.requests} == {upstream.requests[0].connection}
        assert gateway.stats.outcomes == ["complete"] * 2
        assert [one.response_body for one in gateway.tap.offered] == [b"".join(EVENTS), b"{}"] * is_sampled


@pytest.mark.parametrize(
    "packet",
    [b"garbage\r\n", b"9\r\ndata: a\n\n..", b"9\ndata: a\n\n\n", b"-1\r\na\r\n"],
    ids=["no size", "no end", "bare line feeds", "a sign"],
)
async def test_malformed_behind_whole_chunks(packet: bytes) -> None:
    """The parser sees it, and the client is told as ever."""
    async with (
        scripted_upstream(packets(HEAD, *FRAMED[:3], packet)) as upstream,
        running_gateway(config_for(upstream)) as gateway,
    ):
        body = await ask(gateway)

        assert body.startswith(b"".join(FRAMED[:3]))
        assert b"malformed response" in body
        assert gateway.stats.outcomes == ["upstream_error"]


async def test_broken_off_between_chunks() -> None:
    """A connection that closes where a chunk ended has not ended its response."""

    async def script(request: ReceivedRequest, channel: Channel) -> None:
        await packets(HEAD, *FRAMED[:3])(request, channel)
        await channel.close()

    async with scripted_upstream(script) as upstream, running_gateway(config_for(upstream)) as gateway:
        assert b"closed the connection before the end of its response" in await ask(gateway)
        assert gateway.stats.outcomes == ["upstream_error"]


async def unframed(body: bytes) -> bytes:
    """What the chunks hold, to the last one."""
    reader = asyncio.StreamReader()
    reader.feed_data(body)
    reader.feed_eof()
    found = b""
    while size := int((await reader.readline()).strip(), 16):
        found += await reader.readexactly(size)
        assert await reader.readexactly(2) == b"\r\n"
    assert await reader.read() == b"\r\n"
    return found
