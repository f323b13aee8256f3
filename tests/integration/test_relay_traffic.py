"""The relay under traffic of every kind, case by case: what the client gets, what the upstream gets, how it ends."""

import msgspec
import pytest

from tests.support.integration.relaying import config_for, relaying
from tests.support.integration.scripted_upstream import Script, raw, reply, scripted_upstream
from tests.support.integration.watching import CHAT, passed_on, request, sending, watch, watched_relay

EVENTS = b"".join(b'data: {"n": %d}\n\n' % n for n in range(5)) + b"data: [DONE]\n\n"


def chunked(*pieces: bytes, headers: bytes = b"content-type: text/event-stream\r\n", end: bytes = b"\r\n") -> bytes:
    """A chunked response, with trailers where `end` has some."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\n" + headers + b"transfer-encoding: chunked\r\n\r\n" + body + b"0\r\n" + end


WHOLE_ANSWERS = {
    "content-length": reply(b'{"a": 1}'),
    "empty": reply(b""),
    "large": reply(b"x" * 300_000),
    "server-sent events": raw(chunked(*EVENTS.splitlines(keepends=True))),
    "events with content-length": reply(EVENTS, headers=b"content-type: text/event-stream\r\n"),
    "chunked json": raw(chunked(b'{"a"', b": 1}", headers=b"content-type: application/json\r\n")),
    "until close": raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nabc", then_close=True),
    "http/1.0": raw(b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nabc", then_close=True),
    "no content": raw(b"HTTP/1.1 204 No Content\r\nx-a: 1\r\n\r\n"),
    "not modified": raw(b'HTTP/1.1 304 Not Modified\r\netag: "e"\r\n\r\n'),
    "redirect": reply(b"", "302 Found", b"location: /elsewhere\r\n"),
    "client error": reply(b'{"error": {"message": "no"}}', "422 Unprocessable Entity"),
    "server error": reply(b"oops", "500 Internal Server Error", b"content-type: text/plain\r\n"),
    "compressed": reply(
        b"\x1f\x8b\x08\x00not gzip", headers=b"content-type: application/json\r\ncontent-encoding: gzip\r\n"
    ),
    "repeated headers": reply(b"{}", headers=b"set-cookie: a=1\r\nSet-Cookie: b=2\r\nX-Mixed: Case\r\n"),
    "hop by hop": reply(b"{}", headers=b"connection: x-private\r\nx-private: 1\r\nkeep-alive: timeout=5\r\n"),
    "upstream's own ids": reply(b"{}", headers=b"x-request-id: theirs\r\nx-biasgate-upstream: forged\r\n"),
    "trailers": raw(chunked(b"abc", end=b"x-late: 1\r\n\r\n")),
}


@pytest.mark.parametrize("script", WHOLE_ANSWERS.values(), ids=WHOLE_ANSWERS)
async def test_whole_answers(script: Script) -> None:
    """Every kind of complete answer arrives as without the gateway, under the client's id, and is counted."""
    async with scripted_upstream() as upstream, watched_relay(config_for(upstream), upstream) as relay:
        seen = await relay.drive(script, sending(request()))
        direct = await relay.direct(script, request())

    assert seen.is_whole
    assert (seen.status, passed_on(seen.headers), seen.body) == (direct.status, passed_on(direct.headers), direct.body)
    assert {("x-request-id", "r1"), ("x-biasgate-upstream", "up0")} <= set(seen.headers)
    assert [end["outcome"] for end in seen.ends] == ["complete"]


