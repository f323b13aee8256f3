"""Browsers' pages of other origins: preflights, answers they may read, refusals they may read."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.integration.relaying import config_for, running_gateway
from tests.support.integration.scripted_upstream import raw, reply, scripted_upstream
from tests.support.integration.watching import Seen, Watched, request, sending, watch, watched_relay

PAGE = "http://app.example"
ASKS = f"origin: {PAGE}\r\naccess-control-request-method: POST\r\n".encode()
HEADERS = b"access-control-request-headers: authorization,content-type\r\n"
KEYS: dict[str, Any] = {"keys": [{"name": "app", "key_env": "CORS_KEY"}]}
KEY = b"authorization: Bearer k\r\n"
LISTED = {"server": {"cors_origins": [PAGE, "https://b.example:8443"]}}
ANY = {"server": {"cors_origins": "*"}}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORS_KEY", "k")


def preflight(headers: bytes = ASKS + HEADERS, *, target: str = "/v1/chat/completions", body: bytes = b"") -> bytes:
    return request(body, method="OPTIONS", target=target, headers=headers)


@asynccontextmanager
async def watched(**sections: Any) -> AsyncIterator[Watched]:
    """A relay for several requests."""
    async with scripted_upstream() as upstream, watched_relay(config_for(upstream, **sections), upstream) as relay:
        yield relay


def cors_of(seen: Seen) -> dict[str, str]:
    """CORS headers and Vary; fails where one comes twice."""
    pairs = [pair for pair in seen.headers if pair[0].startswith("access-control-")]
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


async def test_a_preflight_passes_without_a_key() -> None:
    """Without cors_origins the upstream answers it, and gets neither a key nor a right with it."""
    theirs = raw(b"HTTP/1.1 200 OK\r\naccess-control-allow-origin: http://app.example\r\ncontent-length: 2\r\n\r\nOK")
    seen = await watch(theirs, sending(preflight(HEADERS + ASKS + b"x-vllm-priority: -5\r\n")), **KEYS)

    assert (seen.status, cors_of(seen)) == (200, {"access-control-allow-origin": PAGE})
    (asked,) = seen.asked
    names = {name for name, _ in asked[2]}
    assert asked[0] == "OPTIONS"
    assert {"origin", "access-control-request-method"} <= names
    assert not {"authorization", "x-vllm-priority"} & names
    assert [one["eligible"] for one in seen.decisions] == [False]
    assert [end["outcome"] for end in seen.ends] == ["complete"]


async def test_a_preflight_gets_no_key_of_the_upstreams(monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream's own key goes with clients that have a key here, and with nobody else."""
    monkeypatch.setenv("UPSTREAM_KEY", "theirs")
    upstream = {"upstream": {"api_key_env": "UPSTREAM_KEY"}, **KEYS}
    known = await watch(reply(), sending(request(headers=KEY)), **upstream)
    assert ("authorization", "Bearer theirs") in known.asked[0][2]

    seen = await watch(reply(), sending(preflight()), **upstream)
    assert "authorization" not in dict(seen.asked[0][2])


NO_PREFLIGHTS = {
    "no origin": preflight(b"access-control-request-method: POST\r\n"),
    "no method": preflight(f"origin: {PAGE}\r\n".encode()),
    "body": preflight(body=b'{"model": "m"}'),
    "chunked body": preflight(ASKS + b"transfer-encoding: chunked\r\n") + b"3\r\nabc\r\n0\r\n\r\n",
    "GET": request(b"", method="GET", headers=ASKS),
    "POST": request(headers=ASKS),
}


async def test_what_is_no_preflight_needs_a_key() -> None:
    """Nothing else passes without one, so nobody sends an upstream work that way."""
    async with watched(**KEYS) as relay:
        for name, data in NO_PREFLIGHTS.items():
            seen = await relay.drive(reply(), sending(data))

            assert (seen.status, seen.asked) == (401, []), name
            assert dict(seen.headers)["www-authenticate"] == 'Bearer realm="biasgate"', name


async def test_the_gateway_answers_a_preflight() -> None:
    """With cors_origins it needs neither key nor upstream, and is counted as no exchange that could be audited."""
    asks = ASKS + HEADERS + b"access-control-request-private-network: true\r\n"
    async with watched(server={**LISTED["server"], "relayed_paths": ["/tokenize"]}, **KEYS) as relay:
        for target in ("/v1/chat/completions", "/v1/models", "/v1/whatever", "/tokenize"):
            seen = await relay.drive(reply(), sending(preflight(asks, target=target)))

            assert (seen.status, seen.body, seen.asked) == (204, b"", []), target
            assert cors_of(seen) == {
                "access-control-allow-origin": PAGE,
                "access-control-allow-headers": "authorization,content-type",
                "access-control-allow-methods": "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT",
                "access-control-allow-private-network": "true",
                "access-control-expose-headers": "*",
                "access-control-max-age": "600",
            }
            assert ("vary", "Origin") in seen.headers
            assert [one["eligible"] for one in seen.decisions] == [False]
            assert [(end["outcome"], end["upstream"]) for end in seen.ends] == [("complete", "none")]


