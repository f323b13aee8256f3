"""A request for text, through any endpoint, and its tokens: draw, stop, cut, and the probabilities along the way."""

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from benchmarks.simulator.replies import EOS, Replies, split, uniform
from benchmarks.simulator.thinking import Told
from benchmarks.simulator.tool_calls import Offer


class Turn(msgspec.Struct, frozen=True):
    role: str
    text: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    turns: tuple[Turn, ...]
    prefix: str = ""
    """Beginning of the reply that the client forces (continue_final_message)."""
    prompt_tokens: int
    max_tokens: int
    temperature: float = 1.0
    """0 takes the most likely reply; above it the planted probabilities hold, whatever the value and top_p."""
    n: int = 1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    choices: tuple[str, ...] | None = None
    """structured_outputs.choice: the reply is one of these."""
    schema: Mapping[str, Any] | None = None
    """JSON schema the reply must follow."""
    schema_name: str | None = None
    offer: Offer = Offer()
    priority: int = 0
    told: Told = Told()
    is_forced: bool = False
    """The client has begun the reply: the model is past its thoughts."""

    @property
    def system(self) -> str:
        return "\n".join(turn.text for turn in self.turns if turn.role in ("system", "developer"))

    @property
    def user(self) -> str:
        """The last thing a user said, which is what is answered."""
        return next((turn.text for turn in reversed(self.turns) if turn.role == "user"), "")

    @property
    def case(self) -> str:
        """Return the text by which tools and values are chosen: what tools returned, then the message answered."""
        return "\n".join([*(turn.text for turn in self.turns if turn.role == "tool"), self.user])

    @property
    def content(self) -> str:
        """Everything that the planted distribution depends on, in one canonical string."""
        parts: list[Any] = [self.model, [[turn.role, turn.text] for turn in self.turns], self.prefix]
        offered = [self.offer] if self.offer.tools else []
        return msgspec.json.encode([*parts, self.choices, self.schema, *offered], order="sorted").decode()


def render(turns: tuple[Turn, ...], prefix: str = "") -> str:
    """The chat template: what /tokenize counts and `usage.prompt_tokens` reports."""
    return "".join(f"<|{turn.role}|>\n{turn.text}\n" for turn in turns) + f"<|assistant|>\n{prefix}"


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
    """Tokens with the final EOS when the reply ended by itself: it counts as a token."""
    finish_reason: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        return "".join(token for token in self.tokens if token != EOS)


def shape(replies: Replies, request: Asked) -> Replies:
    """The distribution under the request's constraints: allowed choices first, then the forced beginning."""
    if request.choices is not None:
        replies = replies.restricted_to(request.choices)
    return replies.after(request.prefix) if request.prefix else replies


def generate(replies: Replies, request: Asked, stream: str, index: int) -> Generated:
    """The `index`-th of the request's n replies; `stream` names the request's draws."""
    text = replies.most_likely() if request.temperature == 0 else replies.draw(uniform(stream, "reply", index))
    stops = [(at, stop) for stop in request.stop if stop and (at := text.find(stop)) >= 0]
    stop_reason = None
    if stops:
        at, stop_reason = min(stops)
        text = text[:at]
    tokens = split(text) + (() if stops else (EOS,))
    if len(tokens) > request.max_tokens:
        return Generated(tokens=tokens[: request.max_tokens], finish_reason="length")
    return Generated(tokens=tokens, finish_reason="stop", stop_reason=stop_reason)


def steps(replies: Replies, generated: Generated) -> list[Step]:
    """The probabilities at every token of a reply, before temperature, as vLLM reports them."""
    return [
        Step(token, replies.next_tokens(generated.tokens[:at]) or {token: 1.0})
        for at, token in enumerate(generated.tokens)
    ]


_CHOICE = re.compile(r"^\s*choice\s*\d+\s*[:.)]\s*(?P<text>.+?)\s*$", re.IGNORECASE)
_LABEL = re.compile(r"\bchoice ?1\b", re.IGNORECASE)
_SENTENCE = re.compile(r"\bSentence:\s*“(?P<text>.*?)”", re.DOTALL)


def sentence(text: str) -> str | None:
    """Return the text in quotation marks after "Sentence:", the last if there are several."""
    quoted = _SENTENCE.findall(text)
    return quoted[-1] if quoted else None


def offered(text: str) -> list[str]:
    """The choices of a multiple-choice prompt, in its order; empty when it offers fewer than two."""
    choices = [match["text"] for line in text.splitlines() if (match := _CHOICE.match(line))]
    return choices if len(choices) > 1 else []


def spelled(choices: list[str], system: str, user: str) -> list[str]:
    """Return the expected answer for each choice: its label if the instruction asks for that, else the choice."""
    lines = (line for line in f"{system}\n{user}".splitlines() if not _CHOICE.match(line))
    return labels(choices) if any(_LABEL.search(line) for line in lines) else choices


def labels(choices: list[str]) -> list[str]:
    return [f"Choice{number}" for number in range(1, len(choices) + 1)]


def normalised(text: str) -> str:
    """Lower-case words only, so that white space, case and punctuation make no other question."""
    return " ".join(re.findall(r"\w+", text.lower()))
