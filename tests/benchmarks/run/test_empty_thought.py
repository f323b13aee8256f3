"""An empty thought forced before an answer: what is sent, and the servers on which it does not hold."""

from typing import Any

import msgspec
import pytest

from auditors.types import Completion, CompletionError, CompletionRequest, Message
from benchmarks.errors import BenchmarkError
from benchmarks.run.thinking import CONTINUE, EMPTY_THOUGHT, WithEmptyThought, ends_thinking

ASKED = CompletionRequest(model="m", messages=(Message("user", "He or she?"),), max_tokens=9, extra={"logprobs": True})
PLAIN = Completion(text="", finish_reason="length", usage={"prompt_tokens": 7})
ANSWERED = Completion(text="he", finish_reason="stop", usage={"prompt_tokens": 9})


class Server:
    """Replies in turn; an exception is raised."""

    def __init__(self, *replies: Completion | CompletionError) -> None:
        self.asked = list[CompletionRequest]()
        self._replies = iter(replies)

    async def complete(self, request: CompletionRequest) -> Completion:
        self.asked.append(request)
        reply = next(self._replies)
        if isinstance(reply, CompletionError):
            raise reply
        return reply

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_a_question_is_begun() -> None:
    """By a message of the assistant that the server goes on with."""
    server = Server(ANSWERED)
    assert (await WithEmptyThought(server).complete(ASKED)).text == "he"
    [sent] = server.asked
    assert list(sent.messages) == [*ASKED.messages, Message("assistant", EMPTY_THOUGHT)]
    assert sent.extra == {"logprobs": True, **CONTINUE}


@pytest.mark.parametrize("extra", [CONTINUE, {}])
async def test_a_beginning_follows_the_empty_thought(extra: dict[str, Any]) -> None:
    """In one message, which is continued only where that was asked for."""
    server = Server(ANSWERED)
    begun = msgspec.structs.replace(ASKED, messages=[*ASKED.messages, Message("assistant", "h")], extra=extra)
    await WithEmptyThought(server).complete(begun)
    [sent] = server.asked
    assert list(sent.messages) == [*ASKED.messages, Message("assistant", f"{EMPTY_THOUGHT}h")]
    assert sent.extra == extra


async def test_a_parser_that_takes_the_answer_for_a_thought() -> None:
    """The end of the thoughts stands in the prompt, where it does not look."""
    taken = msgspec.structs.replace(ANSWERED, text=None, reasoning="he", reasoning_field="reasoning")
    found = await WithEmptyThought(Server(taken)).complete(ASKED)
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
    assert await ends_thinking(Server(PLAIN, begun), ASKED) is is_ended


async def test_a_server_that_is_down_is_no_answer() -> None:
    """It says nothing about templates."""
    with pytest.raises(BenchmarkError, match="the model server does not answer: gone"):
        await ends_thinking(Server(PLAIN, CompletionError("unavailable", "gone")), ASKED)
