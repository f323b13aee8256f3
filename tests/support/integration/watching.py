"""Drives a relay with traffic, and says what it did and what the upstream itself would have answered."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httptools
import msgspec

from gateway.config.schema import Config
from gateway.proxy.headers import HOP_BY_HOP
from tests.support.integration.relaying import Gateway, RememberingTap, config_for, eventually, running_gateway
from tests.support.integration.scripted_upstream import Script, ScriptedUpstream, scripted_upstream

CHAT = b'{"model": "m", "messages": [{"role": "user", "content": "h\xc3\xa9"}]}'
ADDED = frozenset({"x-request-id", "x-biasgate-upstream"})
"""Response headers that the gateway sets."""

Drive = Callable[[Gateway], Awaitable[bytes]]


class Seen(NamedTuple):
    """What the relay did with one request."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    is_whole: bool
    asked: list[tuple[str, str, list[tuple[str, str]], bytes]]
    ends: list[dict[str, Any]]
    copies: list[tuple[Any, ...]]
    drops: list[tuple[str, str]]
    decisions: list[dict[str, Any]]


class Answer(NamedTuple):
    """A response without its framing: header names lower-case, sorted, `connection` left out."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    is_whole: bool
    """The framing says that the body is whole."""


def request(
    body: bytes = CHAT, *, method: str = "POST", target: str = "/v1/chat/completions", headers: bytes = b""
) -> bytes:
    """Request bytes with a fixed request id, after which the connection is to be closed."""
    length = b"content-length: %d\r\n" % len(body) if body or method == "POST" else b""
    return (
        f"{method} {target} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n".encode()
        + (b"" if b"x-request-id" in headers else b"x-request-id: r1\r\n")
        + headers
        + length
        + b"\r\n"
        + body
    )


def sending(data: bytes) -> Drive:
    """The request in one piece."""

    async def drive(gateway: Gateway) -> bytes:
        return await gateway.exchange(data)

    return drive


def cut_at(data: bytes, places: "range | list[int]") -> Drive:
    """The request in pieces that end at these offsets, in rising order."""

    async def drive(gateway: Gateway) -> bytes:
        reader, writer = await gateway.connect()
        for start, end in zip([0, *places], [*places, len(data)], strict=True):
            writer.write(data[start:end])
            await writer.drain()
            await asyncio.sleep(0)
        answer = await reader.read(-1)
        writer.close()
        return answer

    return drive


def split_answer(data: bytes, *, is_head: bool = False) -> Answer:
    """Takes a final response out of a closed connection's bytes."""
    status = 100
    while status < 200:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        status = int(first.split(" ")[1])
    headers = sorted((name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines))
    named = dict(headers)
    if named.get("transfer-encoding") == "chunked":
        body, is_whole = unchunk(data)
    elif is_head or status in (204, 304):
        body, is_whole = data, not data
    else:
        body, is_whole = data, len(data) == int(named.get("content-length", len(data)))
    return Answer(status, [pair for pair in headers if pair[0] != "connection"], body, is_whole)


def unchunk(data: bytes) -> tuple[bytes, bool]:
    """(body, whether its end is there). Fails on what is no plain chunk: extensions, trailers, bytes behind the end."""
    parts: list[bytes] = []
    while True:
        size, found, data = data.partition(b"\r\n")
        if not found:
            return b"".join(parts), False
        length = int(size, 16)
        if length == 0:
            assert b"\r\n".startswith(data), f"behind the last chunk: {data!r}"
            return b"".join(parts), bool(data == b"\r\n")
        parts.append(data[:length])
        end, data = data[length : length + 2], data[length + 2 :]
        assert b"\r\n".startswith(end), f"behind a chunk of {length} bytes: {end!r}"


async def observe(gateway: Gateway, upstream: ScriptedUpstream, drive: Drive, *, is_head: bool = False) -> Seen:
    """What a relay does with one request, counted from now."""
    await eventually(lambda: gateway.plane.upstreams[0].models)
    for one in (upstream.requests, gateway.stats.ends, gateway.tap.offered, gateway.tap.dropped, gateway.tap.decisions):
        one.clear()
    status, headers, body, is_whole = split_answer(await drive(gateway), is_head=is_head)
    await gateway.ended()
    if gateway.stats.outcomes != ["complete"]:
        body = re.sub(rb'"message":"(?:[^"\\]|\\.)*"', b'"message":"..."', body)
        headers = [pair for pair in headers if pair[0] != "content-length"]
    return Seen(
        status,
        headers,
        body,
        is_whole,
        [(one.method, one.target, sorted(one.headers), one.body) for one in upstream.requests],
        [_comparable(end) for end in gateway.stats.ends],
        [_copied(exchange) for exchange in gateway.tap.offered],
        list(gateway.tap.dropped),
        [{name: said for name, said in one.items() if name != "exchange_id"} for one in gateway.tap.decisions],
    )


def _comparable(end: dict[str, Any]) -> dict[str, Any]:
    """Everything but how long it took."""
    kept = {name: end[name] for name in ("upstream", "model", "endpoint", "outcome", "was_started", "request_id")}
    return kept | {"has_first_chunk": end["first_chunk_seconds"] is not None}


def _copied(exchange: Any) -> tuple[Any, ...]:
    plain = msgspec.structs.asdict(exchange)
    return tuple(
        plain[name] for name in sorted(plain) if name not in ("id", "received_at", "seconds", "first_chunk_seconds")
    )


class Watched:
    """A relay in front of one upstream, for many exchanges."""

    def __init__(self, upstream: ScriptedUpstream, gateway: Gateway) -> None:
        self.upstream = upstream
        self.gateway = gateway

    async def drive(self, script: Script, drive: Drive, *, is_head: bool = False) -> Seen:
        """Drives the relay, and returns what it did."""
        self.upstream.default = script
        return await observe(self.gateway, self.upstream, drive, is_head=is_head)

    async def direct(self, script: Script, data: bytes) -> Answer:
        """What a client gets that asks the upstream itself, as far as the gateway is to pass it on."""
        self.upstream.default = script
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream.port)
        writer.write(data)
        answer = _Whole()
        while not answer.is_whole and (piece := await reader.read(65536)):
            answer.parser.feed_data(piece)
        writer.close()
        return Answer(answer.parser.get_status_code(), sorted(answer.headers), answer.body, answer.is_whole)


def passed_on(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers of a response that are the upstream's own and cross the gateway."""
    nominated = {name.strip().lower() for key, value in headers if key == "connection" for name in value.split(",")}
    kept = (pair for pair in headers if pair[0].encode() not in HOP_BY_HOP and pair[0] not in ADDED | nominated)
    return sorted(kept)


class _Whole:
    """httptools callbacks that collect one final response, without 1xx and trailers."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self.is_whole = False
        self._has_head = False

    def on_message_begin(self) -> None:
        self.headers.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:
            self.headers.append((name.decode().lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self._has_head = self.parser.get_status_code() >= 200

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.is_whole = self._has_head


@asynccontextmanager
async def watched_relay(config: Config, upstream: ScriptedUpstream) -> AsyncIterator[Watched]:
    """A relay with a tap that samples whatever is eligible."""
    async with running_gateway(config, tap=RememberingTap(samples=True)) as gateway:
        yield Watched(upstream, gateway)


async def watch(script: Script, drive: Drive, **sections: Any) -> Seen:
    """Drives a relay once, and returns what it did."""
    async with (
        scripted_upstream(default=script) as upstream,
        watched_relay(config_for(upstream, **sections), upstream) as relay,
    ):
        return await relay.drive(script, drive)
