"""Nobody is run over: slow clients slow their upstream down, and a gateway that stops lets its streams finish."""

import asyncio
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.integration.relaying import Gateway, config_for, relaying, running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, scripted_upstream

MEGABYTE = b"~" * 1_000_000
CHUNK = b"%x\r\n%b\r\n" % (len(MEGABYTE), MEGABYTE)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def buffered_bytes(gateway: Gateway) -> int:
    """What lies in the gateway's own buffers towards its clients."""
    return sum(connection.transport.get_write_buffer_size() for connection in gateway.server.server_state.connections)


class TestBackPressure:
    async def test_slow_client(self) -> None:
        """A client that does not read makes the upstream wait; when it reads again it gets every byte."""
        sent = 0

        async def pour(_: ReceivedRequest, channel: Channel) -> None:
            nonlocal sent
            await channel.send(STREAM_HEAD)
            for _turn in range(60):
                await channel.send(CHUNK)
                sent += len(MEGABYTE)
            await channel.send(b"0\r\n\r\n")

        async with scripted_upstream(pour) as upstream, running_gateway(config_for(upstream)) as gateway:
            with socket.create_connection(("127.0.0.1", gateway.port)) as client:
                client.setblocking(False)
                client.sendall(b"GET /v1/x HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n")
                await asyncio.sleep(0.5)
                sent_to_a_sleeper, held = sent, buffered_bytes(gateway)
                received, loop = 0, asyncio.get_running_loop()
                while data := await loop.sock_recv(client, 1 << 20):
                    received += data.count(b"~")

            assert sent_to_a_sleeper < 30 * len(MEGABYTE)
            assert held < 2 * len(MEGABYTE)
            assert received == 60 * len(MEGABYTE)
            assert gateway.stats.outcomes == ["complete"]

    async def test_a_client_that_never_reads(self) -> None:
        """It is let go of when its total time is over."""

        async def pour(_: ReceivedRequest, channel: Channel) -> None:
            await channel.send(STREAM_HEAD)
            while True:
                await channel.send(CHUNK)

        async with relaying(pour, timeouts={"total": 0.5, "idle": 0.1}) as run:
            with socket.create_connection(("127.0.0.1", run.gateway.port)) as client:
                client.sendall(b"GET /v1/x HTTP/1.1\r\nHost: g\r\n\r\n")
                await run.gateway.ended()

                assert run.gateway.stats.outcomes == ["timed_out"]
                assert run.gateway.stats.ends[0]["duration_seconds"] >= 0.5


async def test_tls_upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upstream behind TLS is relayed to like any other, and one whose certificate is not trusted is not."""
    ssl_context = _self_signed(tmp_path)
    async with scripted_upstream(tls=ssl_context) as upstream:
        config = config_for(upstream, upstream={"base_url": f"https://localhost:{upstream.port}"})
        async with running_gateway(config) as gateway, gateway.http() as http:
            gateway.plane.upstreams[0].mark_up()
            assert (await http.get("/v1/x")).status_code == 502
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        async with running_gateway(config) as gateway, gateway.http() as http:
            answers: list[httpx.Response] = [await http.get("/v1/x") for _ in range(3)]

    assert [answer.content for answer in answers] == [b'{"ok": true}'] * 3
    assert len({request.connection for request in upstream.requests}) == 1


def _self_signed(folder: Path) -> ssl.SSLContext:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed: no certificate to serve TLS with")
    cert, key = folder / "cert.pem", folder / "key.pem"
    request = f"{openssl} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = f"-addext subjectAltName=DNS:localhost -keyout {key} -out {cert}"
    subprocess.run([*request.split(), *names.split()], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context
