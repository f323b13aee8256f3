"""Asking over HTTP: retries and failures, against a real server on loopback."""

import asyncio
from typing import Any

import msgspec
import pytest

from auditors.clients.completion import EmbeddingClient, HttpCompleter
from auditors.types import Completer, CompletionError, CompletionRequest, Message
from tests.support.auditors.scripted import Asked, Reply, chat, scripted_completer, scripted_server

REQUEST = CompletionRequest(model="m", messages=[Message("user", "Hi")], max_tokens=5)


def replies(*each: Reply) -> Any:
    """A script that gives one reply after the other."""
    left = list(each)
    return lambda _: left.pop(0)


class TestHttpCompleter:
    async def test_it_asks_and_reads(self) -> None:
        """The path, key, priority and body arrive; the text comes back."""
        async with scripted_server(lambda _: chat("Hello")) as server:
            completer: Completer = HttpCompleter(f"{server.base_url}/v1/", "secret", priority=10)
            completion = await completer.complete(REQUEST)
            await completer.aclose()

        assert completion.text == "Hello"
        asked = server.asked[0]
        assert (asked.path, asked.json["priority"]) == ("/v1/chat/completions", 10)
        assert asked.headers["authorization"] == "Bearer secret"

    async def test_passing_failures_are_retried(self) -> None:
        """A 503 and a 429 are asked again, the answer counts."""
        script = replies(Reply(b"", 503), Reply(b"", 429, {"retry-after": "0"}), chat("Hello"))
        async with scripted_completer(script, retries=2) as (completer, server):
            assert (await completer.complete(REQUEST)).text == "Hello"

        assert len(server.asked) == 3

    async def test_a_rejection_is_not_retried(self) -> None:
        """A server that does not take the request is asked once, and its words are kept."""
        body = b'{"error": {"message": "response_format is not supported"}}'
        async with scripted_completer(lambda _: Reply(body, 400), retries=2) as (completer, server):
            with pytest.raises(CompletionError, match="response_format is not supported") as caught:
                await completer.complete(REQUEST)

        assert (caught.value.kind, len(server.asked)) == ("rejected", 1)

    async def test_a_slow_server_times_out_once(self) -> None:
        """A timeout is not asked again: the server is busy enough."""
        late = chat("late")._replace(delay=1.0)
        async with scripted_completer(lambda _: late, timeout=0.1, retries=2) as (completer, server):
            with pytest.raises(CompletionError, match=r"no reply within 0\.1 s") as caught:
                await completer.complete(REQUEST)

        assert (caught.value.kind, len(server.asked)) == ("timeout", 1)

    async def test_concurrency_is_bounded(self) -> None:
        """No more requests than allowed are in flight."""
        slow = chat("Hello")._replace(delay=0.02)
        async with scripted_completer(lambda _: slow, max_concurrency=2) as (completer, server):
            await asyncio.gather(*(completer.complete(REQUEST) for _ in range(8)))

        assert (server.most_in_flight, len(server.asked)) == (2, 8)


class TestEmbeddingClient:
    async def test_vectors_come_in_the_order_of_the_texts(self) -> None:
        """Rows are put in order by their index."""

        def script(asked: Asked) -> Reply:
            rows = [{"index": i, "embedding": [float(i), 1.0]} for i in range(len(asked.json["input"]))]
            return Reply(msgspec.json.encode({"data": rows[::-1]}))

        async with scripted_server(script) as server:
            client = EmbeddingClient(server.base_url)
            assert await client.embed("e", ["a", "b"]) == [[0.0, 1.0], [1.0, 1.0]]
            await client.aclose()

        assert (server.asked[0].path, server.asked[0].json["model"]) == ("/v1/embeddings", "e")

    @pytest.mark.parametrize("body", [b"{}", b'{"data": []}', b'{"data": [{"index": 0, "embedding": ["x"]}]}'])
    async def test_a_missing_vector_is_malformed(self, body: bytes) -> None:
        """A reply without every vector is no reply."""
        async with scripted_server(lambda _: Reply(body)) as server:
            client = EmbeddingClient(server.base_url)
            with pytest.raises(CompletionError) as caught:
                await client.embed("e", ["a"])
            await client.aclose()

        assert caught.value.kind == "malformed"
