"""Official client libraries, unaware of the gateway, against real vLLM."""

from collections.abc import Iterator

import anthropic
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.vllm.conftest import APP_KEY, MODEL

QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Who came to the market?"}]


@pytest.fixture
def client(gateway_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway_url}/v1", api_key=APP_KEY, max_retries=0) as opened:
        yield opened


def test_openai_chat(client: openai.OpenAI) -> None:
    """The synchronous client gets a completion with usage and vLLM's own fingerprint."""
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8)
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens <= 8
    assert (answer.system_fingerprint or "").startswith("vllm-")


def test_openai_chat_stream(client: openai.OpenAI) -> None:
    """Streaming with a fixed seed gives the same text as the whole reply."""
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=24, temperature=0, seed=7)
    stream = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=24, temperature=0, seed=7, stream=True
    )
    chunks = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert len(chunks) > 3
    assert "".join(chunks) == whole.choices[0].message.content


async def test_openai_async(gateway_url: str) -> None:
    """The asynchronous client works, whole and streaming, over one connection pool."""
    async with openai.AsyncOpenAI(base_url=f"{gateway_url}/v1", api_key=APP_KEY, max_retries=0) as client:
        whole = await client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8)
        stream = await client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8, stream=True)
        reasons = [chunk.choices[0].finish_reason async for chunk in stream]
    assert whole.choices[0].finish_reason in {"length", "stop"}
    assert reasons[-1] in {"length", "stop"}


def test_openai_completions_with_logprobs(client: openai.OpenAI) -> None:
    """The older completions endpoint passes too, log-probabilities included."""
    answer = client.completions.create(model=MODEL, prompt="The bridge carries", max_tokens=4, logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.token_logprobs
    assert all(value is not None and value <= 0 for value in logprobs.token_logprobs)


def test_openai_wrong_key(gateway_url: str) -> None:
    """A wrong key is an authentication error of the client library."""
    with (
        openai.OpenAI(base_url=f"{gateway_url}/v1", api_key="not-a-key", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        client.chat.completions.create(model=MODEL, messages=QUESTION)
    assert caught.value.code == "unauthorized"


def test_anthropic_messages(gateway_url: str) -> None:
    """The Anthropic client, which sends x-api-key, gets a message."""
    with anthropic.Anthropic(base_url=gateway_url, api_key=APP_KEY, max_retries=0) as client:
        answer = client.messages.create(
            model=MODEL, max_tokens=8, messages=[{"role": "user", "content": "Good morning"}]
        )
    assert answer.content[0].type == "text"
    assert answer.usage.output_tokens <= 8


def test_anthropic_stream(gateway_url: str) -> None:
    """The Anthropic client's event stream arrives whole and in order."""
    with (
        anthropic.Anthropic(base_url=gateway_url, api_key=APP_KEY, max_retries=0) as client,
        client.messages.stream(
            model=MODEL, max_tokens=16, messages=[{"role": "user", "content": "Good morning"}]
        ) as stream,
    ):
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert final.stop_reason in {"max_tokens", "end_turn"}
