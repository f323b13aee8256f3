"""The gateway knows which upstreams are up and what they serve."""

import gzip
import tracemalloc

import pytest

from gateway.config.loading import validate
from tests.support.integration.failing import drips, hang
from tests.support.integration.relaying import config_for, eventually, relaying, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, reply, scripted_upstream


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks follow each other quickly."""
    monkeypatch.setattr("gateway.proxy.health.INTERVAL_SECONDS", 0.02)
    monkeypatch.setattr("gateway.proxy.health.DOWN_INTERVAL_SECONDS", 0.02)


async def test_down_and_up_again(caplog: pytest.LogCaptureFixture) -> None:
    """An upstream that fails its check gets no requests until it passes; the operator is told its address."""
    async with relaying() as run:
        up = run.gateway.plane.upstreams[0]
        assert run.gateway.plane.ready() == {"upstreams": "ok"}
        run.upstream.is_healthy = False
        await eventually(lambda: not up.is_up)
        refused = await run.http.get("/v1/x")
        reason = f"up0 ({run.upstream.base_url}) answers its health check with 503"
        assert run.gateway.plane.ready() == {"upstreams": f"none is up: {reason}"}
        run.upstream.is_healthy = True
        await eventually(lambda: up.is_up)
        served = await run.http.get("/v1/x")

    assert (refused.status_code, refused.headers["retry-after"], served.status_code) == (503, "2", 200)
    assert f"upstream up0 ({run.upstream.base_url}) is down: " in caplog.text
    assert str(run.upstream.port) not in refused.text


async def test_a_busy_upstream_is_not_turned_away_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lives and does not answer its health checks for long stays ready, and is still asked."""
    monkeypatch.setattr("gateway.proxy.health.TIMEOUT_SECONDS", 0.02)
    async with relaying() as run:
        up = run.gateway.plane.upstreams[0]
        run.upstream.on_check = hang
        await eventually(lambda: up.outliers.is_ejected)
        answers = [await run.http.get("/v1/x") for _ in range(5)]

        assert [answer.status_code for answer in answers] == [200] * 5
        assert run.gateway.plane.ready() == {"upstreams": "ok"}
        assert up.is_up


async def test_a_check_that_never_ends_is_a_failed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes soon enough, and all of them do not: the upstream does not answer."""
    monkeypatch.setattr("gateway.proxy.health.TIMEOUT_SECONDS", 0.2)
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        upstream.on_check = drips
        await eventually(lambda: gateway.plane.upstreams[0].outliers.is_ejected)


async def test_a_list_of_models_that_is_a_bomb_is_cut() -> None:
    """It teaches nothing, takes no memory, and the upstream is up as before."""
    bomb = gzip.compress(b" " * 200_000_000)
    checks = 0

    async def explodes(request: ReceivedRequest, channel: Channel) -> None:
        nonlocal checks
        await reply(bomb, headers=b"content-encoding: gzip\r\n")(request, channel)
        checks += 1

    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        tracemalloc.start()
        try:
            upstream.on_check = explodes
            await eventually(lambda: checks > 4)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert gateway.plane.upstreams[0].is_up
        assert gateway.plane.upstreams[0].models == {"m"}
    assert peak < 32_000_000


@pytest.mark.parametrize("server", [{}, {"admin_key_env": "KEY"}])
async def test_a_wrong_path_is_named_until_a_request_is_answered(server: dict[str, str]) -> None:
    """Without /health the list of models says whether it is up; 404 there is a hint, without address under a key."""
    async with scripted_upstream() as upstream:
        upstream.has_health = False
        config = config_for(upstream, upstream={"base_url": f"{upstream.base_url}/v2"}, server=server)
        async with running_gateway(config) as gateway, gateway.http() as http:
            up, ready = gateway.plane.upstreams[0], gateway.plane.ready
            assert ({*up.models}, ready()) == ({"m"}, {"upstreams": "ok"})
            upstream.on_check = reply(b"", "404 Not Found")
            await eventually(lambda: up.list_problem)
            name = "up0" if server else f"up0 ({upstream.base_url}/v2)"
            assert ready()["upstreams"].startswith(f"ok, but {name} answers 404 at /v2/v1/models: set base_url to")
            assert (await http.get("/v1/x")).status_code == 200
            await eventually(lambda: ready() == {"upstreams": "ok"})


async def test_an_upstream_that_starts_later() -> None:
    """The gateway starts without its upstream and finds it when it comes."""
    async with scripted_upstream() as first:
        port = first.port
    async with running_gateway(validate({"upstreams": [{"name": "a", "base_url": first.base_url}]})) as gateway:
        assert not gateway.plane.upstreams[0].is_up
        async with scripted_upstream(port=port), gateway.http() as http:
            await eventually(lambda: gateway.plane.upstreams[0].is_up)
            assert (await http.get("/v1/x")).status_code == 200


async def test_models_change() -> None:
    """A model that an upstream begins to serve is found, and changes the fingerprint."""
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        up = gateway.plane.upstreams[0]
        before = up.fingerprint
        upstream.models = b'{"object": "list", "data": [{"id": "m"}, {"id": "new"}]}'
        await eventually(lambda: up.models == {"m", "new"})

        assert up.fingerprint != before
        assert [gateway.plane.model_label(name) for name in ("new", "never", None)] == ["new", "other", "other"]


async def test_several_lists_of_models() -> None:
    """With several, or aliases, the gateway merges what is up."""
    async with scripted_upstream() as a, scripted_upstream() as b:
        b.models = b'{"data": [{"id": "n", "object": "model", "owned_by": "vllm"}, {"id": "m"}]}'
        config = config_for(a, b, aliases={"gpt": "n"})
        async with running_gateway(config) as gateway, gateway.http() as http:
            both = await http.get("/v1/models", headers={"x-request-id": "r"})
            b.is_healthy = False
            await eventually(lambda: not gateway.plane.upstreams[1].is_up)
            one = await http.get("/v1/models")
            a.is_healthy = False
            await eventually(lambda: not gateway.plane.upstreams[0].is_up)
            none = await http.get("/v1/models")

        assert [model["id"] for model in both.json()["data"]] == ["m", "n", "gpt"]
        assert both.headers["x-request-id"] == "r"
        assert [model["id"] for model in one.json()["data"]] == ["m", "gpt"]
        assert none.status_code == 503
        assert (a.requests, b.requests) == ([], [])
        assert gateway.stats.outcomes == ["complete", "complete", "rejected"]
        assert {end["upstream"] for end in gateway.stats.ends} == {"none"}
