"""How probable a model finds a given text, token by token, as bytes: /tokenize and /v1/completions. Pure functions.

Each token's probability is asked as that of a next token, with all beginnings of the text in one request. The
log-probabilities of a prompt (`echo`, `prompt_logprobs`) would cost one answer each, but a vLLM that serves adapters
gives wrong ones or dies of them (vllm-project/vllm issues 29955, 16668, 51594).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.types import CompletionError

MOST_TOKENS = 128
"""Of a text: as many kinds of token as vLLM takes in `logprob_token_ids`."""


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Logprobs(msgspec.Struct):
    top_logprobs: list[dict[str, float]]


class _Choice(msgspec.Struct):
    index: int
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]


_tokens_decoder = msgspec.json.Decoder(_Tokens)
_decoder = msgspec.json.Decoder(_Completion)


def tokenize_body(model: str, text: str) -> bytes:
    """JSON body of POST /tokenize."""
    return msgspec.json.encode({"model": model, "prompt": text})


def read_tokens(body: bytes) -> list[int]:
    """Raises CompletionError of kind "malformed" for a reply without tokens."""
    try:
        return _tokens_decoder.decode(body).tokens
    except UNREADABLE as exc:
        raise CompletionError("malformed", f"the reply to /tokenize has no tokens: {exc}", status_code=200) from None


def beginnings_body(model: str, tokens: Sequence[int], first: int) -> bytes:
    """JSON body of POST /v1/completions: every beginning of a text that has `first` tokens or more, the whole left out,
    with the log-probabilities of those tokens that may follow.

    Raises: CompletionError of kind "rejected" for a text of more than MOST_TOKENS.
    """
    following = sorted(set(tokens[first:]))
    if len(following) > MOST_TOKENS:
        raise CompletionError("rejected", f"a text of {len(tokens)} tokens is too long")
    asked: dict[str, Any] = {"model": model, "prompt": [tokens[:end] for end in range(first, len(tokens))]}
    asked |= {"max_tokens": 1, "temperature": 1, "logprobs": 0, "logprob_token_ids": following}
    return msgspec.json.encode(asked | {"return_tokens_as_token_ids": True})


def read_logprobs(body: bytes, tokens: Sequence[int], first: int) -> list[float]:
    """Natural log-probability of each token from the one at `first`, given those before it.

    Raises: CompletionError of kind "malformed" for a reply that does not have them all.
    """
    try:
        choices = {one.index: one for one in _decoder.decode(body).choices}
    except UNREADABLE as exc:
        raise CompletionError("malformed", f"no completion with log-probabilities: {exc}", status_code=200) from None
    found = []
    for place, token in enumerate(tokens[first:]):
        logprobs = choices[place].logprobs if place in choices else None
        known = logprobs.top_logprobs[0] if logprobs is not None and logprobs.top_logprobs else {}
        value = known.get(f"token_id:{token}")
        if value is None:
            raise CompletionError("malformed", "it does not tell the probability of a token asked for", status_code=200)
        found.append(value)
    return found
