"""All request bodies that a worker holds together are bounded, and nobody who sends slowly keeps the others out."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.integration.failing import hang_after
from tests.support.integration.relaying import Gateway, config_for, eventually, running_gateway
from tests.support.integration.scripted_upstream import scripted_upstream

LIMIT = 1_000_000
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n"
CHAT = b'{"model": "m", "messages": [], "x": "%b"}'


@asynccontextmanager
async def gateway_with_little_room() -> AsyncIterator[Gateway]:
    async with scripted_upstream() as upstream:
        config = config_for(upstream, server={"max_buffered_bytes": LIMIT})
        async with running_gateway(config) as gateway:
            yield gateway


async def begun(gateway: Gateway, size: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has sent so many bytes of a body, and leaves it at that."""
    reader, writer = await gateway.connect()
    before, n_ended = gateway.plane.bodies.held, len(gateway.stats.ends)
    writer.write(HEAD % 10_000_000 + b"a" * size)
    await eventually(lambda: gateway.plane.bodies.held >= before + size or len(gateway.stats.ends) > n_ended)
    return reader, writer


async def test_the_largest_that_is_still_coming_is_given_up() -> None:
    """Beyond the limit the client that holds most is refused with 503 and the time to wait; the others are served."""
    async with gateway_with_little_room() as gateway, gateway.http() as http:
        largest, one = await begun(gateway, 600_000)
        _, other = await begun(gateway, 300_000)
        answer = await http.post("/v1/chat/completions", content=CHAT % (b"a" * 200_000))
        refused = await largest.read(-1)
        head, _, body = refused.partition(b"\r\n\r\n")
        for writer in (one, other):
            writer.close()

        assert answer.status_code == 200
        assert head.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in head
        assert json.loads(body)["error"]["code"] == "overloaded"


async def test_every_way_to_end_frees_what_was_held() -> None:
    """Answered, refused, given up or gone: no bytes stay on the account."""
    async with gateway_with_little_room() as gateway, gateway.http() as http:
        await http.post("/v1/chat/completions", content=CHAT % b"")
        await http.post("/v1/chat/completions", content=b"no json")
        _, gone = await begun(gateway, 700_000)
        _, refused = await begun(gateway, 600_000)
        gone.close()
        refused.close()
        await gateway.ended(4)
        await http.post("/v1/chat/completions", content=CHAT % (b"a" * 100_000))

        assert gateway.plane.bodies.held == 0
        assert set(gateway.stats.outcomes) == {"complete", "rejected", "client_disconnected"}


async def test_a_body_that_came_at_once_is_refused_where_no_other_can_be_given_up() -> None:
    """Complete bodies whose answers have not begun are kept; one more that finds no room is told so."""
    async with scripted_upstream(default=hang_after(b"")) as upstream:
        config = config_for(upstream, server={"max_buffered_bytes": 50_000})
        async with running_gateway(config) as gateway, gateway.http() as http:
            waiting = asyncio.create_task(http.post("/v1/chat/completions", content=CHAT % (b"a" * 40_000)))
            await eventually(lambda: gateway.plane.bodies.held > 40_000)
            answer = await http.post("/v1/chat/completions", content=CHAT % (b"a" * 20_000))
            is_waiting = not waiting.done()
            waiting.cancel()

            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            assert is_waiting


async def test_a_large_body_is_let_go_when_its_answer_begins() -> None:
    """A long answer holds no picture of its question."""
    stream = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n6\r\ndata: \r\n"
    async with (
        scripted_upstream(default=hang_after(stream)) as upstream,
        running_gateway(config_for(upstream)) as gateway,
    ):
        body = CHAT % (b"a" * 500_000)
        reader, writer = await gateway.connect()
        writer.write(HEAD % len(body) + body)
        await reader.readuntil(b"data: ")

        assert gateway.plane.live == 1
        assert gateway.plane.bodies.held == 0
        writer.close()
