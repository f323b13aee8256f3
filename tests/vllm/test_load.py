"""What the limiter reads of a real vLLM's page is there, and moves with what the server does."""

import asyncio

import httpx

from gateway.auditor.backpressure.vllm_load import Load, LoadReader
from tests.vllm.conftest import MODEL

TOKENS = 50


async def ask(http: httpx.AsyncClient, tokens: int = TOKENS) -> None:
    body = {"model": MODEL, "prompt": "Once", "max_tokens": tokens, "ignore_eos": True}
    (await http.post("/v1/completions", json=body)).raise_for_status()


async def look(reader: LoadReader) -> Load:
    load = await reader.poll()
    assert load is not None
    return load


async def test_time_between_tokens_is_counted(vllm_server: str) -> None:
    """Every token but an answer's first adds one to the count, and less than the answer's time to the sum."""
    reader = LoadReader(vllm_server)
    async with httpx.AsyncClient(base_url=vllm_server, trust_env=False, timeout=60) as http:
        await ask(http)
        before, began = await look(reader), asyncio.get_running_loop().time()
        await ask(http)
        seconds = asyncio.get_running_loop().time() - began
        after = await look(reader)
    await reader.aclose()
    assert after.tokens - before.tokens == TOKENS - 1
    assert 0 < after.token_seconds - before.token_seconds < seconds
