"""Token budget of an auditor: once a minute's tokens are spent, its requests wait."""

import asyncio
import time

from auditors.types import Completion, CompletionRequest

CHARS_PER_TOKEN = 4
"""A rule of thumb for English, used only where a server reports no usage."""


class TokenBudget:
    """Holds back requests once a minute's tokens are spent; what a request cost is known only afterwards."""

    def __init__(self, tokens_per_minute: int | None) -> None:
        self._rate = (tokens_per_minute or 0) / 60.0
        self._limit = float(tokens_per_minute or 0)
        self._left = self._limit
        self._at = time.monotonic()

    async def wait(self) -> None:
        """Returns once what is overdrawn now has been earned back."""
        if self._rate and (left := self._refilled()) <= 0:
            await asyncio.sleep(-left / self._rate)

    def spend(self, tokens: int) -> None:
        self._left = self._refilled() - tokens

    def _refilled(self) -> float:
        now = time.monotonic()
        self._left = min(self._limit, self._left + (now - self._at) * self._rate)
        self._at = now
        return self._left


def estimated_tokens(request: CompletionRequest, completion: Completion | None = None) -> int:
    """What a request cost, by its length: for servers that do not say."""
    chars = sum(len(message.content) for message in request.messages) + len((completion and completion.text) or "")
    return -(-chars // CHARS_PER_TOKEN)
