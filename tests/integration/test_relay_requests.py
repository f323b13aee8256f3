"""What the relay does with requests: admits or refuses them, reads them, changes what policy says and nothing else."""

import asyncio

import msgspec
import pytest

from tests.support.integration.relaying import Gateway, config_for, running_gateway
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

    async def test_without_a_key(self, keys: list[dict[str, object]]) -> None:
        """A request without a known key is refused in the OpenAI shape, its connection is kept, no upstream sees it."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream, keys=keys)) as gateway:
            async with gateway.http() as http:
                answers = [await http.post("/v1/x", content=b"{}", headers={"x-request-id": "r"}) for _ in range(2)]

            assert [answer.json()["error"]["code"] for answer in answers] == ["unauthorized"] * 2
            assert (answers[0].status_code, answers[0].headers["x-request-id"]) == (401, "r")
            assert "connection" not in answers[0].headers
            assert upstream.requests == []
            assert gateway.stats.outcomes == ["rejected"] * 2
            assert gateway.stats.starts == []

    async def test_a_gateway_key_never_reaches_an_upstream(self, keys: list[dict[str, object]]) -> None:
        """Neither as a bearer token nor as x-api-key."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream, keys=keys)) as gateway:
            async with gateway.http() as http:
                await http.get("/v1/x", headers={"authorization": "Bearer app-secret"})
                await http.get("/v1/x", headers={"x-api-key": "app-secret", "authorization": "Bearer admin-secret"})

            assert len(upstream.requests) == 2
            assert not any("secret" in value for request in upstream.requests for _, value in request.headers)

    async def test_rate_limit(self, keys: list[dict[str, object]]) -> None:
        """A key beyond its requests per minute is told when to come back; other keys are not affected."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream, keys=keys)) as gateway:
            async with gateway.http() as http:
                app = {"authorization": "Bearer app-secret"}
                answers = [await http.get("/v1/x", headers=app) for _ in range(4)]
                other = await http.get("/v1/x", headers={"authorization": "Bearer admin-secret"})

            assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
            assert answers[3].json()["error"]["code"] == "rate_limited"
            assert 15 <= int(answers[3].headers["retry-after"]) <= 21
            assert other.status_code == 200

    async def test_priority_by_key(self, keys: list[dict[str, object]]) -> None:
        """Only a key that may set priority gets it through, in the body and in the headers."""
        body = b'{"model": "m", "priority": -5, "n": 1}'
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream, keys=keys)) as gateway:
            async with gateway.http() as http:
                for secret in ("app-secret", "admin-secret"):
                    headers = {
                        "authorization": f"Bearer {secret}",
                        "X-Vllm-Priority": "-5",
                        "X-data-parallel-rank": "1",
                    }
                    await http.post("/v1/x", content=body, headers=headers)

            app, admin = upstream.requests
            assert (app.body, admin.body) == (b'{"model": "m", "n": 1}', body)
            assert (app.header("x-vllm-priority"), admin.header("x-vllm-priority")) == (None, "-5")
            assert (app.header("x-data-parallel-rank"), admin.header("x-data-parallel-rank")) == (None, "1")


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

    async def test_open_gateway(self) -> None:
        """Without keys the client's own credentials pass, its priority does not."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            async with gateway.http() as http:
                headers = {"authorization": "Bearer mine", "x-vllm-priority": "-1"}
                await http.post("/v1/x", content=b'{"priority": -1}', headers=headers)

            assert upstream.requests[0].header("authorization") == "Bearer mine"
            assert upstream.requests[0].header("x-vllm-priority") is None
            assert upstream.requests[0].body == b"{}"

    async def test_alias(self) -> None:
        """An alias changes the model's name on its way, and no other byte."""
        body = b'{"messages":[{"content":"gpt-4o \\u00e9"}],  "model" : "gpt-4o", "x": 1.0}'
        async with (
            scripted_upstream() as upstream,
            running_gateway(config_for(upstream, aliases={"gpt-4o": "m"})) as gateway,
        ):
            async with gateway.http() as http:
                await http.post("/v1/chat/completions", content=body)

            assert upstream.requests[0].body == body.replace(b': "gpt-4o"', b': "m"')
            assert upstream.requests[0].header("content-length") == str(len(body) - 5)
            assert gateway.stats.ends[0]["model"] == "gpt-4o"

    async def test_labels_are_a_closed_set(self) -> None:
        """Unknown models and paths are counted as other."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            async with gateway.http() as http:
                await http.post("/v1/chat/completions?a", content=b'{"model": "m"}')
                await http.post("/v1/whatever", content=b'{"model": "made up"}')

            assert [(end["model"], end["endpoint"]) for end in gateway.stats.ends] == [
                ("m", "/v1/chat/completions"),
                ("other", "other"),
            ]


class TestBodies:
    async def test_chunked_request(self) -> None:
        """A chunked body is sent on with its length."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            await gateway.exchange(
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n"
            )

            request = upstream.requests[0]
            assert (request.body, request.header("content-length")) == (b"abcde", "5")
            assert (request.header("transfer-encoding"), request.header("x-trailer")) == (None, None)

    async def test_split_request(self) -> None:
        """Wherever the network cuts a request in two, the upstream gets the same."""
        request = b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\nA: b\r\n\r\nabcde"
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            reader, writer = await gateway.connect()
            for offset in range(1, len(request)):
                writer.write(request[:offset])
                await asyncio.sleep(0.001)
                writer.write(request[offset:])
                await reader.readuntil(b'{"ok": true}')
            writer.close()

            assert {(r.body, r.header("a")) for r in upstream.requests} == {(b"abcde", "b")}
            assert len(upstream.requests) == len(request) - 1

    async def test_announced_as_too_large(self) -> None:
        """It is refused before it is sent, and a client that sends it all the same still reads the answer."""
        async with (
            scripted_upstream() as upstream,
            running_gateway(config_for(upstream, server={"max_body_bytes": 1000})) as gateway,
        ):
            answer = await gateway.exchange(b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 70000\r\n\r\n")
            sent = await gateway.exchange(
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000
            )

            assert [error_of(answer), error_of(sent)] == [(413, "request_too_large")] * 2
            assert b"connection: close" in answer
            assert upstream.requests == []
            assert gateway.stats.outcomes == ["rejected"] * 2

    async def test_grows_too_large(self) -> None:
        """A chunked body is refused as soon as it passes the limit."""
        async with (
            scripted_upstream() as upstream,
            running_gateway(config_for(upstream, server={"max_body_bytes": 1000})) as gateway,
        ):
            answer = await gateway.exchange(
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n"
                + (b"1f4\r\n" + b"x" * 500 + b"\r\n") * 3
            )

            assert error_of(answer) == (413, "request_too_large")
            assert gateway.stats.outcomes == ["rejected"]

    async def test_just_fits(self) -> None:
        """A body of exactly the limit passes."""
        async with (
            scripted_upstream() as upstream,
            running_gateway(config_for(upstream, server={"max_body_bytes": 1000})) as gateway,
        ):
            async with gateway.http() as http:
                answer = await http.post("/v1/x", content=b"x" * 1000)

            assert answer.status_code == 200

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
        async with (
            scripted_upstream() as upstream,
            running_gateway(config_for(upstream, server={"max_body_bytes": 2})) as gateway,
        ):
            reader, writer = await gateway.connect()
            writer.write(b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 413")
            writer.close()

    async def test_declined_upgrade(self) -> None:
        """A request that wishes to upgrade to HTTP/2 is answered in HTTP/1.1, body and pipeline intact."""
        wish = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
        request = b"POST /v1/%d HTTP/1.1\r\nHost: g\r\n" + wish + b"Content-Length: 3\r\n\r\nabc"
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            reader, writer = await gateway.connect()
            writer.write(request % 1 + request % 2)
            for _ in range(2):
                await reader.readuntil(b'{"ok": true}')
            writer.close()

            assert [(r.target, r.body, r.header("upgrade")) for r in upstream.requests] == [
                ("/v1/1", b"abc", None),
                ("/v1/2", b"abc", None),
            ]

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


class TestMalformed:
    @pytest.mark.parametrize(
        "head",
        [
            b"Content-Length: 3\r\nContent-Length: 4\r\n",
            b"Content-Length: 3\r\nContent-Length: 3\r\n",
            b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
            b"Transfer-Encoding: chunked, identity\r\n",
            b"Content-Length: -1\r\n",
            b"Content-Length : 3\r\n",
            b"A: b\r\n folded: c\r\n",
        ],
    )
    async def test_smuggling(self, head: bytes) -> None:
        """A request that two parsers could read in two ways is refused and its connection closed."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            answer = await gateway.exchange(
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\n" + head + b"\r\nabcGET /v1/smuggled HTTP/1.1\r\nHost: g\r\n\r\n"
            )

            assert error_of(answer) == (400, "malformed_request")
            assert upstream.requests == []

    async def test_broken_chunks(self) -> None:
        """A body whose chunks make no sense is refused, and counted."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            answer = await gateway.exchange(
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"
            )

            assert error_of(answer) == (400, "malformed_request")
            assert (upstream.requests, gateway.stats.outcomes) == ([], ["rejected"])

    async def test_garbage_behind_a_request(self) -> None:
        """The request before the garbage is answered in full; then the connection ends."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            answer = await gateway.exchange(b"GET /v1/x HTTP/1.1\r\nHost: g\r\n\r\n\x00garbage\r\n\r\n")

            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b'{"ok": true}')
            assert len(upstream.requests) == 1

    async def test_endless_headers(self) -> None:
        """Headers without end are refused before they fill the memory."""
        async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
            answer = await gateway.exchange(b"GET /v1/x HTTP/1.1\r\nA: " + b"x" * 400_000)

            assert error_of(answer) == (431, "request_too_large")


class TestPipelining:
    async def test_order(self) -> None:
        """Pipelined requests, to the relay and to the app, are answered in the order they came."""

        async def slower_first(request: ReceivedRequest, channel: Channel) -> None:
            await asyncio.sleep(0.05 if request.body == b"a" else 0)
            await reply(request.body * 3)(request, channel)

        async with (
            scripted_upstream(default=slower_first) as upstream,
            running_gateway(config_for(upstream)) as gateway,
        ):
            answer = await gateway.exchange(
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\n\r\na"
                b"GET /elsewhere HTTP/1.1\r\nHost: g\r\n\r\n"
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\n\r\nb"
                b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\nConnection: close\r\n\r\nc"
            )

            places = [answer.index(part) for part in (b"aaa", b"app /elsewhere 0", b"bbb", b"ccc")]
            assert places == sorted(places)
            assert gateway.stats.outcomes == ["complete"] * 3

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
