"""The suite client against a real server on loopback."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from auditors.types import Completion, CompletionError, CompletionRequest, Message
from benchmarks.errors import BenchmarkError
from benchmarks.run.client import GATEWAY_HEADERS, host, open_client
from benchmarks.run.runner import run_plan
from benchmarks.suites.protocol import REFUSAL_FIELD
from tests.support.benchmarks.scripted import MemoryLog, plan

REQUEST = CompletionRequest(model="m", messages=[Message("user", "hi")], max_tokens=3, extra={"top_k": 50})
CHAT = b'{"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "system_fingerprint": "fp"}'

Answer = Callable[[int], tuple[int, bytes]]
"""Maps the number of a request, from 0, to status and body."""


class Server:
    """Answers each request by a script and keeps heads and bodies."""

    def __init__(self, answer: Answer) -> None:
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
                self.bodies.append(await reader.readexactly(length))
                self.heads.append(head)
                status, body = self._answer(len(self.heads) - 1)
                if status == 0:
                    break
                writer.write(
                    b"HTTP/1.1 %d X\r\nretry-after: 0\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body
                )
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[str, Server]]:
    server = Server(answer)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", server
    finally:
        listener.close()


async def ask(url: str, **options: object) -> Completion:
    completer = open_client(url, **options)  # type: ignore[arg-type]  # tests pass any subset of the options
    try:
        return await completer.complete(REQUEST)
    finally:
        await completer.aclose()


async def test_a_completion_comes_back() -> None:
    """Body, path, key, priority and gateway header arrive; the reply is read."""
    async with serving(lambda _: (200, CHAT)) as (url, server):
        found = await ask(f"{url}/v1", api_key="sekret", priority=10, headers=GATEWAY_HEADERS)

    assert (found.text, found.finish_reason, found.fingerprint) == ("yes", "stop", "fp")
    assert server.heads[0].startswith("POST /v1/chat/completions ")
    assert "authorization: bearer sekret" in server.heads[0].lower()
    assert "x-biasgate-audit: off" in server.heads[0].lower()
    sent = msgspec.json.decode(server.bodies[0])
    assert (sent["model"], sent["priority"], sent["top_k"], sent["max_tokens"]) == ("m", 10, 50, 3)


async def test_retries_end() -> None:
    """A server that stays busy is unavailable after the stated number of attempts."""
    async with serving(lambda _: (503, b'{"error": {"message": "busy"}}')) as (url, server):
        with pytest.raises(CompletionError, match="status 503: busy") as failed:
            await ask(url, retries=2)

    assert (failed.value.kind, len(server.heads)) == ("unavailable", 3)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://x", "http://"])
def test_what_is_no_url_is_refused(url: str) -> None:
    """A wrong server address is one line with an example."""
    with pytest.raises(BenchmarkError, match="must look like http"):
        open_client(url)


async def test_a_refused_connection_is_one_plain_line() -> None:
    """The user reads the address and the cause, not a structure of the library."""
    with pytest.raises(CompletionError) as refused:
        await ask("http://127.0.0.1:1", retries=0)

    assert refused.value.kind == "unavailable"
    assert str(refused.value) == "127.0.0.1:1/v1/chat/completions: ConnectError: All connection attempts failed"
    assert host("http://user:pass@example.org:80/v1") == "example.org:80"  # without credentials


async def test_a_key_that_no_header_may_hold_is_refused() -> None:
    """A line break would begin a header of its own; the message names the server and leaves the key out."""
    with pytest.raises(BenchmarkError, match="cannot be set up: its key is not printable ASCII") as refused:
        open_client("http://127.0.0.1:1", "sekret\nx-own: 1")
    assert "sekret" not in str(refused.value)


async def test_a_gateway_that_defers_an_audit_is_asked_again() -> None:
    """An answer that asks for the same again later is no failed attempt, in contrast to another 429."""
    deferred = b'{"error": {"code": "audit_deferred", "message": "later"}}'
    async with serving(lambda n: (429, deferred) if n < 3 else (200, CHAT)) as (url, server):
        assert (await ask(url, retries=0)).text == "yes"
    assert len(server.heads) == 4


@pytest.mark.parametrize("before", [b"no", b"n" * 262])
async def test_a_server_that_repeats_the_key(before: bytes) -> None:
    """Its words are kept for the report of what went wrong, and the key is left out of them, wherever they are cut."""
    said = b'{"error": {"message": "%b: Incorrect API key provided: sekret-5b1f9c"}}' % before
    async with serving(lambda _: (401, said)) as (url, _):
        with pytest.raises(CompletionError, match="Incorrect API key") as raised:
            await ask(url, api_key="sekret-5b1f9c")
    assert "sek" not in str(raised.value)


@pytest.mark.parametrize("code", ["query_refused", "response_refused", "content_filter", "content_policy_violation"])
async def test_a_filters_refusal_is_a_refusal_of_the_run(code: str) -> None:
    """A filter's refusals are refusals in its words, not errors, and the client keeps sending requests at once."""
    refusal = msgspec.json.encode({"error": {"message": "finds it biased", "code": code}})
    asked = plan(samples=4)

    async with serving(lambda number: (400, refusal) if number % 2 else (200, CHAT)) as (url, _):
        completer = open_client(url)
        await run_plan(asked, completer=completer, log=(log := MemoryLog()))
        await completer.aclose()

    refused = [reply for reply in log.replies if reply.status == "refusal"]
    assert refused
    assert {reply.text for reply in refused} == {f"{code}: status 400: finds it biased"}
    assert {reply.rule for reply in refused} == {REFUSAL_FIELD}
    assert "error" not in {reply.status for reply in log.replies}


async def test_another_rejection_stays_an_error() -> None:
    """A 400 with another code is the server's failure, and a filter's code on a 500 too."""
    answers = [(400, b'{"error": {"message": "m", "code": "invalid_body"}}')]
    answers += [(500, b'{"error": {"message": "m", "code": "content_filter"}}')]
    async with serving(lambda number: answers[number]) as (url, _):
        for status, _ in answers:
            with pytest.raises(CompletionError, match=f"status {status}: m"):
                await ask(url, retries=0)
