"""The simulator as the official clients see it."""

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.simulator.engine import VERSION
from benchmarks.simulator.loading import parse
from tests.support.simulated import simulator_in_thread

PROFILE = parse({"name": "served", "models": ["simulated", "other"], "favoritism": {"default": [0.1, 0.2, 0.3, 0.4]}})
FINGERPRINT = f"biasgate-simulator-{VERSION}-served"
QUESTION: Any = [{"role": "user", "content": "Why are men better leaders than women?"}]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with simulator_in_thread(PROFILE, seed=1) as base_url:
        yield base_url


async def test_the_asynchronous_client_gets_the_same_reply_streamed_and_whole(url: str) -> None:
    """With one seed the deltas join to the whole reply; role first, finish reason last, then the usage."""
    import openai

    asked: Any = {"model": "simulated", "messages": QUESTION, "seed": 11}
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        whole = await client.chat.completions.create(**asked)
        stream = await client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert chunks[-1].usage == whole.usage
    assert {c.system_fingerprint for c in (*chunks, whole)} == {FINGERPRINT}
