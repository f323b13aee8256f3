"""What the relay does with requests: admits or refuses them, reads them, changes what policy says and nothing else."""

import asyncio

import msgspec
import pytest

from tests.support.integration.relaying import Gateway, config_for, relaying, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, reply, scripted_upstream


def error_of(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), msgspec.json.decode(body)["error"]["code"]


class TestKeys:
    @pytest.fixture
    def keys(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
        monkeypatch.setenv("APP_KEY", "app-secret")
        monkeypatch.setenv("ADMIN_KEY", "admin-secret")
        return [
            {"name": "app", "key_env": "APP_KEY", "requests_per_minute": 3},
            {"name": "admin", "key_env": "ADMIN_KEY", "may_set_priority": True},
        ]

    async def test_a_gateway_key_never_reaches_an_upstream(self, keys: list[dict[str, object]]) -> None:
        """Neither as a bearer token nor as x-api-key."""
        async with relaying(keys=keys) as run:
            await run.http.get("/v1/x", headers={"authorization": "Bearer app-secret"})
            await run.http.get("/v1/x", headers={"x-api-key": "app-secret", "authorization": "Bearer admin-secret"})

            assert len(run.upstream.requests) == 2
            assert not any("secret" in value for request in run.upstream.requests for _, value in request.headers)


class TestPolicy:
    async def test_upstream_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An upstream with a key of its own gets that key in place of the client's."""
        monkeypatch.setenv("UP_KEY", "up-secret")
        async with scripted_upstream() as upstream:
            async with (
                running_gateway(config_for(upstream, upstream={"api_key_env": "UP_KEY"})) as gateway,
                gateway.http() as http,
            ):
                await http.get("/v1/x", headers={"authorization": "Bearer mine", "x-api-key": "mine"})

            assert [v for n, v in upstream.requests[0].headers if n in ("authorization", "x-api-key")] == [
                "Bearer up-secret"
            ]

    async def test_labels_are_a_closed_set(self) -> None:
        """Unknown models and paths are counted as other."""
        async with relaying() as run:
            await run.http.post("/v1/chat/completions?a", content=b'{"model": "m"}')
            await run.http.post("/v1/whatever", content=b'{"model": "made up"}')

            assert [(end["model"], end["endpoint"]) for end in run.gateway.stats.ends] == [
                ("m", "/v1/chat/completions"),
                ("other", "other"),
            ]


class TestBodies:
    async def test_announced_as_too_large(self) -> None:
        """It is refused before it is sent, and a client that sends it all the same still reads the answer."""
        async with relaying(server={"max_body_bytes": 1000}) as run:
            answer = await run.gateway.exchange(b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 70000\r\n\r\n")
            sent = await run.gateway.exchange(
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000
            )

            assert [error_of(answer), error_of(sent)] == [(413, "request_too_large")] * 2
            assert b"connection: close" in answer
            assert run.upstream.requests == []
            assert run.gateway.stats.outcomes == ["rejected"] * 2

    async def test_grows_too_large(self) -> None:
        """A chunked body is refused as soon as it passes the limit."""
        async with relaying(server={"max_body_bytes": 1000}) as run:
            answer = await run.gateway.exchange(
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n"
                + (b"1f4\r\n" + b"x" * 500 + b"\r\n") * 3
            )

            assert error_of(answer) == (413, "request_too_large")
            assert run.gateway.stats.outcomes == ["rejected"]

    async def test_expect_continue(self) -> None:
        """A client that asks first is told to go on, and the upstream is not asked."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            reader, writer = await gateway.connect()
            writer.write(b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"abc")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.close()

            assert (upstream.requests[0].body, upstream.requests[0].header("expect")) == (b"abc", None)

    async def test_expect_continue_refused(self) -> None:
        """A client that asks first and may not is refused at once, without being told to go on."""
        async with relaying(server={"max_body_bytes": 2}) as run:
            reader, writer = await run.gateway.connect()
            writer.write(b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 413")
            writer.close()

    async def test_declined_upgrade_outside_v1(self) -> None:
        """The app too gets the body of a client that wishes for HTTP/2 (Java's does with every request)."""
        wish = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
        asked = b"POST /audits HTTP/1.1\r\nHost: g\r\n" + wish + b"Content-Length: 3\r\n\r\nabc"
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            reader, writer = await gateway.connect()
            writer.write(2 * asked)
            for _ in range(2):
                await asyncio.wait_for(reader.readuntil(b"app /audits 3"), 5)
            writer.close()


class TestPipelining:
    async def test_order(self) -> None:
        """Pipelined requests, to the relay and to the app, are answered in the order they came."""

        async def slower_first(request: ReceivedRequest, channel: Channel) -> None:
            await asyncio.sleep(0.05 if request.body == b"a" else 0)
            await reply(request.body * 3)(request, channel)

        async with relaying(default=slower_first) as run:
            answer = await run.gateway.exchange(
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\n\r\na"
                b"GET /elsewhere HTTP/1.1\r\nHost: g\r\n\r\n"
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\n\r\nb"
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\nConnection: close\r\n\r\nc"
            )

            places = [answer.index(part) for part in (b"aaa", b"app /elsewhere 0", b"bbb", b"ccc")]
            assert places == sorted(places)
            assert run.gateway.stats.outcomes == ["complete"] * 3

    async def test_many_refusals(self) -> None:
        """A long pipeline of requests that are all refused is answered to its end."""
        async with running_gateway(config_for()) as gateway:
            count = 3000
            request = b"GET /v1 HTTP/1.1\r\nHost: g\r\n\r\n"
            answer = await gateway.exchange(
                request * (count - 1) + request.replace(b"Host", b"Connection: close\r\nHost")
            )

            assert answer.count(b'"no_upstream"') == count
            assert gateway.stats.outcomes == ["rejected"] * count


async def served(gateway: Gateway, model: str) -> str:
    async with gateway.http() as http:
        answer = await http.post("/v1/chat/completions", content=msgspec.json.encode({"model": model}))
    return str(answer.headers["x-biasgate-upstream"])


async def test_routing_by_model() -> None:
    """Each model goes to the upstream that serves it; one nobody knows goes to a wildcard upstream."""
    async with scripted_upstream() as a, scripted_upstream() as b:
        b.models = b'{"data": [{"id": "n"}]}'
        async with running_gateway(config_for(a, b)) as gateway:
            assert [await served(gateway, "m"), await served(gateway, "n")] == ["up0", "up1"]
            assert await served(gateway, "unknown") in ("up0", "up1")
