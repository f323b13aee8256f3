"""Targets: bytes off the wire, from a client and from an upstream, through a running gateway on real sockets.

Whatever comes: nothing is logged as an error of our own, nothing hangs, every exchange ends exactly once, the upstream
is asked at most once for each, and what the client gets is HTTP.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import Any

import httptools
import uvloop

from gateway.proxy.headers import PRIORITY
from tests.support.integration.relaying import Gateway, RememberingTap, config_for, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script, reply, scripted_upstream
from tools.fuzz.target import Broken

HANG_SECONDS = 20.0
"""On a machine busy with other things; the limits of the upstream are far below."""
QUIET_TURNS = 40
"""Turns of the event loop without any progress after which a client has had its answer."""


class Wire:
    """A gateway and its upstream on a loop of their own."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._stack = AsyncExitStack()
        self._errors = _Errors()
        self._run(self._begin())

    async def _begin(self) -> None:
        logging.getLogger().addHandler(self._errors)
        asyncio.get_running_loop().set_exception_handler(self._errors.from_loop)
        self.upstream = await self._stack.enter_async_context(scripted_upstream())
        config = config_for(
            self.upstream,
            upstream={"models": ["m"]},
            timeouts={"first_byte": 0.3, "idle": 0.3},
            aliases={"alias": "m"},
            server={"max_body_bytes": 4096},
        )
        self.gateway: Gateway = await self._stack.enter_async_context(
            running_gateway(config, tap=RememberingTap(samples=True))
        )

    def close(self) -> None:
        with self._runner:
            self._run(self._stack.aclose())
        logging.getLogger().removeHandler(self._errors)

    def _run(self, work: Awaitable[None]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(HANG_SECONDS):
                await work

        try:
            self._runner.run(bounded())
        except TimeoutError as exc:
            raise Broken("it hangs") from exc

    async def _settle(self) -> None:
        """Waits until every exchange that began has ended, checks the books and clears them."""
        stats, upstream = self.gateway.stats, self.gateway.plane.upstreams[0]
        while upstream.outstanding or self.gateway.server.server_state.connections:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0)
        ends, starts, asked = list(stats.ends), list(stats.starts), list(self.upstream.requests)
        for one in (stats.ends, stats.starts, self.upstream.requests, self.gateway.tap.offered):
            one.clear()
        self.gateway.tap.dropped.clear()
        self.gateway.tap.decisions.clear()
        errors = self._errors.take()
        if errors:
            raise Broken(f"logged: {errors}")
        if sum(end["was_started"] for end in ends) != len(starts):
            raise Broken(f"{len(starts)} exchanges were sent upstream, but these ended: {ends}")
        self._check(ends, asked)

    def _check(self, ends: list[dict[str, Any]], asked: list[ReceivedRequest]) -> None:
        raise NotImplementedError


class Requests(Wire):
    """From the client. The first byte says in how many pieces the rest is sent."""

    seeds = (
        b"\0GET /v1/models HTTP/1.1\r\nhost: h\r\n\r\n",
        b"\1POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 14\r\n\r\n" + b'{"model": "m"}',
        b"\2POST /v1/completions HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
        b"3;a=b\r\n{} \r\n0\r\nx-t: 1\r\n\r\n",
        b"\0POST /v1/x HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}GET /livez HTTP/1.1\r\nhost: h\r\n\r\n",
        b"\0POST /v1/x HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /",
        b"\3POST /v1/x HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}x",
        b"\0HEAD /v1/x HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET /v1/y HTTP/1.1\r\nhost: h\r\n\r\n",
        b"\0GET /v1/x HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n\r\nmore",
        b"\0POST /v1/x HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n{}",
        b"\0GET http://other\r\n\r\n",
        b"\0PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0GET http://other/v1/../x HTTP/1.1\r\nhost: h\r\nx-biasgate-audit: on\r\nx-vllm-priority: 1\r\n\r\n",
    )  # fmt: skip
    tokens = (
        b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"content-length: ",
        b"transfer-encoding: chunked\r\n", b"transfer-encoding: identity\r\n", b"connection: close\r\n",
        b"connection: keep-alive\r\n", b"connection: upgrade\r\n", b"upgrade: websocket\r\n",
        b"expect: 100-continue\r\n", b"x-biasgate-audit: on\r\n", b"x-request-id: \xe9\r\n", b"host: h\r\n",
        b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1", b"+2", b"0x10", b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0",
        b"/v1/", b"/v1", b"/livez", b"/..", b"%2e%2e", b"?", b"#", b"CONNECT ", b"OPTIONS * ", b"GET ",
        b"POST ", b"\xff", b"x" * 300, b"GET /v1/x HTTP/1.1\r\nhost: h\r\n\r\n", b"authorization: Bearer \r\n",
    )  # fmt: skip

    def check(self, data: bytes) -> None:
        self._run(self._drive(data[0] % 5 + 1 if data else 1, data[1:]))

    async def _drive(self, pieces: int, data: bytes) -> None:
        reader, writer = await self.gateway.connect()
        received = bytearray()
        reading = asyncio.create_task(_collect(reader, received))
        with contextlib.suppress(ConnectionError):
            for piece in _pieces(data, pieces):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        quiet, before = 0, -1
        while quiet < QUIET_TURNS and not reading.done():
            progress = len(received) + len(self.gateway.stats.ends) + len(self.upstream.requests)
            quiet, before = (quiet + 1 if progress == before else 0), progress
            await asyncio.sleep(0)
        writer.transport.abort()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await self._settle()

    def _check(self, ends: list[dict[str, Any]], asked: list[ReceivedRequest]) -> None:
        if len(asked) > sum(end["was_started"] for end in ends):
            raise Broken(f"the upstream was asked {len(asked)} times: {asked}")
        for one in asked:
            names = [name for name, _ in one.headers]
            if not one.target.startswith("/v1") or "transfer-encoding" in names:
                raise Broken(f"sent upstream: {one}")
            if any(names.count(name) > 1 for name in ("host", "content-length", "x-request-id")):
                raise Broken(f"sent upstream with a repeated header: {one}")
            if any(name.startswith("x-biasgate-") or name.encode() in PRIORITY for name in names):
                raise Broken(f"sent upstream with a header that is not the client's to set: {one}")


