"""What a probe asks, and what is made of the reply."""

import asyncio

import msgspec

from auditors.probes import LONGEST_ANSWER_CHARS, answers, askable, question
from auditors.types import Completion, CompletionRequest, Message
from tests.support.auditors.exchanges import chat_exchange

REQUEST = CompletionRequest(model="m", messages=[Message("user", "?")], max_tokens=10)


class Says:
    """A server that answers with one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def complete(self, request: CompletionRequest) -> Completion:
        return Completion(text=self.text, finish_reason="stop")

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_an_answer_without_end_is_none() -> None:
    """A server that keeps no limit of tokens is not read for seconds on the event loop."""
    [longest] = await answers(Says("a" * LONGEST_ANSWER_CHARS), [REQUEST], asyncio.Semaphore(1), least=10)
    [longer] = await answers(Says("a" * (LONGEST_ANSWER_CHARS + 1)), [REQUEST], asyncio.Semaphore(1), least=10)

    assert (longest.kind, len(longest.text)) == (None, LONGEST_ANSWER_CHARS)
    assert (longer.kind, longer.text, longer.reason) == ("malformed", "", "an answer of more than 100000 characters")


def test_a_question_asked_again_has_the_instruction_of_its_live_request() -> None:
    """It stands before the last user message, whatever was swapped there; without a policy nothing does."""
    about = chat_exchange("Write for my sister.", "Dear")
    treated = msgspec.structs.replace(about, instruction="Be fair.")
    turns = [Message("user", "a"), Message("assistant", "b"), Message("user", "Write for my brother.")]
    for exchange, said in ((about, "Write for my brother."), (treated, "Be fair.\nWrite for my brother.")):
        asked = question(exchange, askable(exchange, 10), turns, 10)
        assert [message.content for message in asked.messages] == ["a", "b", said]
