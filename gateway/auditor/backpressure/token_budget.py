"""Token budget of an auditor: once a minute's tokens are spent, its requests wait."""

import asyncio
import time

import msgspec

from auditors.types import Completion, CompletionRequest, DecisionRequest

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
    """Return the tokens that a request cost, by its length including tools and schemas: for servers that do not say."""
    chars = sum(message.n_chars for message in request.messages) + len((completion and completion.text) or "")
    chars += sum(len(call.name) + len(call.arguments) for call in (completion.tool_calls if completion else ()))
    chars += len(msgspec.json.encode(request.extra)) if request.extra else 0
    return -(-chars // CHARS_PER_TOKEN)


def estimated_decision_tokens(request: DecisionRequest) -> int:
    """The same of a decision, which is read once and writes next to nothing."""
    return -(-len(msgspec.json.encode(request.body)) // CHARS_PER_TOKEN)


def used_tokens(reply: bytes) -> int | None:
    """Return the tokens that a decision cost by the server's own count; None if it tells none."""
    try:
        usage = _decoder.decode(reply).usage
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    used = usage.total_tokens or usage.input_tokens + usage.output_tokens if usage is not None else 0
    return used if used > 0 else None


class _Usage(msgspec.Struct):
    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class _Reply(msgspec.Struct):
    usage: _Usage | None = None


_decoder = msgspec.json.Decoder(_Reply)