REQUESTS = {
    "get": request(b"", method="GET", target="/v1/whatever?a=1&b=%20c"),
    "escaped path": request(target="/v1/files/a%2Fb%20c;d=e?q=x/y?z"),
    "head": request(b"", method="HEAD", target="/v1/files/1"),
    "delete": request(b"", method="DELETE", target="/v1/files/1"),
    "empty post": request(b""),
    "chunked upload": request(b"", method="PUT", headers=b"transfer-encoding: chunked\r\n") + b"3\r\nabc\r\n0\r\n\r\n",
    "no json": request(b"\xff\xfe not json"),
    "not an object": request(b"[1, 2]"),
    "alias": request(b'{"model": "gpt", "n": 1.0}'),
    "priority": request(b'{"model": "m", "priority": -5, "x": 1}', headers=b"x-vllm-priority: -5\r\n"),
    "hop by hop": request(headers=b"te: trailers\r\nproxy-connection: keep-alive\r\n"),
    "opted out": request(headers=b"x-biasgate-audit: off\r\nx-biasgate-tag: t\r\n"),
    "escaped audited path": request(target="/v1/chat/%63ompletions/"),
    "probe": request(headers=b"x-biasgate-probe: mark\r\n"),
    "credentials": request(headers=b"authorization: Bearer theirs\r\n"),
    "audit": request(headers=b"x-biasgate-priority: audit\r\nx-vllm-priority: -5\r\n"),
    "own request id": request(headers=b"x-request-id: mine\r\n"),
}
CHANGED = {
    "alias": b'{"model": "m", "n": 1.0}',
    "audit": CHAT.replace(b"{", b'{"priority":7,', 1),
    "chunked upload": b"abc",
    "priority": b'{"model": "m", "x": 1}',
}
"""Bodies that reach the upstream otherwise than the client sent them."""
KEPT_BACK = {"te", "proxy-connection", "x-vllm-priority"} | {
    f"x-biasgate-{name}" for name in ("audit", "tag", "probe", "priority")
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_requests(name: str) -> None:
    """Every kind of request reaches the upstream under its id, with its method, target, credentials and body."""
    head, _, body = REQUESTS[name].partition(b"\r\n\r\n")
    seen = await watch(reply(), sending(REQUESTS[name]), aliases={"gpt": "m"}, audits={"priority": 7})

    [(method, target, headers, sent)] = seen.asked
    assert [method, target] == head.decode().split(" ")[:2]
    assert sent == CHANGED.get(name, body)
    assert not KEPT_BACK & {key for key, _ in headers}
    assert dict(headers)["x-request-id"] == ("mine" if name == "own request id" else "r1")
    assert (("authorization", "Bearer theirs") in headers) == (name == "credentials")
    assert [end["outcome"] for end in seen.ends] == ["complete"]


LISTED = {
    "get": request(b"", method="GET", target="/health"),
    "head": request(b"", method="HEAD", target="/health?verbose"),
    "priority": request(b'{"model": "gpt", "priority": -5, "prompt": "x"}', target="/tokenize"),
    "would be sampled": request(target="/tokenize", headers=b"x-biasgate-audit: on\r\n"),
    "no json": request(b"\xff", target="/tokenize"),
    "absolute": request(target="http://gateway/tokenize"),
}


@pytest.mark.parametrize("data", LISTED.values(), ids=LISTED)
async def test_listed_paths(data: bytes) -> None:
    """A path outside /v1 that is listed is relayed like one below it, counted, and never sampled."""
    listed = {"relayed_paths": ["/health", "/tokenize"]}
    seen = await watch(
        reply(b"" if b"HEAD" in data else b'{"a": 1}'), sending(data), aliases={"gpt": "m"}, server=listed
    )

    assert len(seen.asked) == 1
    assert b"priority" not in seen.asked[0][3]
    assert [(end["outcome"], end["endpoint"]) for end in seen.ends] == [("complete", "other")]
    assert [one["eligible"] for one in seen.decisions] == [False]
    assert seen.copies == []


@pytest.mark.parametrize("target", ["/tokenize/", "/%74okenize", "/livez", "/"])
async def test_paths_that_are_not_listed(target: str) -> None:
    """Nothing but the very path is relayed: the rest stays the gateway's own to answer."""
    async with relaying(server={"relayed_paths": ["/tokenize"]}) as run:
        assert (await run.http.post(target, content=b"abc")).text.startswith("app /")
        assert run.gateway.stats.ends == []
        assert run.upstream.requests == []


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (request(), b"unauthorized"),
        (request(b"", method="GET", target="/health"), b"unauthorized"),
        (request(b"x" * 2000, target="/health", headers=b"x-api-key: k\r\n"), b"request_too_large"),
        (request(b"x" * 2000, headers=b"x-api-key: k\r\n"), b"request_too_large"),
        (request(b'{"priority": 1, "n": NaN}', headers=b"x-api-key: k\r\n"), b"invalid_body"),
    ],
)
async def test_refused_requests(data: bytes, code: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the gateway refuses by itself it refuses, and asks no upstream."""
    monkeypatch.setenv("DIFFERENTIAL_KEY", "k")
    keys = [{"name": "app", "key_env": "DIFFERENTIAL_KEY"}]
    seen = await watch(reply(), sending(data), keys=keys, server={"max_body_bytes": 1000, "relayed_paths": ["/health"]})

    assert b'"code":"%b"' % code in seen.body
    assert seen.asked == []


WEBSOCKET = (
    b"Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: realtime, openai-insecure-api-key.k\r\n"
)
NO_WEBSOCKETS = {
    "another protocol": request(b"", method="GET", headers=WEBSOCKET.replace(b"websocket", b"h2c", 1)),
    "another method": request(b"", method="DELETE", headers=WEBSOCKET),
    "no wish to upgrade": request(b"", method="GET", headers=WEBSOCKET.replace(b"keep-alive, Upgrade", b"keep-alive")),
}


async def test_websockets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A websocket gets one 426, which makes agents use HTTP, or a missing key; it is counted and never relayed."""
    monkeypatch.setenv("DIFFERENTIAL_KEY", "k")
    keys = [{"name": "app", "key_env": "DIFFERENTIAL_KEY"}]
    async with scripted_upstream() as upstream:
        config = config_for(upstream, keys=keys, server={"relayed_paths": ["/ws"]})
        async with watched_relay(config, upstream) as relay:
            for target in ("/v1/responses", "/v1/realtime?model=m", "/v1/chat/completions", "/ws"):
                asks = request(b"", method="GET", target=target, headers=WEBSOCKET + b"authorization: Bearer k\r\n")
                seen = await relay.drive(reply(), sending(asks))

                assert (seen.status, dict(seen.headers)["upgrade"]) == (426, "HTTP/1.1")
                assert b'"code":"websocket_not_supported"' in seen.body
                assert [end["outcome"] for end in seen.ends] == ["rejected"]
                assert [one["eligible"] for one in seen.decisions] == [False]
                assert seen.asked == []

            seen = await relay.drive(reply(), sending(request(b"", method="GET", headers=WEBSOCKET)))
            assert (seen.status, seen.decisions, seen.asked) == (401, [], [])


async def test_what_is_no_websocket_is_relayed() -> None:
    """Any other wish to upgrade is passed over, as before."""
    async with scripted_upstream() as upstream, watched_relay(config_for(upstream), upstream) as relay:
        for name, data in NO_WEBSOCKETS.items():
            seen = await relay.drive(reply(), sending(data))

            assert (seen.status, len(seen.asked)) == (200, 1), name
            assert "upgrade" not in dict(seen.asked[0][2]), name


async def test_a_model_that_no_upstream_has() -> None:
    """The 404 names the models of every upstream and the aliases, in place of those that the asked one knows of."""
    theirs = reply(b'{"error": {"message": "Valid aliases: m."}}', "404 Not Found")
    in_chunks = raw(b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    async with scripted_upstream() as upstream:
        config = config_for(upstream, upstream, aliases={"gpt": "m", "lost": "gone"})
        other = msgspec.structs.replace(config.upstreams[1], models=["b"])
        config = msgspec.structs.replace(config, upstreams=[config.upstreams[0], other])
        async with watched_relay(config, upstream) as relay:
            for script, asked in ((theirs, "nope"), (in_chunks, "nope"), (theirs, "lost")):
                seen = await relay.drive(script, sending(request(b'{"model": "%b"}' % asked.encode())))
                assert (seen.status, len(seen.asked)) == (404, 1)
                error = msgspec.json.decode(seen.body)["error"]
                served = "b, gpt, lost, m" if asked == "nope" else "b, gpt, m"
                assert (error["code"], error["param"]) == ("model_not_found", "model")
                assert error["message"].endswith(f'serves the model "{asked}"; served here: {served}')
                assert (seen.drops, seen.copies) == ([("other", "filtered")], [])
                assert [end["outcome"] for end in seen.ends] == ["complete"]

            for data in (request(b'{"model": "gpt"}'), request(b'{"model": "nope"}', target="/v1/x"), request(b"{}")):
                assert b"Valid aliases: m." in (await relay.drive(theirs, sending(data))).body
