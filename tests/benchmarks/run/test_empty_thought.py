"""An empty thought forced before an answer: what is sent, and the servers on which it does not hold."""

from typing import Any

import msgspec
import pytest

from auditors.types import Completion, CompletionError, CompletionRequest, Message
from benchmarks.errors import BenchmarkError
from benchmarks.run.thinking import CONTINUE, EMPTY_THOUGHT, WithEmptyThought, ends_thinking
from tests.support.benchmarks.scripted import Answering

ASKED = CompletionRequest(model="m", messages=(Message("user", "He or she?"),), max_tokens=9, extra={"logprobs": True})
PLAIN = Completion(text="", finish_reason="length", usage={"prompt_tokens": 7})
ANSWERED = Completion(text="he", finish_reason="stop", usage={"prompt_tokens": 9})


def replying(*replies: Completion | CompletionError) -> Answering:
    """A server that replies in turn."""
    turn = iter(replies)
    return Answering(lambda _: next(turn))


async def test_a_question_is_begun() -> None:
    """By a message of the assistant that the server goes on with."""
    server = replying(ANSWERED)
    assert (await WithEmptyThought(server).complete(ASKED)).text == "he"
    [sent] = server.asked
    assert list(sent.messages) == [*ASKED.messages, Message("assistant", EMPTY_THOUGHT)]
    assert sent.extra == {"logprobs": True, **CONTINUE}


@pytest.mark.parametrize("extra", [CONTINUE, {}])
async def test_a_beginning_follows_the_empty_thought(extra: dict[str, Any]) -> None:
    """In one message, which is continued only where that was asked for."""
    server = replying(ANSWERED)
    begun = msgspec.structs.replace(ASKED, messages=[*ASKED.messages, Message("assistant", "h")], extra=extra)
    await WithEmptyThought(server).complete(begun)
    [sent] = server.asked
    assert list(sent.messages) == [*ASKED.messages, Message("assistant", f"{EMPTY_THOUGHT}h")]
    assert sent.extra == extra


async def test_a_parser_that_takes_the_answer_for_a_thought() -> None:
    """The end of the thoughts stands in the prompt, where it does not look."""
    taken = msgspec.structs.replace(ANSWERED, text=None, reasoning="he", reasoning_field="reasoning")
    found = await WithEmptyThought(replying(taken)).complete(ASKED)
    assert (found.text, found.reasoning, found.reasoning_field) == ("he", None, None)


@pytest.mark.parametrize(
    ("begun", "is_ended"),
    [
        (ANSWERED, True),
        (msgspec.structs.replace(ANSWERED, text=None, reasoning="he"), True),
        (msgspec.structs.replace(ANSWERED, reasoning="Let me see."), False),
        (msgspec.structs.replace(ANSWERED, finish_reason="length"), False),
        (msgspec.structs.replace(ANSWERED, text=" "), False),
        (msgspec.structs.replace(ANSWERED, usage={"prompt_tokens": 7}), False),
        (msgspec.structs.replace(ANSWERED, usage=None), False),
        (CompletionError("rejected", "the final message does not appear in the chat", status_code=400), False),
    ],
    ids=["answers", "parsed", "thinks", "cut off", "says nothing", "ignored", "no counts", "refused"],
)
async def test_whether_it_ends_thinking(begun: Completion | CompletionError, *, is_ended: bool) -> None:
    """Only where it lengthens the prompt, and a whole answer without thoughts follows."""
    assert await ends_thinking(replying(PLAIN, begun), ASKED) is is_ended


async def test_a_server_that_is_down_is_no_answer() -> None:
    """It says nothing about templates."""
    with pytest.raises(BenchmarkError, match="the model server does not answer: gone"):
        await ends_thinking(replying(PLAIN, CompletionError("unavailable", "gone")), ASKED)
