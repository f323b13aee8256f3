"""The fast relay and its slow oracle get the same traffic and must do the same, case by case."""

import asyncio

import msgspec
import pytest

from tests.support.integration.differential import CHAT, both, both_relays, in_pieces, observe, request, sending
from tests.support.integration.oracle_relaying import running_oracle
from tests.support.integration.relaying import (
    Gateway,
    RememberingTap,
    config_for,
    running_gateway,
)
from tests.support.integration.scripted_upstream import (
    Channel,
    ReceivedRequest,
    Script,
    raw,
    reply,
    scripted_upstream,
)

STREAM = b'{"model": "m", "stream": true, "messages": []}'
EVENTS = b"".join(b'data: {"n": %d}\n\n' % n for n in range(5)) + b"data: [DONE]\n\n"


def chunked(*pieces: bytes, headers: bytes = b"content-type: text/event-stream\r\n", end: bool = True) -> bytes:
    """A chunked response; without its end when `end` is False."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return (
        b"HTTP/1.1 200 OK\r\n" + headers + b"transfer-encoding: chunked\r\n\r\n" + body + (b"0\r\n\r\n" if end else b"")
    )


def bytewise(data: bytes, size: int) -> Script:
    async def script(_: ReceivedRequest, channel: Channel) -> None:
        await channel.send_bytewise(data, size)

    return script


async def silent(_: ReceivedRequest, channel: Channel) -> None:
    """Never answers; ends when the gateway lets go."""
    await channel.reader.read(1)
    await channel.close()


def then_silent(data: bytes) -> Script:
    async def script(received: ReceivedRequest, channel: Channel) -> None:
        await channel.send(data)
        await silent(received, channel)

    return script


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
    "trailers": raw(chunked(b"abc", end=False) + b"0\r\nx-late: 1\r\n\r\n"),
}


@pytest.mark.parametrize("script", WHOLE_ANSWERS.values(), ids=WHOLE_ANSWERS)
async def test_whole_answers(script: Script) -> None:
    """Every kind of complete answer is relayed alike, and ends complete."""
    seen = await both(script, sending(request()))

    assert seen.is_whole
    assert [end["outcome"] for end in seen.ends] == ["complete"]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_answers_in_pieces(size: int) -> None:
    """Where the upstream's bytes are cut makes no difference."""
    seen = await both(bytewise(chunked(b"data: a\n\n", b"data: [DONE]\n\n"), size), sending(request(STREAM)))

    assert seen.body == b"data: a\n\ndata: [DONE]\n\n"


@pytest.mark.parametrize("size", [1, 5])
async def test_requests_in_pieces(size: int) -> None:
    """Where the client's bytes are cut makes no difference."""
    seen = await both(reply(), in_pieces(request(), size))

    assert [asked[3] for asked in seen.asked] == [CHAT]


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


