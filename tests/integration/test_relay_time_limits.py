"""Four limits on how long an upstream may take, each with its own end; and one on the client."""

import asyncio

import msgspec
import pytest

from gateway.config.loading import validate
from tests.support.integration.failing import EVENT, STREAM_HEAD, STREAM_START, black_hole, hang, hang_after, only_end
from tests.support.integration.relaying import config_for, eventually, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script, scripted_upstream

PIECE = b"1\r\nx\r\n"


async def endless(_: ReceivedRequest, channel: Channel) -> None:
    """A stream that never falls silent."""
    await channel.send(STREAM_START)
    while True:
        await channel.send(PIECE)
        await asyncio.sleep(0.02)


def limit_of(error: bytes) -> tuple[str, str]:
    """Code and param of an error in OpenAI's shape."""
    found = msgspec.json.decode(error)["error"]
    return found["code"], found["param"]


class TestBeforeTheHead:
    @pytest.mark.parametrize("limit", ["first_byte", "total"])
    async def test_no_answer(self, limit: str) -> None:
        """An upstream that does not answer in time gives a 504 that names the limit, and is hung up on."""
        async with scripted_upstream(hang) as upstream:
            async with running_gateway(config_for(upstream, timeouts={limit: 0.1})) as gateway, gateway.http() as http:
                answer = await http.get("/v1/x")
                await asyncio.wait_for(upstream.closed.wait(), 5)

            assert answer.status_code == 504
            assert limit_of(answer.content) == ("upstream_timeout", f"timeouts.{limit}")
            assert only_end(gateway) == ("timed_out", "up0", True)

    async def test_connect(self) -> None:
        """An upstream that does not take the connection in time gives a 504 that says so, and counts as down."""
        with black_hole() as url:
            listed = [{"name": "full", "base_url": url, "timeouts": {"connect": 0.1}}]
            async with running_gateway(validate({"upstreams": listed})) as gateway, gateway.http() as http:
                answer = await http.get("/v1/x")

                assert answer.status_code == 504
                assert limit_of(answer.content) == ("upstream_timeout", "timeouts.connect")
                assert only_end(gateway) == ("timed_out", "full", False)
                assert not gateway.plane.upstreams[0].is_up

    async def test_no_connection_free(self) -> None:
        """A request that waits for a busy pool waits for first_byte at most, and is told what it waited for."""
        async with scripted_upstream(hang_after(STREAM_START)) as upstream:
            config = config_for(upstream, upstream={"max_connections": 1}, timeouts={"first_byte": 1.0})
            async with running_gateway(config) as gateway, gateway.http() as http, http.stream("GET", "/v1/x") as busy:
                assert busy.status_code == 200
                answer = await http.get("/v1/x")

            assert limit_of(answer.content) == ("upstream_timeout", "timeouts.first_byte")
            assert "no connection free" in answer.text
            assert (len(upstream.requests), gateway.stats.starts) == (1, ["up0"])


class TestStreams:
    @pytest.mark.parametrize(
        ("limit", "script"), [("idle", hang_after(STREAM_START)), ("total", endless)], ids=["no next token", "no end"]
    )
    async def test_error_event(self, limit: str, script: Script) -> None:
        """A stream that stalls or never ends gets an error event that names the limit, and the upstream is left."""
        async with scripted_upstream(script) as upstream:
            async with running_gateway(config_for(upstream, timeouts={limit: 0.5})) as gateway, gateway.http() as http:
                answer = await http.get("/v1/x")
                await asyncio.wait_for(upstream.closed.wait(), 5)

            assert answer.status_code == 200
            assert limit_of(answer.content.rpartition(b"data: ")[2]) == ("upstream_timeout", f"timeouts.{limit}")
            assert b"[DONE]" not in answer.content
            assert only_end(gateway) == ("timed_out", "up0", True)

    async def test_the_first_token_may_take_longer_than_the_next(self) -> None:
        """The wait in the upstream's queue, behind headers that came at once, is not silence between tokens."""

        async def queued(_: ReceivedRequest, channel: Channel) -> None:
            await channel.send(STREAM_HEAD)
            await asyncio.sleep(0.6)
            await channel.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(EVENT), EVENT))

        async with scripted_upstream(queued) as upstream:
            async with running_gateway(config_for(upstream, timeouts={"idle": 0.2})) as gateway, gateway.http() as http:
                answer = await http.get("/v1/x")

            assert answer.content == EVENT
            assert gateway.stats.outcomes == ["complete"]


async def test_a_client_that_does_not_read_is_not_the_upstreams_silence() -> None:
    """While the client takes nothing, idle does not run: its own slowness must not end its stream."""
    chunk = b"%x\r\n%b\r\n" % (1 << 20, b"~" * (1 << 20))

    async def pour(_: ReceivedRequest, channel: Channel) -> None:
        await channel.send(STREAM_START)
        for _turn in range(40):
            await channel.send(chunk)
        await channel.send(b"0\r\n\r\n")

    async with scripted_upstream(pour) as upstream:
        async with running_gateway(config_for(upstream, timeouts={"idle": 0.2})) as gateway:
            reader, writer = await gateway.connect()
            writer.write(b"GET /v1/x HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n")
            await eventually(lambda: upstream.requests)
            await asyncio.sleep(1.0)
            received = len(await reader.read(-1))
            writer.close()

        assert received > 40 << 20
        assert gateway.stats.outcomes == ["complete"]
