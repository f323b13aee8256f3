"""What is made of the reply to a probe."""

import asyncio

from auditors.probes import LONGEST_ANSWER_CHARS, answers
from auditors.types import Completion, CompletionRequest, Message

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
