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
CLAUDE_TOOLS: list[Any] = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
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


@pytest.mark.parametrize(
    "choice", [None, {"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "escalate"}], ids=str
)
async def test_the_anthropic_client_reads_a_call_streamed_and_whole(http: httpx.AsyncClient, choice: Any) -> None:
    """One block of the call alone; streamed, its arguments come in pieces."""
    import anthropic

    asked: Any = {"model": "simulated", "max_tokens": 200, "messages": ASKED, "tools": CLAUDE_TOOLS}
    asked |= {} if choice is None else {"tool_choice": choice}
    async with anthropic.AsyncAnthropic(base_url=str(http.base_url), api_key="none", max_retries=0) as client:
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            kinds = [event.type async for event in stream]
            joined = await stream.get_final_message()
    for message in (whole, joined):
        assert (message.stop_reason, [block.type for block in message.content]) == ("tool_use", ["tool_use"])
        [block] = message.content
        assert isinstance(block, anthropic.types.ToolUseBlock)
        assert block.input in (FIRST, OTHER)
        assert block.name in (["escalate"] if choice and choice["type"] == "tool" else NAMES)
    assert kinds.count("input_json") > 3
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 1


async def test_no_call_is_made_that_nobody_wants(http: httpx.AsyncClient) -> None:
    """With the choice "none" both endpoints answer in words."""
    said = await http.post("/v1/chat/completions", json={"messages": ASKED, "tools": TOOLS, "tool_choice": "none"})
    message = said.json()["choices"][0]["message"]
    assert (message["tool_calls"], bool(message["content"])) == ([], True)
    body = {"messages": ASKED, "max_tokens": 200, "tools": CLAUDE_TOOLS, "tool_choice": {"type": "none"}}
    assert [block["type"] for block in (await http.post("/v1/messages", json=body)).json()["content"]] == ["text"]
