"""Requests and responses whose heads came before on the same connection: not parsed again, and relayed all the same."""

import asyncio
import re
import time

import pytest

from gateway.proxy.protocol import MAX_UNREPEATED_HEADS
from tests.support.integration.relaying import Gateway, config_for, eventually, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, raw, reply, scripted_upstream


def request(body: bytes, extra: bytes = b"") -> bytes:
    return b"POST /v1/x HTTP/1.1\r\nhost: a\r\n%bContent-Length: %d\r\n\r\n%b" % (extra, len(body), body)


class Talk:
    """One kept-alive connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> tuple[bytes, bytes]:
        """The next response's head and body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        return head, await self.reader.readexactly(int(length[1])) if length else b""

    async def ask(self, data: bytes) -> tuple[bytes, bytes]:
        self.writer.write(data)
        return await self.answer()


async def talk_to(gateway: Gateway) -> Talk:
    return Talk(*await gateway.connect())


async def echo(received: ReceivedRequest, channel: Channel) -> None:
    """Answers with what was asked."""
    await reply(received.body)(received, channel)


async def test_a_path_that_is_listed_no_more() -> None:
    """A head that was relayed by the list of one configuration is the app's to answer by the next one's."""
    asked = request(b"{}").replace(b"/v1/x", b"/tokenize")
    async with (
        scripted_upstream(default=echo) as upstream,
        running_gateway(config_for(upstream, server={"relayed_paths": ["/tokenize"]})) as gateway,
    ):
        talk = await talk_to(gateway)
        listed = [(await talk.ask(asked))[1] for _ in range(3)]
        gateway.plane.relayed_paths = frozenset()
        _, body = await talk.ask(asked)
        talk.writer.close()

        assert (listed, body) == ([b"{}"] * 3, b"app /tokenize 2")
        assert len(upstream.requests) == 3


BODIES = [b"{}", b'{"n": 1}', b"", b"[%b0]" % (b"2, " * 5000), b"{}"]


async def test_each_request_gets_its_own() -> None:
    """Bodies of any length behind one head reach the upstream unchanged, each under an id of its own."""
    async with scripted_upstream(default=echo) as upstream, running_gateway(config_for(upstream)) as gateway:
        talk = await talk_to(gateway)
        answers = [await talk.ask(request(body)) for body in BODIES]
        talk.writer.close()

        assert [body for _, body in answers] == BODIES == [seen.body for seen in upstream.requests]
        ids = [seen.header("x-request-id") for seen in upstream.requests]
        assert len(set(ids)) == len(BODIES)
        assert all(f"x-request-id: {sent}".encode() in head for sent, (head, _) in zip(ids, answers, strict=True))
        assert {tuple(name for name, _ in seen.headers) for seen in upstream.requests} == {
            ("host", "content-length", "x-request-id")
        }
        assert gateway.stats.outcomes == ["complete"] * len(BODIES)


async def test_a_request_in_pieces() -> None:
    """A known head that arrives cut in two, at any byte, is one request."""
    whole = request(b'{"n": 1}')
    async with scripted_upstream(default=echo) as upstream, running_gateway(config_for(upstream)) as gateway:
        talk = await talk_to(gateway)
        await talk.ask(whole)
        for cut in range(1, len(whole)):
            talk.writer.write(whole[:cut])
            await asyncio.sleep(0.001)
            assert (await talk.ask(whole[cut:]))[1] == b'{"n": 1}'
            await talk.ask(whole)
        talk.writer.close()

        assert {seen.body for seen in upstream.requests} == {b'{"n": 1}'}
        assert len(upstream.requests) == 2 * len(whole) - 1


async def test_pipelined() -> None:
    """Known requests that come together, or before the last was answered, are answered in their order."""
    bodies = [b'{"n": %d}' % n for n in range(5)]
    async with scripted_upstream(default=echo) as upstream, running_gateway(config_for(upstream)) as gateway:
        talk = await talk_to(gateway)
        await talk.ask(request(b"{}"))
        talk.writer.write(b"".join(map(request, bodies[:3])))
        for body in bodies[3:]:
            await asyncio.sleep(0)
            talk.writer.write(request(body))

        assert [(await talk.answer())[1] for _ in bodies] == bodies
        talk.writer.close()


async def test_another_head_in_between() -> None:
    """What does not match is read as ever, bad requests included, and leaves no trace."""
    async with scripted_upstream(default=echo) as upstream, running_gateway(config_for(upstream)) as gateway:
        talk = await talk_to(gateway)
        await talk.ask(request(b"{}"))
        await talk.ask(request(b"[]", b"x-other: 1\r\n"))
        await talk.ask(request(b"{}"))
        head, _ = await talk.ask(request(b"{}").replace(b"Content-Length: 2", b"Content-Length: +2"))

        assert head.startswith(b"HTTP/1.1 400 ")
        assert [seen.header("x-other") for seen in upstream.requests] == [None, "1", None]
        talk.writer.close()


async def test_heads_that_never_repeat() -> None:
    """Giving up remembering changes nothing for the client."""
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        talk = await talk_to(gateway)
        for number in range(2 * MAX_UNREPEATED_HEADS):
            await talk.ask(request(b"{}", b"x-request-id: %d\r\n" % number))
        talk.writer.close()

        assert [seen.header("x-request-id") for seen in upstream.requests] == [
            str(n) for n in range(2 * MAX_UNREPEATED_HEADS)
        ]


