"""Asks for log-probabilities of the next token, tested: vLLM's `top_logprobs`, `continue_final_message`, over chat."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from auditors.types import Completer, Completion, CompletionError, CompletionRequest, Message
from benchmarks.errors import BenchmarkError
from benchmarks.run.exact.truncation import END, UNFORCEABLE, NextTokens, truncated
from benchmarks.run.thinking import CONTINUE
from benchmarks.suites.protocol import Sampling

TOP_LOGPROBS = (50, 20)
"""Numbers of tokens to ask for, the largest first: each server has a limit (vLLM: 20, or its --max-logprobs)."""
_WORD = "x"
_QUESTION = (Message("user", f"Say {_WORD}."),)
_TOSS = (Message("user", f"Toss a coin. Say {_WORD} for heads and y for tails."),)
PROBES = (_QUESTION[0].content, _TOSS[0].content)
N_DRAWS = 12
"""Draws that reveal a server which ignores a setting, if it tosses fairly: all but 1 in 2,000 times."""


class _Entry(msgspec.Struct, frozen=True):
    token: str
    logprob: float


class _Position(msgspec.Struct, frozen=True):
    token: str
    top_logprobs: list[_Entry] = []


class _Logprobs(msgspec.Struct, frozen=True):
    content: list[_Position]


class Usage:
    """Sums usage over answers; where several answers share a request, the first carries the usage of all."""

    def __init__(self) -> None:
        self.n_requests = 0
        self.totals: dict[str, int] = {}
        self.fingerprint: str | None = None

    def add(self, completion: Completion) -> None:
        shared = (completion.usage or {}).get("requests", 1)
        self.n_requests += shared
        self.fingerprint = completion.fingerprint
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            count = (completion.usage or {}).get(name)
            if isinstance(count, int):
                self.totals[name] = self.totals.get(name, 0) + count


class LogprobServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that passed `probe`."""

    completer: Completer
    model: str
    top: int
    """Number of tokens with log-probabilities that it returns for a position."""
    end: str
    """The server's name of the token that ends a reply."""
    ignored: frozenset[str] = frozenset()
    """Sampling settings that it accepts but does not follow: top_k, top_p."""

    async def next_tokens(
        self, messages: Sequence[Message], begun: str, sampling: Sampling, *, n_tokens: int
    ) -> tuple[dict[str, NextTokens], Completion]:
        """Return the next tokens by beginning (`begun`, then each longer beginning of the likeliest reply, up to
        `n_tokens`), and the answer with them. One sequence is drawn: sixteen cost the server several times as much
        (docs/evidence/harnesses.md). Raises CompletionError, "malformed" without log-probabilities.
        """
        forced = [*messages, Message("assistant", begun)] if begun else messages
        extra = {"logprobs": True, "top_logprobs": self.top, **(CONTINUE if begun else {})}
        completion = await self.completer.complete(_likeliest(self.model, forced, extra, n_tokens))
        positions = _positions(completion.logprobs)
        if not positions or not positions[0].top_logprobs:
            raise CompletionError("malformed", "the reply has no log-probabilities of its first token")
        followed = msgspec.structs.replace(sampling, **dict.fromkeys(self.ignored))
        next_by_beginning: dict[str, NextTokens] = {}
        for position in positions[:n_tokens]:
            if not position.top_logprobs:
                break
            next_by_beginning[begun] = truncated(self._named_tokens(position), followed)
            token = self._named(position.token)
            if token == END or UNFORCEABLE in token:
                break
            begun += token
        return next_by_beginning, completion

    def _named_tokens(self, position: _Position) -> list[tuple[str, float]]:
        """Return the listed tokens with their probabilities, without a drawn token listed last: an extra one."""
        ranked = sorted(position.top_logprobs, key=lambda entry: -entry.logprob)
        if len(ranked) == self.top and ranked[-1].token == position.token:
            ranked.pop()
        return [(self._named(entry.token), math.exp(entry.logprob)) for entry in ranked]

    def _named(self, token: str) -> str:
        return END if token == self.end else token or UNFORCEABLE


