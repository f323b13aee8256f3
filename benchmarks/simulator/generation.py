"""From a planted distribution to the tokens of a reply: draw, stop, cut, and the probabilities along the way."""

import math
from collections.abc import Mapping

import msgspec

from benchmarks.simulator.draws import uniform
from benchmarks.simulator.replies import Replies
from benchmarks.simulator.text_request import Asked
from benchmarks.simulator.tokens import EOS, split

FLOOR = -9999.0
"""Log-probability reported for an impossible token, as vLLM does, because JSON has no infinity."""


class Step(msgspec.Struct, frozen=True):
    token: str
    """A piece of text, or EOS."""
    probabilities: Mapping[str, float]
    """P(next token | reply so far), of every token that can come."""

    @property
    def text(self) -> str:
        return "" if self.token == EOS else self.token

    def logprob(self, token: str) -> float:
        p = self.probabilities.get(token, 0.0)
        return math.log(p) if p > 0 else FLOOR

    def ranked(self) -> list[str]:
        """Possible tokens, most likely first."""
        return sorted(self.probabilities, key=lambda token: (-self.probabilities[token], token))


class Generated(msgspec.Struct, frozen=True, kw_only=True):
    tokens: tuple[str, ...]
    """With the final EOS when the reply ended by itself: it counts as a token."""
    finish_reason: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        return "".join(token for token in self.tokens if token != EOS)


def shape(replies: Replies, asked: Asked) -> Replies:
    """The distribution under the request's constraints: allowed choices first, then the forced beginning."""
    if asked.choices is not None:
        replies = replies.restricted_to(asked.choices)
    return replies.after(asked.prefix) if asked.prefix else replies


def generate(replies: Replies, asked: Asked, stream: str, index: int) -> Generated:
    """The `index`-th of the request's n replies; `stream` names the request's draws."""
    text = replies.most_likely() if asked.temperature == 0 else replies.draw(uniform(stream, "reply", index))
    found = [(at, stop) for stop in asked.stop if stop and (at := text.find(stop)) >= 0]
    stop_reason = None
    if found:
        at, stop_reason = min(found)
        text = text[:at]
    tokens = split(text) + (() if found else (EOS,))
    if len(tokens) > asked.max_tokens:
        return Generated(tokens=tokens[: asked.max_tokens], finish_reason="length")
    return Generated(tokens=tokens, finish_reason="stop", stop_reason=stop_reason)


def steps(replies: Replies, generated: Generated) -> list[Step]:
    """The probabilities at every token of a reply, before temperature, as vLLM reports them."""
    return [
        Step(token, replies.next_tokens(generated.tokens[:at]) or {token: 1.0})
        for at, token in enumerate(generated.tokens)
    ]
