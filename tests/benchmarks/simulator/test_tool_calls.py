"""Calls of tools on the wire: as vLLM frames them, and as the official clients read them."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from benchmarks.simulator.loading import parse
from tests.support.simulated import simulator_in_thread

SCHEMA = {"type": "object", "properties": {"tone": {"enum": ["warm", "curt"]}, "count": {"type": "integer"}}}
FIRST, OTHER = {"tone": "warm", "count": 0}, {"tone": "curt", "count": 1}
NAMES = ("send", "escalate")
TOOLS: list[Any] = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]
NAMED: Any = {"type": "function", "function": {"name": "escalate"}}
ASKED: list[Any] = [{"role": "user", "content": "Write a letter for my sister, please."}]
PROFILE = parse({"name": "calls", "structured": {"tool": {"default": 0.5}, "values": {"default": 0.5}}})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with simulator_in_thread(PROFILE) as base_url:
        yield base_url


@pytest_asyncio.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=10.0) as client:
        yield client


@pytest.mark.parametrize(
    ("choice", "content", "finish_reason"),
    [("auto", None, "tool_calls"), ("required", "", "tool_calls"), (NAMED, "", "stop")],
)
async def test_the_openai_client_reads_a_call_streamed_and_whole(
    http: httpx.AsyncClient, choice: Any, content: str | None, finish_reason: str
) -> None:
    """With one seed the deltas join to the whole reply: the name first, then the arguments piece by piece."""
    import openai

    asked: Any = {"model": "simulated", "messages": ASKED, "tools": TOOLS, "tool_choice": choice}
    async with openai.AsyncOpenAI(base_url=f"{http.base_url}/v1", api_key="none", max_retries=0) as client:
        for seed in range(8):
            whole = (await client.chat.completions.create(**asked, seed=seed)).choices[0]
            assert (whole.finish_reason, whole.message.content) == (finish_reason, content)
            assert whole.message.tool_calls is not None
            [call] = whole.message.tool_calls
            assert isinstance(call, openai.types.chat.ChatCompletionMessageFunctionToolCall)
            assert json.loads(call.function.arguments) in (FIRST, OTHER)
            assert call.function.name in (["escalate"] if choice is NAMED else NAMES)

            stream = await client.chat.completions.create(**asked, seed=seed, stream=True)
            choices = [chunk.choices[0] async for chunk in stream]
            deltas = [one for choice in choices for one in choice.delta.tool_calls or []]
            assert [one.id for one in deltas] == [call.id] + [None] * (len(deltas) - 1)
            assert (deltas[0].index, deltas[0].function) == (
                0,
                openai.types.chat.chat_completion_chunk.ChoiceDeltaToolCallFunction(name=call.function.name),
            )
            pieces = [one.function.arguments or "" for one in deltas[1:] if one.function]
            assert len(pieces) > 3
            assert "".join(pieces) == call.function.arguments
            assert not any(choice.delta.content for choice in choices)
            assert [choice.finish_reason for choice in choices] == [None] * (len(choices) - 1) + [finish_reason]


async def test_no_call_is_made_that_nobody_wants(http: httpx.AsyncClient) -> None:
    """With the choice "none" the answer is words."""
    said = await http.post("/v1/chat/completions", json={"messages": ASKED, "tools": TOOLS, "tool_choice": "none"})
    message = said.json()["choices"][0]["message"]
    assert (message["tool_calls"], bool(message["content"])) == ([], True)