class Responses(Wire):
    """From the upstream. The first byte chooses the request, the second the pieces and whether the upstream closes."""

    seeds = tuple(
        bytes([kind, 2]) + one
        for kind, one in enumerate(
            (
                b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}',
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                b"9\r\ndata: a\n\n\r\n0\r\n\r\n",
                b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: a\n\n",
                b"HTTP/1.1 204 No Content\r\n\r\n",
                b"HTTP/1.1 010 Low\r\n\r\n",
                b"HTTP/1.1 199 Odd\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                b"HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n",
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
                b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\nx: y\r\n\r\n",
                b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\naHTTP/1.1 200 OK\r\n",
            )
        )
    )  # fmt: skip
    tokens = (
        b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b":", b"\0", b"content-length: ",
        b"transfer-encoding: chunked\r\n", b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.0", b"999", b"000", b"content-encoding: gzip\r\n",
        b"content-type: text/event-stream\r\n", b"connection: close\r\n", b"connection: x-a\r\n",
        b"x-request-id: 1\r\n", b"upgrade: h2c\r\n", b"trailer: x\r\n", b"ffffffffffffffff\r\n", b"-1", b"+2",
        b"\xff", b"x" * 300, b"3\r\nabc\r\n", b"set-cookie: a\r\n", b"data: ", b"\xc3",
    )  # fmt: skip

    HEADS = (
        b"POST /v1/chat/completions HTTP/1.1",
        b"POST /v1/messages HTTP/1.1",
        b"HEAD /v1/x HTTP/1.1",
        b"POST /v1/completions HTTP/1.0",
        b"GET /v1/x HTTP/1.1",
    )

    def check(self, data: bytes) -> None:
        kind, way, rest = (data + b"\0\0")[0], (data + b"\0\0")[1], data[2:]
        closes = way % 16 != 15  # an upstream that falls silent costs the whole idle limit
        self.upstream.default = self._said = _saying(list(_pieces(rest, way % 5 + 1)), closes=closes)
        self._is_silent = not rest
        self._run(self._drive(self.HEADS[kind % len(self.HEADS)]))
        self.upstream.default = reply()

    async def _drive(self, line: bytes) -> None:
        body = b"content-length: 15\r\n\r\n" + b'{"stream":true}' if line.startswith(b"POST") else b"\r\n"
        reader, writer = await self.gateway.connect()
        writer.write(line + b"\r\nhost: h\r\nconnection: close\r\n" + body)
        answer = b""
        with contextlib.suppress(ConnectionError):  # a body that ends with its connection is cut by a reset
            answer = await reader.read(-1)
        writer.close()
        self._is_whole = _read(answer, is_head=line.startswith(b"HEAD"))
        await self._settle()

    def _check(self, ends: list[dict[str, Any]], asked: list[ReceivedRequest]) -> None:
        if len(ends) != 1:
            raise Broken(f"one exchange ended {len(ends)} times: {ends}")
        if len(asked) > (2 if self._is_silent else 1):
            raise Broken(f"the upstream was asked {len(asked)} times")
        if ends[0]["outcome"] == "complete" and self._is_whole is False:
            raise Broken("counted complete, but the framing says that more should have come")


def _read(answer: bytes, *, is_head: bool) -> bool | None:
    """Whether an answer is whole, None when only its connection's end tells. Raises Broken when it is not HTTP."""
    reading = _Answer(is_head=is_head)
    try:
        reading.parser.feed_data(answer)
    except httptools.HttpParserUpgrade:
        return None
    except httptools.HttpParserError as exc:
        raise Broken(f"the client got what is no HTTP ({exc}): {answer!r}") from exc
    return reading.is_whole


class _Answer:
    """httptools callbacks that follow the final response."""

    def __init__(self, *, is_head: bool) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.is_whole: bool | None = False
        self._is_head = is_head
        self._is_framed = False

    def on_header(self, name: bytes, _value: bytes) -> None:
        self._is_framed |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        if self.parser.get_status_code() >= 200 and (self._is_head or not self._is_framed):
            self.is_whole = None

    def on_message_complete(self) -> None:
        if self.parser.get_status_code() >= 200:
            self.is_whole = True


def _saying(pieces: list[bytes], *, closes: bool) -> Script:
    async def script(_: ReceivedRequest, channel: Channel) -> None:
        for piece in pieces:
            await channel.send(piece)
            await asyncio.sleep(0)
        if closes:
            await channel.close()
        else:
            await channel.reader.read(1)
            await channel.close()

    return script


def _pieces(data: bytes, count: int) -> list[bytes]:
    size = len(data) // count + 1
    return [data[start : start + size] for start in range(0, len(data), size)]


async def _collect(reader: asyncio.StreamReader, into: bytearray) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            into += data


class _Errors(logging.Handler):
    """What was logged as an error, by anybody, and what escaped into the event loop."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._seen.append(self.format(record))

    def from_loop(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._seen.append(f"{context.get('message')}: {context.get('exception')!r}")

    def take(self) -> list[str]:
        seen, self._seen = self._seen, []
        return seen
