"""The relay hands requests and responses on unchanged, however they are framed and cut."""

import asyncio
import contextlib

from tests.support.integration.relaying import Gateway, config_for, relaying, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, raw, reply, scripted_upstream

EVENTS = [b'data: {"id": %d, "t": "\xc3\xa9"}\n\n' % number for number in range(5)] + [b"data: [DONE]\n\n"]
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n"
STREAM = (
    STREAM_HEAD + b"".join(b"%X;ext=1\r\n%b\r\n" % (len(event), event) for event in EVENTS) + b"0\r\nX-T: 1\r\n\r\n"
)
PLAIN = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"text": ""}'
INFORMED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + PLAIN


async def get(gateway: Gateway, *, version: bytes = b"1.1", method: bytes = b"GET") -> tuple[bytes, list[bytes], bytes]:
    """Status line, header lines and the rest, as they come off the wire."""
    answer = await gateway.exchange(b"%b /v1/x HTTP/%b\r\nHost: g\r\nConnection: close\r\n\r\n" % (method, version))
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    return first, lines, body


async def test_only_the_gateways_own_replies_say_nosniff() -> None:
    """Every refusal does, of bytes that are no request too; what an upstream answers is left as it came."""
    async with relaying() as run:
        refused = await run.http.request("TRACE", "/v1/x")
        relayed = await run.http.post("/v1/x", content=b"{}")
        broken = await run.gateway.exchange(b"no request\r\n\r\n")

    assert refused.headers.get_list("x-content-type-options") == ["nosniff"]
    assert broken.count(b"x-content-type-options: nosniff\r\n") == 1
    assert "x-content-type-options" not in relayed.headers


async def test_events_are_not_held_back() -> None:
    """Each event is handed on before the next one exists."""
    steps: asyncio.Queue[bytes] = asyncio.Queue()

    async def script(_: ReceivedRequest, channel: Channel) -> None:
        await channel.send(STREAM_HEAD)
        for event in EVENTS:
            await steps.get()
            await channel.send(b"%x\r\n%b\r\n" % (len(event), event))
        await channel.send(b"0\r\n\r\n")

    async with scripted_upstream(script) as upstream, running_gateway(config_for(upstream)) as gateway:
        async with gateway.http() as http, http.stream("GET", "/v1/x") as answer:
            steps.put_nowait(b"")
            received = []
            async for chunk in answer.aiter_raw():
                received.append(chunk)
                steps.put_nowait(b"")

        assert received == EVENTS


class TestFraming:
    async def test_http_1_0_client(self) -> None:
        """A client that knows no chunks gets a body that ends with its connection."""
        async with scripted_upstream(raw(STREAM)) as upstream, running_gateway(config_for(upstream)) as gateway:
            _, lines, body = await get(gateway, version=b"1.0")

            assert not any(line.startswith(b"transfer-encoding") for line in lines)
            assert body == b"".join(EVENTS)

    async def test_informational(self) -> None:
        """Early hints reach the client, an unasked 100 does not."""
        async with scripted_upstream(raw(INFORMED)) as upstream, running_gateway(config_for(upstream)) as gateway:
            first, lines, rest = await get(gateway)

            assert (first, lines) == (b"HTTP/1.1 103 Early Hints", [b"Link: </x>"])
            assert rest.startswith(b"HTTP/1.1 200 OK\r\n")

    async def test_early_response(self) -> None:
        """A response that comes before the request was read is handed on, and that connection is used no more."""
        big = b'{"pad": "%b"}' % (b"x" * 24_000_000)  # more than any kernel's buffers take at once

        async def answer_unread(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 2\r\n\r\nno")
                await reader.read(-1)

        server = await asyncio.start_server(answer_unread, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with scripted_upstream() as upstream:
            config = config_for(upstream, upstream={"base_url": address})
            async with running_gateway(config) as gateway, gateway.http() as http:
                answers = [await http.post("/v1/x", content=big) for _ in range(2)]

            assert [(answer.status_code, answer.content) for answer in answers] == [(422, b"no")] * 2
        server.close()


class TestConnections:
    async def test_an_upstream_that_closes(self) -> None:
        """`connection: close` from the upstream ends its connection and not the client's."""
        script = raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        async with scripted_upstream(default=script) as upstream, running_gateway(config_for(upstream)) as gateway:
            reader, writer = await gateway.connect()
            for _ in range(3):
                writer.write(b"GET /v1/x HTTP/1.1\r\nHost: g\r\n\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"connection" not in head.lower()
                assert await reader.readexactly(2) == b"ok"
            writer.close()

            assert len({request.connection for request in upstream.requests}) == 3

    async def test_at_most_max_connections(self) -> None:
        """Requests beyond the limit wait for a connection, in order."""

        async def slow(request: ReceivedRequest, channel: Channel) -> None:
            await asyncio.sleep(0.01)
            await reply(request.body)(request, channel)

        async with scripted_upstream(default=slow) as upstream:
            async with (
                running_gateway(config_for(upstream, upstream={"max_connections": 2})) as gateway,
                gateway.http() as http,
            ):
                answers = await asyncio.gather(*(http.post("/v1/x", content=b"%d" % n) for n in range(12)))

            assert sorted(int(answer.content) for answer in answers) == list(range(12))
            assert len({request.connection for request in upstream.requests}) == 2
            assert gateway.plane.upstreams[0].outstanding == 0