async def probe(completer: Completer, model: str, sampling: Sampling) -> LogprobServer:
    """Test how many tokens a server lists, which token ends a reply, and if it truncates as `sampling` asks, by six or
    seven short requests, and N_DRAWS for each of top_k and top_p without `n`. Raises BenchmarkError when it does not
    answer, has no log-probabilities or cannot force a beginning.
    """
    top = await _top_logprobs(completer, model)
    word = {"structured_outputs": {"choice": [_WORD]}, "logprobs": True}
    request = CompletionRequest(model=model, messages=_QUESTION, max_tokens=8, temperature=0.0, extra=word)
    completion = await _demand(completer, request, "structured_outputs")
    positions = _positions(completion.logprobs)
    if completion.text != _WORD or completion.finish_reason != "stop" or not positions or positions[-1].token == _WORD:
        raise _cannot("the server does not show the token that ends a reply")
    await _demand_forced_beginnings(completer, model)
    ignored = [name for name in ("top_k", "top_p") if await _ignores(completer, model, sampling, name)]
    return LogprobServer(completer=completer, model=model, top=top, end=positions[-1].token, ignored=frozenset(ignored))


async def _top_logprobs(completer: Completer, model: str) -> int:
    *more, fewest = TOP_LOGPROBS
    for top in more:
        request = _likeliest(model, _QUESTION, {"logprobs": True, "top_logprobs": top})
        try:
            await completer.complete(request)
        except CompletionError as exc:
            if exc.status_code != 400:
                raise _failed("top_logprobs", exc) from exc
        else:
            fewest = top
            break
    request = _likeliest(model, _QUESTION, {"logprobs": True, "top_logprobs": fewest})
    positions = _positions((await _demand(completer, request, f"top_logprobs={fewest}")).logprobs)
    if not positions or not positions[0].top_logprobs:
        raise _cannot("the server answers without log-probabilities")
    return fewest


async def _demand_forced_beginnings(completer: Completer, model: str) -> None:
    """Raise BenchmarkError if the prompt is as long without `continue_final_message`: the server then ignores it."""
    messages = (*_QUESTION, Message("assistant", _WORD))
    forced = await _demand(completer, _likeliest(model, messages, CONTINUE), "continue_final_message")
    plain = await _demand(completer, _likeliest(model, messages, {}), "a conversation that ends with a reply")
    lengths = [(completion.usage or {}).get("prompt_tokens") for completion in (forced, plain)]
    if None in lengths or lengths[0] == lengths[1]:
        raise _cannot("the server ignores continue_final_message")


async def _ignores(completer: Completer, model: str, sampling: Sampling, name: str) -> bool:
    """Return whether replies differ although top_k or top_p leaves only one token; False if neither is used."""
    if sampling.temperature == 0 or getattr(sampling, name) is None:
        return False
    extra: dict[str, Any] = {"structured_outputs": {"choice": [_WORD, "y"]}, name: 1 if name == "top_k" else 1e-6}
    extra |= {"logprobs": True, "n": N_DRAWS}
    request = CompletionRequest(model=model, messages=_TOSS, max_tokens=8, temperature=1.0, extra=extra)
    drawn: list[list[str]] = []
    while len(drawn) < N_DRAWS:  # several requests, if a server draws fewer at once
        completion = await _demand(completer, request, name)
        replies = (answer.logprobs for answer in (completion, *completion.further))
        drawn += [[position.token for position in _positions(reply)] for reply in replies]
    return any(tokens != drawn[0] for tokens in drawn)


async def _demand(completer: Completer, request: CompletionRequest, feature: str) -> Completion:
    try:
        return await completer.complete(request)
    except CompletionError as exc:
        raise _failed(feature, exc) from exc


def _failed(feature: str, exc: CompletionError) -> BenchmarkError:
    """Return the error of a failed request; an unreachable server does not show whether it has the feature."""
    if exc.kind in ("unavailable", "timeout") or exc.status_code in (401, 403, 404):
        return BenchmarkError(f"the model server does not answer: {exc}")
    return _cannot(f"the server refuses {feature}: {exc}")


def _cannot(reason: str) -> BenchmarkError:
    return BenchmarkError(f"mode exact needs log-probabilities as vLLM gives them: {reason}; use --mode sample")


def _likeliest(
    model: str, messages: Sequence[Message], extra: Mapping[str, Any], n_tokens: int = 1
) -> CompletionRequest:
    """Return a request at temperature 0, so that the drawn token takes no other token's place in vLLM's list."""
    return CompletionRequest(
        model=model, messages=messages, max_tokens=n_tokens, temperature=0.0, top_p=1.0, extra={"top_k": -1, **extra}
    )


def _positions(logprobs: object) -> list[_Position]:
    try:
        return msgspec.convert(logprobs, _Logprobs).content
    except msgspec.ValidationError:
        return []
