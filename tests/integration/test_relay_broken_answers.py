"""An upstream that gives no answer, or not all of one: ended once, as its fault, and told to the client as it is."""

import asyncio

import pytest

from tests.support.integration.failing import error, reset
from tests.support.integration.relaying import config_for, relaying, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script, raw, scripted_upstream


class TestBeforeTheResponse:
    @pytest.mark.parametrize(
        "script",
        [
            raw(b"nonsense\r\n\r\n"),
            raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
            raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc"),
            raw(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
            raw(b"HTTP/1.1 010 Low\r\n\r\n", then_close=True),
            raw(b"HTTP/1.1 199 Odd\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", then_close=True),
            raw(b"HTTP/1.1 200 OK\r\nContent-Len", then_close=True),
            raw(b"HTTP/1.1 200 OK\r\nA: " + b"x" * 300_000),
            raw(b"", then_close=True),
            reset,
        ],
        ids=[
            "garbage",
            "two-lengths",
            "length-and-chunks",
            "gzip-coding",
            "101",
            "no-such-status",
            "body-of-1xx",
            "half-head",
            "endless",
            "eof",
            "reset",
        ],
    )
    async def test_no_usable_response(self, script: Script) -> None:
        """An upstream that answers with nothing usable gives a 502, counted once, and the next request is served."""
        async with relaying(script) as run:
            answer, following = await run.http.get("/v1/x"), await run.http.get("/v1/x")

            assert error(answer) == (502, "upstream_error")
            assert answer.headers["x-biasgate-upstream"] == "up0"
            assert following.status_code == 200
            assert run.gateway.stats.outcomes == ["upstream_error", "complete"]
            assert run.gateway.stats.starts == ["up0", "up0"]

    async def test_refused_connection(self) -> None:
        """An upstream that refuses gives a 502, counts as down, and from then on a 503 says so."""
        async with scripted_upstream() as upstream:
            config = config_for(upstream)
        async with running_gateway(config) as gateway:
            gateway.plane.upstreams[0].mark_up()
            async with gateway.http() as http:
                answers = [await http.get("/v1/x") for _ in range(2)]

            assert [error(answer) for answer in answers] == [(502, "upstream_error"), (503, "no_upstream")]
            assert gateway.stats.outcomes == ["upstream_error", "rejected"]
            assert gateway.stats.starts == []
            assert "upstreams" in gateway.plane.ready()
            assert gateway.plane.ready()["upstreams"] != "ok"

    async def test_no_upstream_at_all(self) -> None:
        """A gateway without upstreams says so."""
        async with running_gateway(config_for()) as gateway, gateway.http() as http:
            assert error(await http.get("/v1/x")) == (503, "no_upstream")


class TestMidStream:
    async def test_http_1_0_client(self) -> None:
        """Where only the end of the connection ends a body, a cut-off body ends in a reset."""
        start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"

        async def die(_: ReceivedRequest, channel: Channel) -> None:
            await channel.send(start)
            await asyncio.sleep(0.05)
            channel.reset()

        async with scripted_upstream(die) as upstream, running_gateway(config_for(upstream)) as gateway:
            with pytest.raises(ConnectionResetError):
                await gateway.exchange(b"GET /v1/x HTTP/1.0\r\n\r\n")
