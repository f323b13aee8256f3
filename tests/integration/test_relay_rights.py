"""What a client writes into a request beyond its key's rights never reaches an upstream, and nothing else changes."""

import pytest

from tests.support.integration.relaying import config_for, running_gateway
from tests.support.integration.scripted_upstream import ReceivedRequest, scripted_upstream

FORBIDDEN = (
    b"X-VLLM-Priority: -5\r\nx-vllm-PRIORITY: -6\r\nX-Data-Parallel-Rank: 1\r\n"
    b"X-BiasGate-Audit: off\r\nX-Biasgate-Probe: 00\r\n"
    b"X-Biasgate-Tag: vip\r\nx-biasgate-upstream: up0\r\nX-BIASGATE-ANYTHING: 1\r\n"
    b"Forwarded: for=6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n"
    b"X-Real-IP: 6.6.6.6\r\nTrue-Client-IP: 6.6.6.6\r\nTE: trailers\r\nTrailer: x\r\nKeep-Alive: 5\r\n"
    b"Proxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n"
    b"X-Nominated: 1\r\nX-Also-Nominated: 2\r\n"
    b"Connection: keep-alive, X-Nominated\r\nConnection: x-also-nominated , te\r\n"
)
PASSING = b"Accept: a/b\r\nX-Custom: 1\r\nX-Custom: 2\r\nX-Nominate: 3\r\nUser-Agent: u\r\n"
BODIES = [
    (b'{"model": "m", "priority": -5, "n": 1.0}', b'{"model": "m", "n": 1.0}'),
    (b'{"priority":-5}', b"{}"),
    (
        b'{"pri\\u006frity" : -5 ,"a":"\\u00e9\\/", "priority": [ {"priority": 1} ],  "b": {"priority": 3}}',
        b'{"a":"\\u00e9\\/", "b": {"priority": 3}}',
    ),
    (b'{"Priority": 1, "priority ": 2}', b'{"Priority": 1, "priority ": 2}'),
    (b'{ "x" : 1e2 ,\t"y":[ 1.0,2 ]}\n', b'{ "x" : 1e2 ,\t"y":[ 1.0,2 ]}\n'),
]


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    monkeypatch.setenv("PLAIN_KEY", "plain")
    monkeypatch.setenv("ABLE_KEY", "able")
    return [
        {"name": "plain", "key_env": "PLAIN_KEY", "may_opt_out": False},
        {"name": "able", "key_env": "ABLE_KEY", "may_set_priority": True},
    ]


def request(key: bytes, body: bytes, headers: bytes = FORBIDDEN + PASSING) -> bytes:
    lines = b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer %b\r\nConnection: close\r\n" % key
    return lines + headers + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def without_framing(received: ReceivedRequest) -> list[tuple[str, str]]:
    ours = ("host", "content-length", "x-request-id")
    return [(name, value) for name, value in received.headers if name not in ours]


@pytest.mark.parametrize(("sent", "expected"), BODIES)
async def test_without_rights(keys: list[dict[str, object]], sent: bytes, expected: bytes) -> None:
    """Priority, rank, our own, hop-by-hop and forwarded headers are taken out; other headers and bytes stay."""
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream, keys=keys)) as gateway:
        await gateway.exchange(request(b"plain", sent))

        assert upstream.requests[0].body == expected
        assert without_framing(upstream.requests[0]) == [
            ("accept", "a/b"),
            ("x-custom", "1"),
            ("x-custom", "2"),
            ("x-nominate", "3"),
            ("user-agent", "u"),
        ]
        assert gateway.tap.decisions[0]["may_opt"] is False


async def test_with_rights(keys: list[dict[str, object]]) -> None:
    """A key that may set priority gets just that through: body as it is, and the two headers of vLLM."""
    body = BODIES[0][0]
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream, keys=keys)) as gateway:
        await gateway.exchange(request(b"able", body))

        assert upstream.requests[0].body == body
        assert without_framing(upstream.requests[0])[5:] == [
            ("x-vllm-priority", "-5"),
            ("x-vllm-priority", "-6"),
            ("x-data-parallel-rank", "1"),
        ]
        assert gateway.tap.decisions[0]["may_opt"] is True


async def test_credentials_named_by_connection() -> None:
    """A client that calls its credentials hop-by-hop does not have them passed on."""
    headers = b"Connection: authorization\r\nX-Api-Key: k\r\n"
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream)) as gateway:
        await gateway.exchange(request(b"any", b"{}", headers))

        assert without_framing(upstream.requests[0]) == [("x-api-key", "k")]
