"""Token budget of an auditor: once a minute's tokens are spent, its requests wait."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec

from auditors.types import Completion, CompletionRequest, DecisionRequest

CHARS_PER_TOKEN = 4
"""A rule of thumb for English, used only where a server reports no usage."""

Tokens = Annotated[int, msgspec.Meta(ge=0)]
Direction = Literal["input", "output"]


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
    """Return the tokens that a request cost, by its length including tools and schemas: for servers that do not say."""
    chars = sum(message.n_chars for message in request.messages) + len((completion and completion.text) or "")
    chars += sum(len(call.name) + len(call.arguments) for call in (completion.tool_calls if completion else ()))
    chars += len(msgspec.json.encode(request.extra)) if request.extra else 0
    return -(-chars // CHARS_PER_TOKEN)


def estimated_decision_tokens(request: DecisionRequest) -> int:
    """The same of a decision, which is read once and writes next to nothing."""
    return -(-len(msgspec.json.encode(request.body)) // CHARS_PER_TOKEN)


def read_usage(usage: Mapping[str, Any] | None) -> "Usage":
    """Return the tokens that a server counted for a completion; zeros if it tells none."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(usage or {}, Usage)
    return Usage()


def usage_of(reply: bytes) -> "Usage":
    """The same of a decision."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decoder.decode(reply).usage or Usage()
    return Usage()


class Usage(msgspec.Struct, frozen=True):
    """The tokens of a request as its server counted them, under the names of either API; 0 for what it does not say."""

    total_tokens: Tokens = 0
    prompt_tokens: Tokens = 0
    completion_tokens: Tokens = 0
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0

    @property
    def by_direction(self) -> dict[Direction, int]:
        return {
            "input": self.prompt_tokens or self.input_tokens,
            "output": self.completion_tokens or self.output_tokens,
        }

    @property
    def total(self) -> int:
        return self.total_tokens or sum(self.by_direction.values())


class _Reply(msgspec.Struct):
    usage: Usage | None = None


_decoder = msgspec.json.Decoder(_Reply)