async def test_a_preflight_of_another_origin() -> None:
    """It is refused in one line, without a header that would let the page read anything."""
    async with watched(**LISTED, **KEYS) as relay:
        for origin in ("http://evil.example", "null", PAGE + ".evil.example", PAGE + ", http://evil", ""):
            headers = f"origin: {origin}\r\naccess-control-request-method: POST\r\n".encode()
            seen = await relay.drive(reply(), sending(preflight(headers)))

            assert (seen.status, cors_of(seen), seen.asked) == (403, {}, []), origin
            assert b'"code":"origin_not_allowed"' in seen.body
            assert [end["outcome"] for end in seen.ends] == ["rejected"]


async def test_any_origin() -> None:
    """For "*" that very sign is answered, so that no browser sends cookies along; private networks stay closed."""
    async with watched(**ANY, **KEYS) as relay:
        for origin in (PAGE, "null"):
            headers = f"origin: {origin}\r\naccess-control-request-method: POST\r\n".encode()
            headers += b"access-control-request-private-network: true\r\n"
            seen = await relay.drive(reply(), sending(preflight(headers)))

            assert seen.status == 204
            assert cors_of(seen)["access-control-allow-origin"] == "*"
            assert "access-control-allow-private-network" not in cors_of(seen)
            assert ("vary", "Origin") not in seen.headers


UPSTREAMS_OWN = (
    b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\naccess-control-allow-credentials: true\r\n"
    b"vary: Accept\r\ncontent-type: application/json\r\n"
)
ANSWERS = {
    "whole": raw(UPSTREAMS_OWN + b"content-length: 2\r\n\r\n{}"),
    "stream": raw(UPSTREAMS_OWN + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
}


READERS: list[tuple[dict[str, Any], dict[str | None, str | None]]] = [
    (LISTED, {PAGE: PAGE, "https://b.example:8443": "https://b.example:8443", "http://evil.example": None, None: None}),
    (ANY, {"null": "*", PAGE: "*", None: None}),
    ({}, {PAGE: "*"}),
]


@pytest.mark.parametrize(("config", "values"), READERS, ids=["listed", "any", "none"])
async def test_answers(config: dict[str, Any], values: dict[str | None, str | None]) -> None:
    """A page of a listed origin may read an answer; an upstream's own CORS headers hold only without cors_origins."""
    async with watched(**config, **KEYS) as relay:
        for script, (origin, value) in itertools.product(ANSWERS.values(), values.items()):
            headers = KEY + (f"origin: {origin}\r\n".encode() if origin else b"")
            seen = await relay.drive(script, sending(request(headers=headers)))

            expected = {} if value is None else {"access-control-allow-origin": value}
            expected |= {"access-control-expose-headers": "*"} if value and config else {}
            expected |= {} if config else {"access-control-allow-credentials": "true"}
            assert (seen.status, seen.body, cors_of(seen)) == (200, b"{}", expected), origin
            assert (("vary", "Origin") in seen.headers) == (config is LISTED)
            assert ("vary", "Accept") in seen.headers
            assert dict(seen.asked[0][2]).get("origin") == origin


OF_A_PAGE = f"origin: {PAGE}\r\n".encode()
REFUSALS = {
    401: request(headers=OF_A_PAGE),
    413: request(b"x" * 2000, headers=OF_A_PAGE + KEY),
    400: request(b'{"priority": NaN}', headers=OF_A_PAGE + KEY),
    502: request(headers=OF_A_PAGE + KEY),
}


async def test_refusals_can_be_read() -> None:
    """What the gateway says by itself reaches the page too."""
    async with watched(server={**LISTED["server"], "max_body_bytes": 1000}, **KEYS) as relay:
        for status, data in REFUSALS.items():
            seen = await relay.drive(raw(b"", then_close=True), sending(data))

            assert seen.status == status
            assert cors_of(seen)["access-control-allow-origin"] == PAGE


async def test_a_known_head_keeps_its_origin() -> None:
    """Requests whose head is not parsed again are answered like the first, and each page's by its own origin."""
    async with scripted_upstream(default=ANSWERS["whole"]) as upstream:
        config = config_for(upstream, **LISTED)
        async with running_gateway(config) as gateway, gateway.http() as http:
            answers = [
                await http.post("/v1/x", content=b"{}", headers={"origin": origin} if origin else {})
                for origin in [PAGE, PAGE, PAGE, "http://evil.example", "http://evil.example", "", "", PAGE, PAGE]
            ]
    allowed = [answer.headers.get("access-control-allow-origin") for answer in answers]
    assert allowed == [PAGE] * 3 + [None] * 4 + [PAGE] * 2
    assert all(answer.headers["vary"] == "Accept, Origin" for answer in answers)
