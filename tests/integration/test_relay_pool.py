"""Connections to upstreams: kept, replaced when they went stale, never in the way of the next request."""

import asyncio
import socket
from collections import Counter
from functools import partial

import pytest

from tests.support.integration.endings import Moment, waiting
from tests.support.integration.failing import error, hang, reset
from tests.support.integration.relaying import config_for, eventually, relaying, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, raw, reply, scripted_upstream

MODEL_M = b'{"model": "m"}'


class TestStaleConnections:
    async def test_closed_while_idle(self) -> None:
        """A kept connection that the upstream closes under a request is replaced, unseen by the client."""
        async with scripted_upstream(reply(), reset, reply(b"second")) as upstream:
            async with running_gateway(config_for(upstream)) as gateway, gateway.http() as http:
                await http.get("/v1/x")
                answer = await http.post("/v1/x", content=b"body")

            assert answer.text == "second"
            assert [request.body for request in upstream.requests] == [b"", b"body", b"body"]
            assert gateway.stats.outcomes == ["complete"] * 2
            assert gateway.stats.starts == ["up0"] * 2

    async def test_only_once(self) -> None:
        """A second failure is the client's to know."""
        async with scripted_upstream(reply(), reset, reset) as upstream:
            async with running_gateway(config_for(upstream)) as gateway, gateway.http() as http:
                await http.get("/v1/x")
                answer = await http.get("/v1/x")

            assert error(answer) == (502, "upstream_error")
            assert len(upstream.requests) == 3

    async def test_not_after_a_byte(self) -> None:
        """Once a byte was answered the request is not repeated."""
        async with scripted_upstream(reply(), raw(b"H", then_close=True)) as upstream:
            async with running_gateway(config_for(upstream)) as gateway, gateway.http() as http:
                await http.get("/v1/x")
                answer = await http.get("/v1/x")

            assert error(answer) == (502, "upstream_error")
            assert len(upstream.requests) == 2

    async def test_idle_connections_are_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A connection that lies idle longer than its time is closed by us, before the upstream would."""
        monkeypatch.setattr("gateway.proxy.pool.IDLE_SECONDS", 0.05)
        async with relaying() as run:
            await run.http.get("/v1/x")
            async with asyncio.timeout(2):
                await run.upstream.closed.wait()
            await run.http.get("/v1/x")

            assert len({request.connection for request in run.upstream.requests}) == 2


class TestDeath:
    async def test_between_requests(self) -> None:
        """An upstream that dies while its connections lie idle costs no request: another one answers."""
        async with scripted_upstream() as other, scripted_upstream() as dying:
            config = config_for(dying, other, upstream={"models": ["m"]})
            async with running_gateway(config) as gateway, gateway.http() as http:
                before = [await http.post("/v1/x", content=MODEL_M) for _ in range(4)]
                dying.die()
                after = [await http.post("/v1/x", content=MODEL_M) for _ in range(4)]

                assert [answer.status_code for answer in before + after] == [200] * 8
                assert len(dying.requests) == 2
                assert not gateway.plane.upstreams[0].is_up

    async def test_under_a_request(self) -> None:
        """A request written to a kept connection of an upstream that is gone by then goes to another one."""
        async with scripted_upstream() as other, scripted_upstream() as dying:

            async def die(_: ReceivedRequest, channel: Channel) -> None:
                dying.die()

            dying.scripts = [reply(), die]
            config = config_for(dying, other, upstream={"models": ["m"]})
            async with running_gateway(config) as gateway, gateway.http() as http:
                answers = [await http.post("/v1/x", content=MODEL_M) for _ in range(6)]

                assert [answer.status_code for answer in answers] == [200] * 6
                assert len(dying.requests) == 2
                assert gateway.stats.outcomes == ["complete"] * 6
                assert sorted(gateway.stats.starts) == ["up0"] + ["up1"] * 5


class TestSmallPool:
    @pytest.mark.parametrize("moment", ["before", "after"])
    async def test_two_aborts_do_not_block_a_third_request(self, moment: Moment) -> None:
        """In a pool of two, two requests that are given up free both places at once, however often it happens."""
        async with scripted_upstream() as upstream:
            config = config_for(upstream, upstream={"max_connections": 2})

            def was_asked(times: int) -> bool:
                return len(upstream.requests) == times

            async with running_gateway(config) as gateway, gateway.http() as http:
                for turn in range(5):
                    upstream.scripts = [waiting(moment, stream=True)] * 2
                    pair = [await gateway.connect() for _ in range(2)]
                    for _, writer in pair:
                        writer.write(b"GET /v1/x HTTP/1.1\r\nHost: g\r\n\r\n")
                    await eventually(partial(was_asked, 3 * turn + 2))
                    for _, writer in pair:
                        writer.close()
                    third = await asyncio.wait_for(http.get("/v1/x"), 5)
                    assert third.status_code == 200

                await gateway.ended(15)
                assert Counter(gateway.stats.outcomes) == {"client_disconnected": 10, "complete": 5}


async def test_dead_peers_are_watched_for() -> None:
    """Connections to upstreams let the system find out that the other machine is gone."""
    async with relaying(hang) as run:
        asking = asyncio.create_task(run.http.get("/v1/x"))
        await eventually(lambda: run.upstream.requests)
        (connection,) = run.gateway.plane.upstreams[0].pool._open
        sock = connection.transport.get_extra_info("socket")

        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        asking.cancel()
