"""A client that leaves outside of an answer is noticed, counted once, and frees what it held or waited for."""

import asyncio
from functools import partial

from tests.support.integration.failing import hang, only_end
from tests.support.integration.relaying import config_for, eventually, running_gateway
from tests.support.integration.scripted_upstream import scripted_upstream


async def test_while_uploading() -> None:
    """A client that leaves in the middle of its request is counted, and no upstream hears of it."""
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        _, writer = await gateway.connect()
        writer.write(b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 9\r\n\r\nabc")
        await eventually(lambda: gateway.plane._live)
        writer.close()
        await gateway.ended()

        assert only_end(gateway) == ("client_disconnected", "none", False)
        assert upstream.requests == []


async def test_while_waiting_for_a_connection() -> None:
    """A client that leaves the queue leaves its place to the next."""
    async with scripted_upstream(hang) as upstream:
        async with running_gateway(config_for(upstream, upstream={"max_connections": 1})) as gateway:
            writers = []

            def is_asked_for(times: int) -> bool:
                return gateway.plane.upstreams[0].outstanding == times

            for number in (1, 2):
                _, writer = await gateway.connect()
                writer.write(b"GET /v1/x HTTP/1.1\r\nHost: g\r\n\r\n")
                writers.append(writer)
                await eventually(partial(is_asked_for, number))
            writers[1].close()
            await gateway.ended(1)
            writers[0].close()
            await gateway.ended(2)
            async with gateway.http() as http:
                answer = await http.get("/v1/x")

        assert answer.status_code == 200
        assert gateway.stats.outcomes == ["client_disconnected", "client_disconnected", "complete"]
        assert len(upstream.requests) == 2


async def test_with_a_pipeline() -> None:
    """A client that has more requests waiting is missed as soon as one that has none, and each is counted once."""
    async with scripted_upstream(hang) as upstream, running_gateway(config_for(upstream)) as gateway:
        _, writer = await gateway.connect()
        writer.write(b"GET /v1/x HTTP/1.1\r\nHost: g\r\n\r\n" * 3)
        await eventually(lambda: upstream.requests)
        writer.close()
        await asyncio.wait_for(upstream.closed.wait(), 2)
        await gateway.ended(3)

        assert gateway.stats.outcomes == ["client_disconnected"] * 3
        assert len(upstream.requests) == 1


async def test_with_a_long_pipeline() -> None:
    """Beyond some requests in waiting we stop reading; what was read is still counted once when the wait is over."""
    async with (
        scripted_upstream(hang) as upstream,
        running_gateway(config_for(upstream, timeouts={"total": 0.5})) as gateway,
    ):
        _, writer = await gateway.connect()
        writer.write(b"GET /v1/x HTTP/1.1\r\nHost: g\r\n\r\n" * 20)
        await eventually(lambda: upstream.requests)
        writer.transport.abort()
        await gateway.ended(20)
        await eventually(lambda: not gateway.plane._live)

        assert len(gateway.stats.ends) == 20
        assert set(gateway.stats.outcomes) <= {"timed_out", "client_disconnected", "complete"}
