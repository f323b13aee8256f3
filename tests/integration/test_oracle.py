"""What the slow oracle does by itself; test_differential.py compares the rest with the fast relay."""

import asyncio

import msgspec
import pytest

from gateway.config.schema import Config
from tests.support.integration.oracle_relaying import running_oracle
from tests.support.integration.relaying import RememberingTap, believe_up, config_for
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, reply, scripted_upstream
from tests.support.waiting import eventually

CHAT = b'{"model": "m", "messages": []}'
COMPLETIONS = "/v1/chat/completions"


def knowing_models(config: Config) -> Config:
    """Both upstreams are said to serve the model, so that nothing depends on asking them first."""
    return msgspec.structs.replace(
        config, upstreams=[msgspec.structs.replace(one, models=["m"]) for one in config.upstreams]
    )


async def test_another_upstream_answers_when_one_takes_no_connection() -> None:
    """An upstream that refuses is marked down and the request goes to the next one."""
    async with scripted_upstream() as gone:
        pass
    async with scripted_upstream(default=reply(b"second")) as upstream:
        config = knowing_models(config_for(gone, upstream))
        async with running_oracle(config, tap=RememberingTap()) as gateway, gateway.http() as http:
            believe_up(gateway.plane.upstreams[0])
            answers = [await http.post(COMPLETIONS, content=CHAT) for _ in range(2)]

            assert [answer.content for answer in answers] == [b"second", b"second"]
            assert answers[0].headers["x-biasgate-upstream"] == "up1"
            assert not gateway.plane.upstreams[0].is_up
            # the oracle counts the end of an exchange after the client has the answer
            await eventually(lambda: [upstream.outstanding for upstream in gateway.plane.upstreams] == [0, 0])


async def test_no_upstream_is_up() -> None:
    """Nobody there is a 503 in the OpenAI shape, with a time to come back."""
    async with scripted_upstream() as upstream:
        config = knowing_models(config_for(upstream))
        async with running_oracle(config, tap=RememberingTap()) as gateway, gateway.http() as http:
            upstream.is_healthy = False  # nor will a check bring it back
            gateway.plane.upstreams[0].mark_down("test")
            answer = await http.post(COMPLETIONS, content=CHAT)

            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "no_upstream"
            assert answer.headers["retry-after"] == "2"
            assert gateway.stats.ends[0]["upstream"] == "none"


async def test_paths_outside_v1_go_to_the_app() -> None:
    """Anything that the fast relay would not take is answered by the app beside the oracle."""
    async with (
        scripted_upstream() as upstream,
        running_oracle(config_for(upstream), tap=RememberingTap()) as gateway,
        gateway.http() as http,
    ):
        assert (await http.post("/v11/x", content=b"abc")).text == "app /v11/x 3"
        assert upstream.requests == []


async def test_total_time_is_limited() -> None:
    """A stream that goes on for ever is ended after the total limit, in words."""

    async def endless(_: ReceivedRequest, channel: Channel) -> None:
        await channel.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await channel.send(b"9\r\ndata: a\n\n\r\n")
            await asyncio.sleep(0.02)

    async with scripted_upstream(default=endless) as upstream:
        config = knowing_models(config_for(upstream, timeouts={"total": 0.3}))
        async with running_oracle(config, tap=RememberingTap()) as gateway, gateway.http() as http:
            answer = await http.post(COMPLETIONS, content=CHAT)

            assert "did not finish within 0.3 s" in answer.text
            assert gateway.stats.outcomes == ["timed_out"]


async def test_many_at_once() -> None:
    """Concurrent exchanges do not mix up their answers, and nothing is left outstanding."""

    async def echo(received: ReceivedRequest, channel: Channel) -> None:
        await asyncio.sleep(0.01)
        await reply(received.body)(received, channel)

    async with scripted_upstream(default=echo) as upstream:
        config = knowing_models(config_for(upstream))
        async with running_oracle(config, tap=RememberingTap()) as gateway, gateway.http() as http:
            bodies = [b'{"model": "m", "n": %d}' % number for number in range(30)]
            answers = await asyncio.gather(*(http.post(COMPLETIONS, content=body) for body in bodies))

            assert [answer.content for answer in answers] == bodies
            assert gateway.plane.upstreams[0].outstanding == 0


@pytest.mark.parametrize("status", ["404 Not Found", "200 OK"])
async def test_only_a_good_answer_is_copied(status: str) -> None:
    """The copy of a sampled exchange is handed over for a 200, and counted as filtered otherwise."""
    async with scripted_upstream(default=reply(b"{}", status)) as upstream:
        config, tap = knowing_models(config_for(upstream)), RememberingTap(samples=True)
        async with running_oracle(config, tap=tap) as gateway, gateway.http() as http:
            await http.post(COMPLETIONS, content=CHAT)
            await gateway.ended()

    assert [exchange.response_body for exchange in tap.offered] == ([b"{}"] if status == "200 OK" else [])
    assert tap.dropped == ([] if status == "200 OK" else [("other", "filtered")])
