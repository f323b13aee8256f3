"""Every endpoint, streaming or not, ends exactly once and for the right reason, whoever ends it and whenever."""

import asyncio

import httpx
import msgspec
import pytest

from tests.support.integration.endings import ENDPOINTS, FAILURES, Failure, Moment, begun, body_of, waiting
from tests.support.integration.relaying import Gateway, config_for, eventually, running_gateway
from tests.support.integration.scripted_upstream import ScriptedUpstream, raw, scripted_upstream

ABORT_SECONDS = 2.0
"""Far above what is measured by python -m tools.bench.ends: a loaded machine must not fail the test."""
STREAMING = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


async def settled(gateway: Gateway, count: int) -> None:
    """Waits for so many ends, then for everything that could end something twice to be gone."""
    await gateway.ended(count)
    await eventually(lambda: not gateway.plane.upstreams[0].outstanding)
    await asyncio.sleep(0.25)  # two ticks of the clock that ends what takes too long


class TestClientLeaves:
    async def _leave(
        self, gateway: Gateway, upstream: ScriptedUpstream, path: str, moment: Moment, *, stream: bool, rudely: bool
    ) -> None:
        """Asks, reads as far as the moment says, leaves, and waits until the upstream knows."""
        body, asked = body_of(path, stream=stream), len(upstream.requests)
        upstream.closed.clear()
        reader, writer = await gateway.connect()
        writer.write(b"POST %b HTTP/1.1\r\nHost: g\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body))
        await eventually(lambda: len(upstream.requests) > asked)
        if last_read := begun(moment, stream=stream)[1]:
            await reader.readuntil(last_read)
        if rudely:
            writer.transport.abort()
        else:
            writer.close()
        await asyncio.wait_for(upstream.closed.wait(), ABORT_SECONDS)

    @STREAMING
    @pytest.mark.parametrize("moment", ["before", "during", "after"])
    async def test_upstream_is_hung_up_on(self, moment: Moment, stream: bool) -> None:
        """Before, in and after the first byte: the upstream's connection closes, one client_disconnected is counted."""
        script = waiting(moment, stream=stream)
        async with scripted_upstream(default=script) as upstream, running_gateway(config_for(upstream)) as gateway:
            for number, path in enumerate(ENDPOINTS):
                await self._leave(gateway, upstream, path, moment, stream=stream, rudely=number % 2 == 1)
            await settled(gateway, len(ENDPOINTS))

            assert gateway.stats.outcomes == ["client_disconnected"] * len(ENDPOINTS)
            assert [end["endpoint"] for end in gateway.stats.ends] == list(ENDPOINTS)
            assert [request.target for request in upstream.requests] == list(ENDPOINTS)

    @STREAMING
    async def test_between_the_last_byte_and_the_next_request(self, stream: bool) -> None:
        """A client that leaves when it has everything was served: complete, and nothing else."""
        whole = begun("after", stream=stream)[0] + (b"0\r\n\r\n" if stream else b"x" * 4964)
        script = raw(whole)
        async with scripted_upstream(default=script) as upstream, running_gateway(config_for(upstream)) as gateway:
            for path in ENDPOINTS:
                async with gateway.http() as http:
                    await http.post(path, content=body_of(path, stream=stream))
            await settled(gateway, len(ENDPOINTS))

            assert gateway.stats.outcomes == ["complete"] * len(ENDPOINTS)


class TestUpstreamFails:
    def _check(self, failure: Failure, answer: httpx.Response, path: str) -> None:
        """The client was told what happened: by a status, or by the last event of its stream."""
        assert b"[DONE]" not in answer.content
        if not failure.is_begun:
            found = answer.json()["error"]
            assert answer.status_code == (504 if failure.outcome == "timed_out" else 502)
            assert (found["code"], found["param"]) == (failure.code, failure.param)
            return
        event = answer.content.rpartition(b"\n\n")[0].rpartition(b"\n\n")[2]
        found = msgspec.json.decode(event.partition(b"data: ")[2])["error"]
        assert answer.status_code == 200
        if path == "/v1/messages":
            assert (event.startswith(b"event: error\n"), found["type"]) == (True, "api_error")
        else:
            assert (found["code"], found["param"]) == (failure.code, failure.param)

    @STREAMING
    @pytest.mark.parametrize("name", FAILURES)
    async def test_told_and_counted_once(self, name: str, stream: bool) -> None:
        """Each failure ends each exchange once, with its reason, and the client can tell it from a whole answer."""
        failure = FAILURES[name]
        async with scripted_upstream(default=failure.script[stream]) as upstream:
            config = config_for(upstream, timeouts=dict(failure.timeouts))
            async with running_gateway(config) as gateway, gateway.http() as http:

                async def ask(path: str) -> None:
                    posted = http.post(path, content=body_of(path, stream=stream))
                    if failure.is_begun and not stream:
                        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                            await posted
                    else:
                        self._check(failure, await posted, path)

                await asyncio.gather(*(ask(path) for path in ENDPOINTS))
                await settled(gateway, len(ENDPOINTS))

                assert gateway.stats.outcomes == [failure.outcome] * len(ENDPOINTS)
                assert sorted(end["endpoint"] for end in gateway.stats.ends) == sorted(ENDPOINTS)
                assert len(upstream.requests) == len(ENDPOINTS)
