"""An upstream that gives no answer, or not all of one: ended once, as its fault, and told to the client as it is."""

import asyncio

import httpx
import msgspec
import pytest

from gateway.config.loading import validate
from tests.support.integration.failing import EVENT, STREAM_START, error, only_end, reset, unused_port
from tests.support.integration.relaying import believe_up, config_for, running_gateway
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
            "half-head",
            "endless",
            "eof",
            "reset",
        ],
    )
    async def test_no_usable_response(self, script: Script) -> None:
        """An upstream that answers with nothing usable gives a 502, counted once, and the next request is served."""
        async with scripted_upstream(script) as upstream, running_gateway(config_for(upstream)) as gateway:
            async with gateway.http() as http:
                answer, following = await http.get("/v1/x"), await http.get("/v1/x")

            assert error(answer) == (502, "upstream_error")
            assert answer.headers["x-biasgate-upstream"] == "up0"
            assert following.status_code == 200
            assert gateway.stats.outcomes == ["upstream_error", "complete"]
            assert gateway.stats.starts == ["up0", "up0"]

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

    async def test_failover(self) -> None:
        """A request that no byte was sent of goes to another upstream instead."""
        async with scripted_upstream() as alive:
            dead = {"name": "dead", "base_url": f"http://127.0.0.1:{unused_port()}", "models": ["m"]}
            listed = [dead, {"name": "alive", "base_url": alive.base_url, "models": ["m"]}]
            async with running_gateway(validate({"upstreams": listed})) as gateway:
                dead_one, alive_one = gateway.plane.upstreams
                believe_up(dead_one)
                alive_one.outstanding = 5
                async with gateway.http() as http:
                    answer = await http.post("/v1/chat/completions", content=b'{"model": "m"}')

                assert not dead_one.is_up
                assert answer.headers["x-biasgate-upstream"] == "alive"
                assert only_end(gateway) == ("complete", "alive", True)
                assert [upstream.outstanding for upstream in gateway.plane.upstreams] == [0, 5]

    async def test_no_upstream_at_all(self) -> None:
        """A gateway without upstreams says so."""
        async with running_gateway(config_for()) as gateway, gateway.http() as http:
            assert error(await http.get("/v1/x")) == (503, "no_upstream")


class TestMidStream:
    @pytest.mark.parametrize("end", ["eof", "reset", "garbage"])
    async def test_event_stream(self, end: str) -> None:
        """A stream whose upstream dies ends in an error event, never in an invented [DONE], and the client stays."""

        async def die(_: ReceivedRequest, channel: Channel) -> None:
            await channel.send(STREAM_START)
            await asyncio.sleep(0.05)
            if end == "garbage":
                await channel.send(b"no chunk\r\n")
            elif end == "reset":
                channel.reset()
            else:
                await channel.close()

        async with scripted_upstream(die) as upstream, running_gateway(config_for(upstream)) as gateway:
            async with gateway.http() as http:
                answer = await http.post("/v1/chat/completions", content=b'{"stream": true}')
                following = await http.get("/v1/x")

            event, rest = answer.content[: len(EVENT)], answer.content[len(EVENT) :]
            assert event == EVENT
            assert rest.startswith(b"\n\ndata: ")
            assert rest.endswith(b"\n\n")
            assert msgspec.json.decode(rest.strip().removeprefix(b"data: "))["error"]["code"] == "upstream_error"
            assert b"[DONE]" not in answer.content
            assert following.status_code == 200
            assert gateway.stats.outcomes == ["upstream_error", "complete"]

    async def test_anthropic_stream(self) -> None:
        """On /v1/messages the event has the shape that Anthropic's clients know."""
        async with scripted_upstream(raw(STREAM_START, then_close=True)) as upstream:
            async with running_gateway(config_for(upstream)) as gateway, gateway.http() as http:
                answer = await http.post("/v1/messages", content=b'{"stream": true}')

            name, data = answer.content.removeprefix(EVENT).strip().split(b"\n")
            assert name == b"event: error"
            assert msgspec.json.decode(data.removeprefix(b"data: "))["error"]["type"] == "api_error"

    @pytest.mark.parametrize(
        "start",
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 10\r\n\r\nabc",
        ],
        ids=["length", "chunked", "event-stream-with-length"],
    )
    async def test_other_bodies(self, start: bytes) -> None:
        """A body that is no open stream is cut off, so that the client sees it is not whole."""
        async with scripted_upstream(raw(start, then_close=True)) as upstream:
            async with running_gateway(config_for(upstream)) as gateway, gateway.http() as http:
                with pytest.raises(httpx.RemoteProtocolError):
                    await http.get("/v1/x")

            assert only_end(gateway) == ("upstream_error", "up0", True)

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
