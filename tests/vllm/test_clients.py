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
