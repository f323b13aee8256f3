"""deploy/nginx/biasgate.conf in front of a gateway: one certificate, a real nginx, streams unbuffered."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.integration.relaying import Gateway, config_for, eventually, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, reply, scripted_upstream
from tests.support.processes import free_port, running
from tools.bench.upstream import nginx_argv

CONFIG = Path(__file__).parents[2] / "deploy" / "nginx" / "biasgate.conf"
WAIT_SECONDS = 30.0
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

pytestmark = [
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]


@dataclass
class Front:
    """What is needed to speak to nginx."""

    url: str
    tls: ssl.SSLContext

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, verify=self.tls, trust_env=False, timeout=WAIT_SECONDS)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key, made for this run."""
    home = tmp_path_factory.mktemp("tls")
    chain, key = home / "fullchain.pem", home / "privkey.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(chain), "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return chain, key


@contextmanager
def nginx(home: Path, certificate: tuple[Path, Path], gateway: Gateway, *, is_outside: bool = False) -> Iterator[Front]:
    """Run the shipped configuration on this machine's ports and files; `is_outside` treats loopback as a stranger."""
    port, ready, redirect = free_port(), free_port(), free_port()
    chain, key = certificate
    replacements = {
        "server 127.0.0.1:8080;": f"server 127.0.0.1:{gateway.port};",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
        "listen 80;": f"listen 127.0.0.1:{redirect};",
        "/etc/nginx/tls/fullchain.pem": str(chain),
        "/etc/nginx/tls/privkey.pem": str(key),
    }
    if is_outside:
        replacements["    allow 127.0.0.1;\n"] = ""
    text = CONFIG.read_text()
    for shipped, ours in replacements.items():
        assert text.count(shipped) == 1, shipped
        text = text.replace(shipped, ours)
    text += f"server {{ listen 127.0.0.1:{ready}; location / {{ return 200; }} }}"
    with running(nginx_argv(home, text), ready_url=f"http://127.0.0.1:{ready}/", log=home / "nginx.log"):
        yield Front(f"https://127.0.0.1:{port}", ssl.create_default_context(cafile=chain))


async def test_requests_and_keys(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a verified TLS connection a key relays, none is refused, and nginx's own headers do not reach upstreams."""
    monkeypatch.setenv("TLS_TEST_KEY", "tls-secret")
    keys = [{"name": "app", "key_env": "TLS_TEST_KEY"}]
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream, keys=keys)) as gateway:
        with nginx(tmp_path, certificate, gateway) as front:
            async with front.http() as http:
                answers = [
                    await http.post("/v1/x", content=b"{}", headers={"authorization": f"Bearer {key}"})
                    for key in ("tls-secret", "no")
                ]

        assert [answer.status_code for answer in answers] == [200, 401]
        assert answers[0].json() == {"ok": True}
        assert [request.body for request in upstream.requests] == [b"{}"]
        assert upstream.requests[0].header("authorization") is None
        assert upstream.requests[0].header("host") == f"127.0.0.1:{upstream.port}"
        assert upstream.requests[0].header("connection") is None


async def test_events_leave_as_they_come(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """The first event is read before the upstream has sent the second: nothing on the way collects them."""
    release = asyncio.Event()

    async def stream(_: ReceivedRequest, channel: Channel) -> None:
        await channel.send(STREAM_HEAD + b"9\r\ndata: a\n\n\r\n")
        await release.wait()
        await channel.send(b"9\r\ndata: b\n\n\r\n0\r\n\r\n")

    async with scripted_upstream(stream) as upstream, running_gateway(config_for(upstream)) as gateway:
        with nginx(tmp_path, certificate, gateway) as front:
            async with front.http() as http, http.stream("POST", "/v1/x", content=b"{}") as answer:
                events = answer.aiter_raw()
                first = await anext(events)
                release.set()
                rest = b"".join([event async for event in events])

    assert (first, rest) == (b"data: a\n\n", b"data: b\n\n")


async def test_a_client_that_leaves(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """A client that hangs up in the middle of a stream ends it at the upstream as well, through nginx."""

    async def endless(_: ReceivedRequest, channel: Channel) -> None:
        await channel.send(STREAM_HEAD)
        while True:
            await channel.send(b"9\r\ndata: a\n\n\r\n")
            await asyncio.sleep(0.02)

    async with scripted_upstream(endless) as upstream, running_gateway(config_for(upstream)) as gateway:
        with nginx(tmp_path, certificate, gateway) as front:
            async with front.http() as http, http.stream("POST", "/v1/x", content=b"{}") as answer:
                await anext(answer.aiter_raw())
            async with asyncio.timeout(WAIT_SECONDS):
                await upstream.closed.wait()
            await eventually(lambda: gateway.stats.outcomes == ["client_disconnected"], seconds=WAIT_SECONDS)


async def test_control_plane_is_for_the_inside(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """From outside only the data plane is reached; from inside all of it."""
    async with running_gateway(config_for()) as gateway:
        statuses = {}
        for is_outside in (True, False):
            home = tmp_path / str(is_outside)
            home.mkdir()
            with nginx(home, certificate, gateway, is_outside=is_outside) as front:
                async with front.http() as http:
                    statuses[is_outside] = [
                        (await http.get(path)).status_code
                        for path in ("/metrics", "/console", "/v1/x", "/v1/../metrics")
                    ]

    # 404 is the answer of the app that stands beside the relay here, 503 the relay's own without an upstream.
    assert statuses == {True: [403, 403, 503, 403], False: [404, 404, 503, 404]}


async def test_large_bodies(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """A body as large as the gateway takes passes nginx too."""
    body = b"x" * (32 * 1024 * 1024)
    answer_to_all = reply(b"{}")
    async with scripted_upstream(default=answer_to_all) as upstream:
        async with running_gateway(config_for(upstream)) as gateway:
            with nginx(tmp_path, certificate, gateway) as front:
                async with front.http() as http:
                    assert (await http.post("/v1/x", content=body)).status_code == 200

        assert len(upstream.requests[0].body) == len(body)