@pytest.mark.parametrize("data", REQUESTS.values(), ids=REQUESTS)
async def test_requests(data: bytes) -> None:
    """Every kind of request reaches the upstream alike."""
    seen = await both(reply(), sending(data), aliases={"gpt": "m"})

    assert len(seen.asked) == 1
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
    seen = await both(
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
    async with scripted_upstream() as upstream:
        config = config_for(upstream, server={"relayed_paths": ["/tokenize"]})
        for running in (running_gateway(config), running_oracle(config, tap=RememberingTap())):
            async with running as gateway, gateway.http() as http:
                assert (await http.post(target, content=b"abc")).text.startswith("app /")
                assert gateway.stats.ends == []
        assert upstream.requests == []


async def test_merged_models() -> None:
    """The gateway's own model list is the same."""
    seen = await both(reply(), sending(request(b"", method="GET", target="/v1/models")), aliases={"gpt": "m"})

    assert {entry["id"] for entry in msgspec.json.decode(seen.body)["data"]} == {"m", "gpt"}
    assert seen.asked == []


BREAKS = {
    "dies in an event stream": (raw(chunked(b"data: a\n\n", end=False), then_close=True), STREAM, "upstream_error"),
    "dies in a chunked json": (
        raw(chunked(b'{"a', headers=b"content-type: application/json\r\n", end=False), then_close=True),
        CHAT,
        "upstream_error",
    ),
    "dies short of its length": (
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", then_close=True),
        CHAT,
        "upstream_error",
    ),
    "closes without an answer": (raw(b"", then_close=True), CHAT, "upstream_error"),
    "is no http": (raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", then_close=True), CHAT, "upstream_error"),
    "has no such status": (raw(b"HTTP/1.1 010 Low\r\n\r\n", then_close=True), CHAT, "upstream_error"),
    "sends a body with 1xx": (
        raw(b"HTTP/1.1 199 Odd\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", then_close=True),
        CHAT,
        "upstream_error",
    ),
    "conflicting lengths": (
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd", then_close=True),
        CHAT,
        "upstream_error",
    ),
    "never answers": (silent, CHAT, "timed_out"),
    "falls silent": (then_silent(chunked(b"data: a\n\n", end=False)), STREAM, "timed_out"),
}


@pytest.mark.parametrize(("script", "body", "outcome"), BREAKS.values(), ids=BREAKS)
async def test_broken_upstreams(script: Script, body: bytes, outcome: str) -> None:
    """Every way in which an upstream can fail is told alike: status, code, error event or cut, end reason, no copy."""
    seen = await both(script, sending(request(body)), timeouts={"first_byte": 0.3, "idle": 0.3})

    assert [end["outcome"] for end in seen.ends] == [outcome]
    assert seen.copies == []
    assert b"[DONE]" not in seen.body


async def test_refusing_upstream() -> None:
    """An upstream that takes no connection is a 502 with the same code."""

    async def drive(gateway: Gateway) -> bytes:
        gateway.plane.upstreams[0].mark_up()
        return await gateway.exchange(request())

    async with scripted_upstream() as gone:
        config = config_for(gone)
    config = msgspec.structs.replace(config, upstreams=[msgspec.structs.replace(config.upstreams[0], models=["m"])])
    async with running_gateway(config) as gateway:
        fast = await observe(gateway, gone, drive)
    async with running_oracle(config, tap=RememberingTap()) as gateway:
        slow = await observe(gateway, gone, drive)

    assert fast == slow
    assert fast.status == 502
    assert b'"code":"upstream_error"' in fast.body


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
    """What the gateway refuses by itself, it refuses alike and asks no upstream."""
    monkeypatch.setenv("DIFFERENTIAL_KEY", "k")
    keys = [{"name": "app", "key_env": "DIFFERENTIAL_KEY"}]
    seen = await both(reply(), sending(data), keys=keys, server={"max_body_bytes": 1000, "relayed_paths": ["/health"]})

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
    """One answer, 426, on which agents use HTTP; a stranger is told nothing but that a key is missing.

    It is counted in the ledger as no exchange that could be audited, and no upstream hears of it.
    """
    monkeypatch.setenv("DIFFERENTIAL_KEY", "k")
    keys = [{"name": "app", "key_env": "DIFFERENTIAL_KEY"}]
    async with scripted_upstream() as upstream:
        config = config_for(upstream, keys=keys, server={"relayed_paths": ["/ws"]})
        async with both_relays(config, upstream) as relays:
            for target in ("/v1/responses", "/v1/realtime?model=m", "/v1/chat/completions", "/ws"):
                asks = request(b"", method="GET", target=target, headers=WEBSOCKET + b"authorization: Bearer k\r\n")
                seen = await relays.drive(reply(), sending(asks))

                assert (seen.status, dict(seen.headers)["upgrade"]) == (426, "HTTP/1.1")
                assert b'"code":"websocket_not_supported"' in seen.body
                assert [end["outcome"] for end in seen.ends] == ["rejected"]
                assert [one["eligible"] for one in seen.decisions] == [False]
                assert seen.asked == []

            seen = await relays.drive(reply(), sending(request(b"", method="GET", headers=WEBSOCKET)))
            assert (seen.status, seen.decisions, seen.asked) == (401, [], [])


async def test_what_is_no_websocket_is_relayed() -> None:
    """Any other wish to upgrade is passed over, as before."""
    async with scripted_upstream() as upstream, both_relays(config_for(upstream), upstream) as relays:
        for name, data in NO_WEBSOCKETS.items():
            seen = await relays.drive(reply(), sending(data))

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
        async with both_relays(config, upstream) as relays:
            for script, asked in ((theirs, "nope"), (in_chunks, "nope"), (theirs, "lost")):
                seen = await relays.drive(script, sending(request(b'{"model": "%b"}' % asked.encode())))
                assert (seen.status, len(seen.asked)) == (404, 1)
                error = msgspec.json.decode(seen.body)["error"]
                served = "b, gpt, lost, m" if asked == "nope" else "b, gpt, m"
                assert (error["code"], error["param"]) == ("model_not_found", "model")
                assert error["message"].endswith(f'serves the model "{asked}"; served here: {served}')
                assert (seen.drops, seen.copies) == ([("other", "filtered")], [])
                assert [end["outcome"] for end in seen.ends] == ["complete"]

            for data in (request(b'{"model": "gpt"}'), request(b'{"model": "nope"}', target="/v1/x"), request(b"{}")):
                assert b"Valid aliases: m." in (await relays.drive(theirs, sending(data))).body


async def test_listed_paths_use_up_a_key_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key's requests per minute hold for them too."""
    monkeypatch.setenv("DIFFERENTIAL_KEY", "k")
    keys = [{"name": "app", "key_env": "DIFFERENTIAL_KEY", "requests_per_minute": 1}]
    asking = request(b"", method="GET", target="/health", headers=b"x-api-key: k\r\n")

    async def drive(gateway: Gateway) -> bytes:
        await gateway.exchange(asking)
        return await gateway.exchange(asking)

    seen = await both(reply(), drive, keys=keys, server={"relayed_paths": ["/health"]})

    assert seen.status == 429
    assert [end["outcome"] for end in seen.ends] == ["complete", "rejected"]
    assert len(seen.asked) == 1


async def test_client_that_leaves() -> None:
    """When the client goes away, both let go of the upstream at once and count it so."""

    async def drive(gateway: Gateway) -> bytes:
        reader, writer = await gateway.connect()
        writer.write(request(STREAM))
        first = await reader.readuntil(b"data: a\n\n")
        writer.close()
        return first

    async with scripted_upstream(default=then_silent(chunked(b"data: a\n\n", end=False))) as upstream:
        config = config_for(upstream)
        for running in (running_gateway(config), running_oracle(config, tap=RememberingTap())):
            upstream.closed.clear()
            async with running as gateway:
                await drive(gateway)
                await asyncio.wait_for(upstream.closed.wait(), 2)
                await gateway.ended()

                assert gateway.stats.outcomes == ["client_disconnected"]
                assert gateway.plane.upstreams[0].outstanding == 0
