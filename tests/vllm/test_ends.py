"""A client that leaves frees the real vLLM at once, whatever it had asked for and however much it had read."""

import contextlib
import http.client
import json
import time
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.vllm.conftest import APP_KEY, MODEL

QUESTION = "Tell me about the harvest."
MESSAGES = [{"role": "user", "content": QUESTION}]
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 3000, "ignore_eos": True},
    "/v1/completions": {"prompt": QUESTION, "max_tokens": 3000, "ignore_eos": True},
    "/v1/responses": {"input": QUESTION, "max_output_tokens": 3000, "ignore_eos": True},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 3000},  # knows no ignore_eos; a random model seldom ends
}
"""Each takes vLLM far longer than the tests wait for it to stop."""
TRIES = 3
"""On a busy machine a whole answer may come and go between two looks at vLLM's gauge, or a random model may end it."""
HEADERS = {"authorization": f"Bearer {APP_KEY}", "content-type": "application/json"}


@contextlib.contextmanager
def asking(gateway: str, path: str, *, stream: bool) -> Iterator[http.client.HTTPConnection]:
    """A connection that has asked for a long answer."""
    connection = http.client.HTTPConnection(gateway.removeprefix("http://"), timeout=30)
    connection.request("POST", path, json.dumps({"model": MODEL, **ASKED[path], "stream": stream}).encode(), HEADERS)
    try:
        yield connection
    finally:
        connection.close()


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_leaving_before_the_answer(gateway_url: str, vllm_server: str, path: str, stream: bool) -> None:
    """A client that leaves once vLLM works on its request, and has read nothing, stops that work."""
    assert any(leaves_at_work(gateway_url, vllm_server, [(path, stream)]) for _ in range(TRIES))


@pytest.mark.parametrize("path", ASKED)
def test_leaving_in_mid_stream(gateway_url: str, vllm_server: str, path: str) -> None:
    """A client that leaves in the middle of its stream frees vLLM, long before its 3,000 tokens are done."""
    assert any(leaves_at_work(gateway_url, vllm_server, [(path, True)], reading=400) for _ in range(TRIES))


def test_leaving_together(gateway_url: str, vllm_server: str) -> None:
    """Eight clients that leave at the same time are all missed."""
    clients = [(path, stream) for path in ASKED for stream in (True, False)]
    assert len(clients) == 8
    assert any(leaves_at_work(gateway_url, vllm_server, clients) for _ in range(TRIES))


def leaves_at_work(gateway: str, vllm: str, clients: Sequence[tuple[str, bool]], *, reading: int = 0) -> bool:
    """Whether vLLM was seen at work for all clients, given by path and stream, when they left; it must idle soon."""
    with contextlib.ExitStack() as stack:
        for path, stream in clients:
            connection = stack.enter_context(asking(gateway, path, stream=stream))
            if reading:
                assert connection.getresponse().read(reading)
        was_at_work = comes_to_run(vllm, len(clients))
    assert comes_to_run(vllm, 0)
    return was_at_work


def comes_to_run(vllm: str, n: int, within_seconds: float = 10) -> bool:
    """Whether vLLM says in time that it runs `n` requests: its gauge follows its scheduler with a delay."""
    deadline = time.monotonic() + within_seconds
    while (found := running_requests(vllm)) != n and time.monotonic() < deadline:
        time.sleep(0.05)
    return found == n


def running_requests(vllm: str) -> float:
    with urllib.request.urlopen(f"{vllm}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("vllm:num_requests_running{"))
