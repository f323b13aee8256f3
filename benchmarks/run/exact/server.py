"""Asks a server for the log-probabilities of the next token, after making sure that it can tell them truthfully.

Needs what vLLM offers: `top_logprobs`, and beginnings forced by `continue_final_message`. Everything goes through
/v1/chat/completions, so a gateway in between changes nothing.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from auditors.types import Completer, Completion, CompletionError, CompletionRequest, Message
from benchmarks.errors import BenchmarkError
from benchmarks.run.exact.truncation import END, UNFORCEABLE, NextTokens, truncated
from benchmarks.suites.protocol import Sampling

TOP_LOGPROBS = (50, 20)
"""Tokens to ask for, the most first: a server has a limit of its own (vLLM: 20, or its --max-logprobs)."""
_CONTINUE: Mapping[str, Any] = {"add_generation_prompt": False, "continue_final_message": True}
_WORD = "x"
_QUESTION = (Message("user", f"Say {_WORD}."),)
_TOSS = (Message("user", f"Toss a coin. Say {_WORD} for heads and y for tails."),)
N_DRAWS = 12
"""Draws after which a server that ignores a setting has shown it, if it tosses fairly: all but 1 in 2,000 times."""


class _Entry(msgspec.Struct, frozen=True):
    token: str
    logprob: float


class _Position(msgspec.Struct, frozen=True):
    token: str
    top_logprobs: list[_Entry] = []


class _Logprobs(msgspec.Struct, frozen=True):
    content: list[_Position]


class Usage:
    """Sums up several requests."""

    def __init__(self) -> None:
        self.n_requests = 0
        self.totals: dict[str, int] = {}
        self.fingerprint: str | None = None

    def add(self, completion: Completion) -> None:
        self.n_requests += 1
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
    """Tokens it names per position."""
    end: str
    """What it calls the token that ends a reply."""
    ignored: frozenset[str] = frozenset()
    """Settings of a sampling that it takes and does not follow: top_k, top_p."""

    async def next_tokens(
        self, messages: Sequence[Message], begun: str, sampling: Sampling
    ) -> tuple[NextTokens, Completion]:
        """What follows a reply to `messages` begun with a text, and the answer it was read from.

        Raises: CompletionError, of kind "malformed" when the answer has no log-probabilities.
        """
        forced = [*messages, Message("assistant", begun)] if begun else messages
        extra = {"logprobs": True, "top_logprobs": self.top, **(_CONTINUE if begun else {})}
        completion = await self.completer.complete(_one_token(self.model, forced, extra))
        followed = msgspec.structs.replace(sampling, **dict.fromkeys(self.ignored))
        return truncated(self._likeliest(completion), followed), completion

    def _likeliest(self, completion: Completion) -> list[tuple[str, float]]:
        positions = _positions(completion)
        if not positions or not positions[0].top_logprobs:
            raise CompletionError("malformed", "the reply has no log-probabilities of its first token")
        return [(self._named(entry.token), math.exp(entry.logprob)) for entry in positions[0].top_logprobs]

    def _named(self, token: str) -> str:
        return END if token == self.end else token or UNFORCEABLE


async def probe(completer: Completer, model: str, sampling: Sampling) -> LogprobServer:
    """Finds out how many tokens a server names, what ends a reply, and whether it truncates as `sampling` asks.

    In four or five short requests, and N_DRAWS for each of top_k and top_p. Servers that take any field may ignore
    top_k; the simulated model samples as planted whatever it is asked.

    Raises: BenchmarkError, one line, when it does not answer, tells no log-probabilities or cannot force a beginning.
    """
    top = await _top_logprobs(completer, model)
    word = {"structured_outputs": {"choice": [_WORD]}, "logprobs": True}
    request = CompletionRequest(model=model, messages=_QUESTION, max_tokens=8, temperature=0.0, extra=word)
    completion = await _demand(completer, request, "structured_outputs")
    said = _positions(completion)
    if completion.text != _WORD or completion.finish_reason != "stop" or not said or said[-1].token == _WORD:
        raise _cannot("the server does not show the token that ends a reply")
    await _demand_forced_beginnings(completer, model)
    ignored = [name for name in ("top_k", "top_p") if await _ignores(completer, model, sampling, name)]
    return LogprobServer(completer=completer, model=model, top=top, end=said[-1].token, ignored=frozenset(ignored))


async def _top_logprobs(completer: Completer, model: str) -> int:
    *more, fewest = TOP_LOGPROBS
    for top in more:
        request = _one_token(model, _QUESTION, {"logprobs": True, "top_logprobs": top})
        try:
            await completer.complete(request)
        except CompletionError as exc:
            if exc.status_code != 400:
                raise _failed("top_logprobs", exc) from exc
        else:
            fewest = top
            break
    request = _one_token(model, _QUESTION, {"logprobs": True, "top_logprobs": fewest})
    positions = _positions(await _demand(completer, request, f"top_logprobs={fewest}"))
    if not positions or not positions[0].top_logprobs:
        raise _cannot("the server answers without them")
    return fewest


async def _demand_forced_beginnings(completer: Completer, model: str) -> None:
    """A server that does not know `continue_final_message` may ignore it; then the prompt is as long as without."""
    messages = (*_QUESTION, Message("assistant", _WORD))
    forced = await _demand(completer, _one_token(model, messages, _CONTINUE), "continue_final_message")
    plain = await _demand(completer, _one_token(model, messages, {}), "a conversation that ends with a reply")
    lengths = [(completion.usage or {}).get("prompt_tokens") for completion in (forced, plain)]
    if None in lengths or lengths[0] == lengths[1]:
        raise _cannot("the server ignores continue_final_message")


async def _ignores(completer: Completer, model: str, sampling: Sampling, name: str) -> bool:
    """Whether replies differ although top_k or top_p leaves only the likeliest token; False where it is not used."""
    if sampling.temperature == 0 or getattr(sampling, name) is None:
        return False
    extra = {"structured_outputs": {"choice": [_WORD, "y"]}, name: 1 if name == "top_k" else 1e-6}
    request = CompletionRequest(model=model, messages=_TOSS, max_tokens=8, temperature=1.0, extra=extra)
    drawn = [await _demand(completer, request, name) for _ in range(N_DRAWS)]
    return len({completion.text for completion in drawn}) > 1


async def _demand(completer: Completer, request: CompletionRequest, what: str) -> Completion:
    try:
        return await completer.complete(request)
    except CompletionError as exc:
        raise _failed(what, exc) from exc


def _failed(what: str, exc: CompletionError) -> BenchmarkError:
    """A server that is not there says nothing about what it could tell."""
    if exc.kind in ("unavailable", "timeout") or exc.status_code in (401, 403, 404):
        return BenchmarkError(f"the model server does not answer: {exc}")
    return _cannot(f"the server refuses {what}: {exc}")


def _cannot(because: str) -> BenchmarkError:
    return BenchmarkError(f"mode exact needs log-probabilities as vLLM gives them: {because}; use --mode sample")


def _one_token(model: str, messages: Sequence[Message], extra: Mapping[str, Any]) -> CompletionRequest:
    """At temperature 0 the token drawn is itself the likeliest, so it takes no place of another in vLLM's list."""
    return CompletionRequest(
        model=model, messages=messages, max_tokens=1, temperature=0.0, top_p=1.0, extra={"top_k": -1, **extra}
    )


def _positions(completion: Completion) -> list[_Position]:
    try:
        return msgspec.convert(completion.logprobs, _Logprobs).content
    except msgspec.ValidationError:
        return []
