"""Calls of tools on the wire: as vLLM frames them, and as the official clients read them."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from benchmarks.simulator.loading import parse
from tests.support.simulated import running_simulator, simulator_in_thread

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


async def test_every_reply_has_a_call_of_its_own(http: httpx.AsyncClient) -> None:
    """Several replies to one request draw their calls apart, under ids of their own; usage counts their tokens."""
    body = {"messages": ASKED, "tools": TOOLS, "n": 40, "logprobs": True}
    said = (await http.post("/v1/chat/completions", json=body)).json()
    calls = [choice["message"]["tool_calls"][0] for choice in said["choices"]]
    assert len({call["id"] for call in calls}) == 40
    assert {call["function"]["name"] for call in calls} == set(NAMES)
    assert said["usage"]["completion_tokens"] == sum(len(one["logprobs"]["content"]) for one in said["choices"])


async def test_a_call_that_was_cut_off(http: httpx.AsyncClient) -> None:
    """Read whole it is a text, as for vLLM's parser; streamed it is a call that has begun."""
    body = {"messages": ASKED, "tools": TOOLS, "max_tokens": 30}
    choice = (await http.post("/v1/chat/completions", json=body)).json()["choices"][0]
    assert (choice["finish_reason"], choice["message"]["tool_calls"]) == ("length", [])
    assert choice["message"]["content"].startswith("<tool_call>")
    events = (await http.post("/v1/chat/completions", json={**body, "stream": True})).text.split("\n\n")[:-2]
    choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    functions = [call["function"] for one in choices for call in one["delta"].get("tool_calls", ())]
    assert functions[0]["name"] in NAMES
    arguments = "".join(function.get("arguments", "") for function in functions[1:])
    assert '{"tone":"warm","count":0}'.startswith(arguments) or '{"tone":"curt","count":1}'.startswith(arguments)
    assert choices[-1]["finish_reason"] == "length"


async def test_thoughts_stand_before_a_call() -> None:
    """A model that thinks has its thoughts in their field and its call in its own, streamed and whole."""
    profile = parse({"name": "t", "thinking": {"switch": "template"}, "structured": {"tool": {}}})
    body = {"messages": ASKED, "tools": TOOLS, "seed": 1}
    async with running_simulator(profile) as url, httpx.AsyncClient(base_url=url) as http:
        message = (await http.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]
        events = (await http.post("/v1/chat/completions", json={**body, "stream": True})).text.split("\n\n")[1:-2]
    deltas = [json.loads(event.removeprefix("data: "))["choices"][0]["delta"] for event in events]
    assert message["content"] is None
    assert "".join(delta.get("reasoning", "") for delta in deltas) == message["reasoning"] != ""
    functions = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
    assert message["tool_calls"][0]["function"] == {
        "name": functions[0]["name"],
        "arguments": "".join(function["arguments"] for function in functions[1:]),
    }


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tool_choice": "required"}, "`tools` must be set"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "send_"}}}, "does not match any"),
        ({"tools": TOOLS, "tool_choice": 5}, "Invalid value for `tool_choice`: 5!"),
        ({"tools": [{"type": "function"}]}, "function"),
        ({"tools": [{"type": "web_search", "function": {"name": "f"}}]}, "web_search"),
    ],
)
async def test_a_bad_request_is_refused(http: httpx.AsyncClient, fields: dict[str, Any], words: str) -> None:
    """400 that says what is wrong."""
    refused = await http.post("/v1/chat/completions", json={"messages": ASKED, **fields})
    assert refused.status_code == 400
    assert words in refused.json()["error"]["message"]