async def test_refused_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong key is wrong again when it comes again; the limit of a right one still counts."""
    monkeypatch.setenv("APP_KEY", "right")
    keys = [{"name": "app", "key_env": "APP_KEY", "requests_per_minute": 3}]
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream, keys=keys)) as gateway:
        talk = await talk_to(gateway)
        statuses = []
        for key in [b"wrong"] * 3 + [b"right"] * 4:
            head, _ = await talk.ask(request(b"{}", b"authorization: Bearer %b\r\n" % key))
            statuses.append(head[9:12])
        talk.writer.close()

        assert statuses == [b"401"] * 3 + [b"200"] * 3 + [b"429"]


class TestResponses:
    @pytest.mark.parametrize("size", [1, 3, 40])
    async def test_in_pieces(self, size: int) -> None:
        """A known response head that arrives in pieces is still one response."""

        async def dribble(received: ReceivedRequest, channel: Channel) -> None:
            head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nx: y\r\n\r\n" % len(received.body)
            await channel.send_bytewise(head + received.body, size)

        async def at_once(received: ReceivedRequest, channel: Channel) -> None:
            await channel.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: y\r\n\r\n{}")

        scripts = [at_once, dribble, at_once, dribble, at_once]
        async with scripted_upstream(*scripts) as upstream, running_gateway(config_for(upstream)) as gateway:
            talk = await talk_to(gateway)
            assert [(await talk.ask(request(b"{}")))[1] for _ in scripts] == [b"{}"] * len(scripts)
            assert len({seen.connection for seen in upstream.requests}) == 1
            talk.writer.close()

    async def test_too_long_for_its_length(self) -> None:
        """Bytes behind a known response never become part of the next one."""
        scripts = [reply(b"{}"), reply(b"{}"), raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 666 X\r\n")]
        scripts = [raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"), *scripts[2:], reply(b"[]")]
        async with scripted_upstream(*scripts) as upstream, running_gateway(config_for(upstream)) as gateway:
            talk = await talk_to(gateway)
            assert [(await talk.ask(request(b"{}")))[1] for _ in scripts] == [b"{}", b"{}", b"[]"]
            assert [seen.connection - upstream.requests[0].connection for seen in upstream.requests][:2] == [0, 0]
            assert upstream.requests[2].connection != upstream.requests[0].connection
            talk.writer.close()

    async def test_a_head_request_has_no_body_to_wait_for(self) -> None:
        """The same head answers HEAD and POST: only one of them has a body."""
        head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
        scripts = [raw(head + b"{}"), raw(head), raw(head + b"[]")]
        async with scripted_upstream(*scripts) as upstream, running_gateway(config_for(upstream)) as gateway:
            talk = await talk_to(gateway)
            assert (await talk.ask(request(b"{}")))[1] == b"{}"
            talk.writer.write(b"HEAD /v1/x HTTP/1.1\r\nhost: a\r\n\r\n")
            assert b"content-length: 2" in await talk.reader.readuntil(b"\r\n\r\n")
            assert (await talk.ask(request(b"{}")))[1] == b"[]"
            talk.writer.close()

    async def test_a_constant_request_id_is_decided_anew_each_time(self) -> None:
        """However a client names its requests, parsed or not, each exchange has an id of its own, not chosen by it."""
        data = request(b'{"model": "m"}').replace(b"/v1/x", b"/v1/chat/completions")
        data = data.replace(b"\r\n\r\n", b"\r\nX-Request-Id: always-this\r\n\r\n", 1)
        async with scripted_upstream(default=echo) as upstream, running_gateway(config_for(upstream)) as gateway:
            gateway.tap.samples = True
            talk = await talk_to(gateway)
            answers = [await talk.ask(data) for _ in range(3)]
            talk.writer.close()

            ids = [one["exchange_id"] for one in gateway.tap.decisions]
            assert len(set(ids)) == 3
            assert "always-this" not in ids
            assert [copy.id for copy in gateway.tap.offered] == ids
            assert [copy.request_id for copy in gateway.tap.offered] == ["always-this"] * 3
            assert [seen.header("x-request-id") for seen in upstream.requests] == ["always-this"] * 3
            assert all(b"x-request-id: always-this" in head.lower() for head, _ in answers)


async def test_an_idle_connection_is_closed_once_it_has_been_idle() -> None:
    """One timer serves all requests of a connection: it closes after the idle time, counted from the last response."""
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        talk = await talk_to(gateway)
        await eventually(lambda: gateway.server.server_state.connections)
        (protocol,) = gateway.server.server_state.connections
        protocol.timeout_keep_alive = 0.5  # type: ignore[union-attr]  # seconds, from uvicorn's configuration
        for _ in range(3):
            await talk.ask(request(b"{}"))
            await asyncio.sleep(0.2)
        await talk.ask(request(b"{}"))
        answered = time.monotonic()

        assert await talk.reader.read(1) == b""
        assert time.monotonic() - answered > 0.4
        talk.writer.close()
