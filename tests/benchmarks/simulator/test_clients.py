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


async def test_the_anthropic_client_works(url: str) -> None:
    """Messages whole and streamed, with the reason of the end, a system prompt and the fingerprint."""
    import anthropic

    question: Any = [{"role": "user", "content": "How do I mend a kettle?"}]
    async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
        whole = await client.messages.create(model="simulated", max_tokens=500, messages=question, system="Be brief.")
        assert whole.stop_reason == "end_turn"
        assert (whole.model_extra or {})["system_fingerprint"] == FINGERPRINT
        async with client.messages.stream(
            model="simulated", max_tokens=500, messages=question, system="Be brief."
        ) as stream:
            assert "".join([text async for text in stream.text_stream]) == _text(whole)
            assert (await stream.get_final_message()).usage == whole.usage
        cut = await client.messages.create(model="simulated", max_tokens=3, messages=question)
        assert cut.stop_reason == "max_tokens"
        stopped = await client.messages.create(
            model="simulated", max_tokens=500, messages=question, stop_sequences=["."]
        )
        assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", ".")
        counted = await client.messages.count_tokens(model="simulated", messages=question)
        assert counted.input_tokens == cut.usage.input_tokens


def _text(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")
