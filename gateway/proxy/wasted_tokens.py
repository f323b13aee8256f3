"""Estimates the cost to a server of an audit that was cut off: a reply that never came has no usage.

The prompt counts in full, by its length, as if it had been read; of the reply as many tokens as fit between the sending
and the end at the server's pace, `max_tokens` at most. So it is too much for a request that still stood in the queue.
"""

from typing import NamedTuple

import msgspec

CHARS_PER_TOKEN = 4
"""A rule of thumb for English."""
SECONDS_PER_TOKEN = 0.02
"""Seconds per token if the server does not say how long it takes."""
LONGEST_READ_BYTES = 1024 * 1024
"""Most bytes of a body that is read: in a longer body the limit of the reply is not looked for."""


class WastedTokens(NamedTuple):
    prompt: int
    generation: int


class _Asked(msgspec.Struct):
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


_read = msgspec.json.Decoder(_Asked).decode


def wasted_tokens(body: bytes, seconds: float, seconds_per_token: float | None = None) -> WastedTokens:
    """Return the tokens wasted on a request with this body that was given up so long after it was sent."""
    generated = int(max(0.0, seconds) / (seconds_per_token or SECONDS_PER_TOKEN))
    most = _longest_reply(body)
    return WastedTokens(-(-len(body) // CHARS_PER_TOKEN), generated if most is None else min(generated, most))


def _longest_reply(body: bytes) -> int | None:
    if len(body) > LONGEST_READ_BYTES:
        return None
    try:
        limits = _read(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return limits.max_completion_tokens or limits.max_tokens
