"""Upstreams that fail are left out, others answer in their place, and what comes back comes back slowly."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from gateway.config.loading import validate
from gateway.config.schema import Config
from tests.support.integration.failing import black_hole, error, hang, reset
from tests.support.integration.relaying import believe_up, config_for, eventually, running_gateway
from tests.support.integration.scripted_upstream import ScriptedUpstream, raw, reply, scripted_upstream
from tests.support.processes import free_port

CHAT = b'{"model": "m", "messages": []}'
PATH = "/v1/chat/completions"


def serving_m(*upstreams: ScriptedUpstream, **sections: Any) -> Config:
    """Every upstream is known to serve m."""
    return config_for(*upstreams, upstream={"models": ["m"], **sections})


async def ask(http: httpx.AsyncClient, times: int) -> list[httpx.Response]:
    return [await http.post(PATH, content=CHAT) for _ in range(times)]


def answered_by(answers: list[httpx.Response]) -> Counter[str]:
    return Counter(answer.headers["x-biasgate-upstream"] for answer in answers)


BAD_ANSWERS = {
    "reset": (reset, 502),
    "garbage": (raw(b"nonsense\r\n\r\n"), 502),
    "503": (reply(b"{}", "503 Service Unavailable"), 503),
    "silence": (hang, 504),
}


class TestEjection:
    @pytest.mark.parametrize("kind", BAD_ANSWERS)
    async def test_after_failures_in_a_row(self, kind: str) -> None:
        """An upstream whose health check passes and whose requests fail is left out after so many in a row."""
        script, status = BAD_ANSWERS[kind]
        async with scripted_upstream(default=script) as bad, scripted_upstream() as good:
            ejection = {"consecutive_failures": 3, "base_seconds": 30}
            shared = {"models": ["m"], "ejection": ejection}
            impatient = {"first_byte": 1.0} if kind == "silence" else {}
            listed = [
                {"name": "bad", "base_url": bad.base_url, "timeouts": impatient, **shared},
                {"name": "good", "base_url": good.base_url, **shared},
            ]
            async with running_gateway(validate({"upstreams": listed})) as gateway, gateway.http() as http:
                answers = await ask(http, 20)

                assert [answer.status_code for answer in answers].count(status) == len(bad.requests) == 3
                assert gateway.plane.upstreams[0].outliers.is_ejected
                assert gateway.plane.upstreams[0].is_up

    async def test_ejection_never_makes_a_503(self) -> None:
        """When every upstream is ejected they are asked all the same."""
        async with scripted_upstream(default=reset) as only:
            async with running_gateway(serving_m(only)) as gateway, gateway.http() as http:
                answers = await ask(http, 8)

            assert {error(answer) for answer in answers} == {(502, "upstream_error")}
            assert len(only.requests) == 8


class TestDead:
    async def test_refusing(self) -> None:
        """A request that no byte was sent of goes to another upstream at once."""
        async with scripted_upstream() as alive:
            dead = {"name": "dead", "base_url": f"http://127.0.0.1:{free_port()}", "models": ["m"]}
            listed = [dead, {"name": "alive", "base_url": alive.base_url, "models": ["m"]}]
            async with running_gateway(validate({"upstreams": listed})) as gateway, gateway.http() as http:
                believe_up(gateway.plane.upstreams[0])
                answers = await ask(http, 10)

                assert answered_by(answers) == {"alive": 10}
                assert not gateway.plane.upstreams[0].is_up
                assert gateway.stats.outcomes == ["complete"] * 10

    async def test_black_holed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What waits for a connection that is long in coming goes elsewhere before its limit, and no more comes."""
        monkeypatch.setattr("gateway.proxy.pool.SLOW_CONNECT_SECONDS", 0.2)
        async with scripted_upstream() as alive:
            with black_hole() as url:
                hole = {"name": "hole", "base_url": url, "models": ["m"], "timeouts": {"connect": 50}}
                hole["ejection"] = {"base_seconds": 30}
                listed = [hole, {"name": "alive", "base_url": alive.base_url, "models": ["m"]}]
                async with running_gateway(validate({"upstreams": listed})) as gateway, gateway.http() as http:
                    believe_up(gateway.plane.upstreams[0])
                    at_once = await asyncio.gather(*(http.post(PATH, content=CHAT) for _ in range(10)))

                    assert answered_by(at_once) == {"alive": 10}
                    assert gateway.plane.upstreams[0].outliers.is_ejected
                    assert answered_by(await ask(http, 3)) == {"alive": 3}
                    assert [upstream.outstanding for upstream in gateway.plane.upstreams] == [0, 0]

    async def test_going_down_lets_waiters_leave(self) -> None:
        """When a health check finds an upstream down, what waits for a connection there goes elsewhere."""
        async with scripted_upstream(default=hang) as busy, scripted_upstream() as free:
            config = serving_m(busy, free, max_connections=1)
            async with running_gateway(config) as gateway, gateway.http() as http:
                first, second = gateway.plane.upstreams
                second.outstanding = 10
                head = b"POST %b HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % (PATH.encode(), len(CHAT))
                (_, holding), (reader, waiting) = [await gateway.connect() for _ in range(2)]
                for writer in (holding, waiting):
                    writer.write(head + CHAT)
                await eventually(lambda: first.outstanding == 2 and busy.requests)
                second.outstanding = 0
                busy.is_healthy = False
                first.mark_down("test")
                answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)

                assert b"x-biasgate-upstream: up1" in answer
                assert len(busy.requests) == 1
                assert answered_by(await ask(http, 1)) == {"up1": 1}
                for writer in (holding, waiting):
                    writer.close()
                await gateway.ended(3)
