"""No client follows a redirect: a key, and what is asked, are for the server that was named."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from auditors.clients.completion import HttpCompleter, served_models
from auditors.types import CompletionError, CompletionRequest, Message
from benchmarks.datasets import fetching
from benchmarks.datasets.spec import DatasetSpec, SourceFile
from benchmarks.errors import DatasetError
from benchmarks.run.client import open_client
from gateway.auditor.backpressure.vllm_load import LoadReader, LoadUnknownError
from gateway.config.loading import validate
from tests.support.integration.relaying import config_for, running_gateway
from tests.support.integration.scripted_upstream import ScriptedUpstream, read_request, reply, scripted_upstream
from tests.support.integration.watching import request, sending, watched_relay

QUESTION = CompletionRequest(model="m", messages=[Message("user", "Who?")], max_tokens=5)


@asynccontextmanager
async def redirecting(status: str) -> AsyncIterator[tuple[ScriptedUpstream, ScriptedUpstream]]:
    """A server that sends everybody on, and the one it names."""
    async with scripted_upstream() as elsewhere:
        location = f"location: {elsewhere.base_url}/v1/chat/completions\r\n"
        sent_on = reply(b"moved", status, location.encode())
        async with scripted_upstream(default=sent_on) as first:
            yield first, elsewhere


STATUSES = pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])


@STATUSES
async def test_judges_and_suites_do_not_go_there(status: str) -> None:
    """Judge, embedder, model list and suite client: an error that names the status, and nothing reaches the other."""
    async with redirecting(status) as (first, elsewhere):
        completer = HttpCompleter(first.base_url, "secret-key")
        suite = open_client(first.base_url, "secret-key", 1)
        for client in (completer, suite):
            with pytest.raises(CompletionError, match=f"status {status[:3]}"):
                await client.complete(QUESTION)
            await client.aclose()
        with pytest.raises(CompletionError, match=f"status {status[:3]}"):
            await served_models(first.base_url, "secret-key")

        assert len(first.requests) == 3
        assert elsewhere.requests == []


async def test_the_load_reader_does_not_go_there() -> None:
    """A redirected metrics page is no page."""
    async with redirecting("302 Found") as (first, elsewhere):
        reader = LoadReader(first.base_url, "secret-key")
        try:
            assert await reader.poll() is None
        except LoadUnknownError:
            pass
        finally:
            await reader.aclose()

        assert len(first.requests) == 1
        assert elsewhere.requests == []


@STATUSES
async def test_an_upstreams_redirect_goes_to_the_client(status: str) -> None:
    """Status, Location and body as they came: whether to follow is the client's to say."""
    async with redirecting(status) as (first, elsewhere), running_gateway(config_for(first)) as gateway:
        async with httpx.AsyncClient(base_url=gateway.base_url, trust_env=False) as http:
            answer = await http.post("/v1/chat/completions", json={"model": "m"})

        assert answer.status_code == int(status[:3])
        assert answer.headers["location"] == f"{elsewhere.base_url}/v1/chat/completions"
        assert answer.content == b"moved"
        assert "x-content-type-options" not in answer.headers
        assert len(first.requests) == 1
        assert elsewhere.requests == []


OWN = {
    "{upstream}/llm/v1/models?a=1#b": "/v1/models?a=1#b",
    "{upstream}/v1/models/": "/v1/models/",
    "HTTPS://user:pw@{host}/llm/v1/x": "/v1/x",
    "//{host}/llm/v1/x": "/v1/x",
    "/llm/v1/x": "/v1/x",
    "{upstream}": "/",
    "{upstream}//evil.example/x": "/evil.example/x",
    "{upstream}/llm//\\evil.example": "/evil.example",
    "/v1/elsewhere?": "/v1/elsewhere?",
    "next": "next",
    "http://other.example:1/llm/v1/x": "http://other.example:1/llm/v1/x",
    "http://{name}:1/v1/x": "http://{name}:1/v1/x",
    "ftp://{host}/x": "ftp://{host}/x",
    "http://[": "http://[",
}


async def test_an_upstreams_address_does_not_reach_a_client() -> None:
    """An address of the upstream itself becomes a path of the gateway's, any other stays."""
    async with scripted_upstream() as upstream:
        config = config_for(upstream)
        listed = msgspec.structs.replace(config.upstreams[0], base_url=f"http://127.0.0.1:{upstream.port}/llm/v1")
        config = msgspec.structs.replace(config, upstreams=[listed])
        names = {"upstream": f"http://127.0.0.1:{upstream.port}", "host": f"127.0.0.1:{upstream.port}"}
        names["name"] = "127.0.0.1"
        async with watched_relay(config, upstream) as relay:
            for given, expected in OWN.items():
                value = given.format(**names)
                lines = f"Location: {value}\r\ncontent-location: {value}\r\n".encode()
                seen = await relay.drive(reply(b"x", "307 Temporary Redirect", lines), sending(request()))

                shown = {name: value for name, value in seen.headers if name.endswith("location")}
                assert shown == dict.fromkeys(("location", "content-location"), expected.format(**names)), given


async def test_a_health_check_does_not_go_there() -> None:
    """A server that sends checks on is asked itself, with its key; the one it names hears nothing."""
    asked: list[str] = []

    async def send_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader, 0)
        assert request is not None
        asked.append(request.target)
        head = f"HTTP/1.1 302 Found\r\nlocation: {elsewhere.base_url}/health\r\ncontent-length: 0\r\n"
        writer.write(f"{head}connection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with scripted_upstream() as elsewhere:
        server = await asyncio.start_server(send_on, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, running_gateway(validate({"upstreams": [{"name": "u", "base_url": url}]})):
            pass

        assert asked[:1] == ["/health"]
        assert (elsewhere.requests, elsewhere.connections) == ([], 0)


async def test_data_sets_are_followed_over_tls_only(tmp_path: Path) -> None:
    """Hosts of data send on to where the files lie: not without TLS, and not for ever."""
    async with redirecting("302 Found") as (first, elsewhere):
        file = SourceFile(url=f"{first.base_url}/raw.json", git_blob="0" * 40, mirror_path="x.gz", mirror_sha256="0")
        known = DatasetSpec(
            name="tiny", title="Tiny", licence="CC0", n_items=1, files=(file,), content_sha256="0", normalise=dict
        )
        with pytest.raises(DatasetError, match=r"redirects to 127\.0\.0\.1 without TLS, which is not followed"):
            await asyncio.to_thread(fetching.fetch, known, data_dir=tmp_path)

        assert len(first.requests) == 1
        assert elsewhere.requests == []
