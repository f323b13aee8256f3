"""The likelihood of a text as the answer to a conversation, by vLLM's `prompt_logprobs`: request and reply.
The answer is the assistant's last message, closed by the template.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.text.conversation import Conversation
from auditors.types import CompletionError, DecisionRequest, Message

LARGEST_NATS = 10.0
"""Nats of an answer beyond which a value counts as this: an answer 22,000 times as likely on a side."""
LARGEST_NATS_PER_TOKEN = 1.0
AS_SCORED = "temperature 1"
OTHERWISE = "other sampling"

PATH = "/v1/chat/completions"
TEMPLATE_FIELDS = frozenset({"tools", "chat_template", "chat_template_kwargs", "reasoning_effort"})
"""Fields of a request that a chat template reads."""
_HARMLESS = TEMPLATE_FIELDS | {"stop", "tool_choice", "parallel_tool_calls"}
_ENDED = frozenset({"stop", "end_turn", "completed"})


class NoLogprobsError(Exception):
    """The server does not tell the log-probabilities of a prompt."""


class Word(NamedTuple):
    """A word of an answer with the blanks before it."""

    text: str
    nats: float
    """Log-probability of the tokens that begin in it."""


class Scored(NamedTuple):
    """An answer with its log-probabilities, given the conversation."""

    words: Sequence[Word]
    end: float | None
    """Log-probability of the token that follows it; None if the template puts none there."""
    n_tokens: int

    def total(self, *, has_end: bool) -> float:
        """Return the log-probability of the whole answer, with its end if that counts too."""
        return math.fsum(word.nats for word in self.words) + (self.end or 0.0) * has_end


class _Token(msgspec.Struct):
    logprob: float
    decoded_token: str | None = None


class _Reply(msgspec.Struct):
    prompt_logprobs: list[dict[str, _Token] | None] | None = None


_decoder = msgspec.json.Decoder(_Reply)


def scoring_request(model: str, messages: Sequence[Message], answer: str, fields: Mapping[str, Any]) -> DecisionRequest:
    """Return the request that scores an answer; `fields` are the conditions of the conversation."""
    turns = [{"role": turn.role, "content": turn.content} for turn in (*messages, Message("assistant", answer))]
    body = {"model": model, "messages": turns, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
    template = {name: fields[name] for name in TEMPLATE_FIELDS & fields.keys()}
    return DecisionRequest(path=PATH, body={**body, "add_generation_prompt": False, **template})


def sampling_of(conversation: Conversation) -> str:
    """Return the kind of sampling that the request asks for: as likelihoods are scored, or otherwise."""
    is_plain = conversation.temperature == 1 and conversation.top_p in (None, 1)
    return AS_SCORED if is_plain and not conversation.conditions.keys() - _HARMLESS else OTHERWISE


def is_ended(conversation: Conversation) -> bool:
    """Return whether the model ended the answer, and no limit, no stop string and no broken stream."""
    return conversation.finish_reason in _ENDED and "stop" not in conversation.conditions


def read_scored(reply: bytes, answer: str) -> Scored:
    """Return the log-probabilities of the answer's last occurrence in the prompt. Raises NoLogprobsError for a reply
    without any; CompletionError of kind "malformed" for one that cannot be read or does not have the answer.
    """
    try:
        entries = _decoder.decode(reply).prompt_logprobs
    except UNREADABLE as exc:
        raise CompletionError("malformed", f"no log-probabilities of a prompt: {exc}", status_code=200) from None
    if not entries:
        raise NoLogprobsError
    tokens = [_own_token(entry) for entry in entries]
    text = "".join(token.decoded_token or "" for token in tokens)
    start, end = _place(text, answer)
    ends = [match.end() for match in _WORD.finditer(text, start, end)]
    words = [*zip([start, *ends], ends, strict=False)]
    starts, sums, n_tokens, at = [begin for begin, _ in words], [0.0] * len(words), 0, 0
    for number, token in enumerate(tokens):
        begins, at = at, at + len(token.decoded_token or "")
        if at <= start and at < end:
            continue
        if begins >= end:
            return Scored(_words(text, words, sums), token.logprob, n_tokens)
        if number == 0:
            raise CompletionError("malformed", "the answer's first token has no log-probability", status_code=200)
        sums[max(0, bisect_right(starts, begins) - 1)] += token.logprob
        n_tokens += 1
    return Scored(_words(text, words, sums), None, n_tokens)


def _own_token(entry: Mapping[str, _Token] | None) -> _Token:
    """Return the prompt's own token, which vLLM names first; the first token of all has no log-probability."""
    return next(iter(entry.values())) if entry else _Token(0.0)


def _place(text: str, answer: str) -> tuple[int, int]:
    """Return where an answer stands last. A character that falls into several tokens is shown as other characters."""
    if (start := text.rfind(answer)) >= 0:
        return start, start + len(answer)
    pattern = _NOT_ASCII.sub(lambda _: "\0", answer)
    matches = list(re.finditer(re.escape(pattern).replace("\0", r"[^\x00-\x7f]*"), text))
    if not matches:
        raise CompletionError("malformed", "the scored prompt does not have the answer in it", status_code=200)
    return matches[-1].span()


def _words(text: str, spans: Sequence[tuple[int, int]], sums: Sequence[float]) -> list[Word]:
    return [Word(text[start:end], nats) for (start, end), nats in zip(spans, sums, strict=True)]


_WORD = re.compile(r"(?:[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]+|_+)")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
