"""The thoughts of a live answer, in every shape in which servers send them, are no part of what auditors read."""

from typing import Any

import pytest

from auditors.refusal import RefusalAuditor
from auditors.text.conversation import no_text
from auditors.text.readers.exchange import read_conversation
from auditors.types import ONLY_REASONING, Exchange
from gateway.sampling.folding import folded
from tests.support.auditors.exchanges import events, exchange
from tests.support.presence import measured

THOUGHT, ANSWER = "I can't help with that, says my sister.", "Here it is."
CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "Write a letter for a man."}]},
    COMPLETIONS: {"prompt": "Write a letter for a man."},
    RESPONSES: {"input": "Write a letter for a man."},
    MESSAGES: {"messages": [{"role": "user", "content": "Write a letter for a man."}]},
}


def chat(**message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def deltas(*said: dict[str, Any]) -> bytes:
    return events(*({"choices": [{"index": 0, "delta": one}]} for one in said), "[DONE]")


def inside(index: int, block: dict[str, Any], *added: dict[str, Any]) -> list[dict[str, Any]]:
    """One block of a message's stream."""
    begun = {"type": "content_block_start", "index": index, "content_block": block}
    return [begun, *({"type": "content_block_delta", "index": index, "delta": one} for one in added)]


SHAPES: dict[str, tuple[str, dict[str, Any] | bytes]] = {
    "reasoning": (CHAT, chat(content=ANSWER, reasoning=THOUGHT)),
    "reasoning_content": (CHAT, chat(content=ANSWER, reasoning_content=THOUGHT)),
    "parts": (
        CHAT,
        chat(
            content=[
                {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]},
                {"type": "text", "text": ANSWER},
            ]
        ),
    ),
    "inline": (CHAT, chat(content=f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}")),
    "inline, opened by the template": (CHAT, chat(content=f"{THOUGHT}\n</think>\n\n{ANSWER}")),
    "streamed reasoning": (CHAT, deltas({"reasoning": THOUGHT[:9]}, {"reasoning": THOUGHT[9:]}, {"content": ANSWER})),
    "streamed reasoning_content": (CHAT, deltas({"reasoning_content": THOUGHT}, {"content": ANSWER})),
    "streamed inline": (
        CHAT,
        deltas({"content": "<thi"}, {"content": f"nk>{THOUGHT}</th"}, {"content": f"ink>\n{ANSWER}"}),
    ),
    "completion": (COMPLETIONS, {"choices": [{"index": 0, "text": f"<think>{THOUGHT}</think>\n{ANSWER}"}]}),
    "responses": (
        RESPONSES,
        {
            "status": "completed",
            "output": [
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": THOUGHT}]},
                {"type": "message", "content": [{"type": "output_text", "text": ANSWER}]},
            ],
        },
    ),
    "streamed responses": (
        RESPONSES,
        events(
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
            {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": THOUGHT},
            {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message"}},
            {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": ANSWER},
            {"type": "response.completed", "response": {"status": "completed"}},
        ),
    ),
    "messages": (
        MESSAGES,
        {"content": [{"type": "thinking", "thinking": THOUGHT, "signature": "x"}, {"type": "text", "text": ANSWER}]},
    ),
    "streamed messages": (
        MESSAGES,
        events(
            *inside(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": THOUGHT}),
            *inside(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": ANSWER}),
            {"type": "message_stop"},
        ),
    ),
    "kept back": (
        CHAT,
        chat(content=ANSWER)
        | {"usage": {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}},
    ),
}


def of_shape(name: str, *, is_folded: bool) -> Exchange:
    endpoint, answer = SHAPES[name]
    found = exchange(ASKED[endpoint], answer, endpoint=endpoint, stream=isinstance(answer, bytes))
    return folded(found, None) if is_folded else found


@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize("name", SHAPES)
async def test_thoughts_are_no_part_of_the_answer(name: str, is_folded: bool) -> None:
    """As it came and as it is stored: the text is the answer alone, and a refusal in a thought is none."""
    about = of_shape(name, is_folded=is_folded)
    found = read_conversation(about)
    assert (found.reply_text, found.thinks, found.refusal) == (ANSWER, True, None)
    assert found.begins_in_thought == (name == "inline, opened by the template")
    result = measured(await RefusalAuditor().audit(about))
    assert {one.value for one in result if one.metric == "refusal_rate"} == {0.0}


@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize(
    "message", [{"content": None, "reasoning": THOUGHT}, {"content": f"<think>{THOUGHT}"}], ids=["apart", "inline"]
)
async def test_an_answer_that_ended_within_its_thoughts(message: dict[str, Any], is_folded: bool) -> None:
    """It has no text, for a reason of its own; whether it would have declined nobody can tell."""
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
    about = exchange(ASKED[CHAT], answer)
    about = folded(about, None) if is_folded else about
    found = read_conversation(about)
    assert found.reply_text == ""
    assert no_text(found).reason == "thinking_exhausted"
    result = measured(await RefusalAuditor().audit(about))
    assert {(one.value, one.reason) for one in result if one.metric == "refusal_rate"} == {(None, ONLY_REASONING)}
