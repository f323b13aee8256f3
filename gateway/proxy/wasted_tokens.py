"""Estimates the tokens of an audit that was cut off, which reports no usage: all of the prompt, by its length, and of
the reply what fits into the time at the server's pace, up to `max_tokens`. Too many for a request still queued.
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
