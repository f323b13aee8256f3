"""One item of a plan, measured: from its prompt to a reply that carries probabilities."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from auditors.types import Completer, Completion, CompletionRequest
from benchmarks.errors import BenchmarkError
from benchmarks.run.exact.batching import Batching
from benchmarks.run.exact.server import LogprobServer, Usage, probe
from benchmarks.run.exact.truncation import END, UNFORCEABLE, NextTokens
from benchmarks.run.plan import Plan
from benchmarks.run.thinking import ThinkingFound, WithEmptyThought
from benchmarks.suites.common.accepted_answers import OPEN, Reading
from benchmarks.suites.protocol import UNRELATED, UNRESOLVED, Item, Reply, Sampling

MIN_MASS = 1e-3
MAX_BEGINNINGS = 100
"""Most beginnings followed for an item; anything still open after that is unresolved."""

LOOKAHEAD = 6
"""Tokens of a reply that one request follows: most answers are settled in fewer."""

AskNext = Callable[[str, int], Awaitable[Mapping[str, NextTokens]]]
"""Return the tokens after a beginning and its likeliest continuations, up to a number of tokens; `END` ends a reply."""


async def follow(ask_next: AskNext, reading: Reading, sampling: Sampling) -> dict[str, float]:
    """Probability by label (the suite's, UNRELATED, UNRESOLVED), in sum 1; likely beginnings share a cached prompt."""
    settled = dict.fromkeys([*sorted(reading.labels), UNRELATED, UNRESOLVED], 0.0)
    pending: dict[tuple[int, str], float] = {(0, ""): 1.0}
    next_by_text: dict[str, NextTokens] = {}
    n_asked = 0
    while likely := {key: mass for key, mass in pending.items() if mass >= MIN_MASS}:
        ready = {key: mass for key, mass in likely.items() if key[1] in next_by_text}
        if not ready:
            to_ask = _unknown(likely, MAX_BEGINNINGS - n_asked)
            if not to_ask:
                break
            n_asked += len(to_ask)
            for answers in await asyncio.gather(
                *(ask_next(text, min(LOOKAHEAD, sampling.max_tokens - length)) for text, length in to_ask.items())
            ):
                next_by_text |= answers
            continue
        length, text = max(ready, key=ready.__getitem__)
        mass = pending.pop((length, text))
        following = next_by_text[text]
        settled[UNRESOLVED] += mass * following.unseen
        for token, p in following.tokens:
            label = _verdict(reading, text, token, is_cut=length + 1 == sampling.max_tokens)
            if label == OPEN:
                key = (length + 1, text + token)
                pending[key] = pending.get(key, 0.0) + mass * p
            else:
                settled[label] = settled.get(label, 0.0) + mass * p
    settled[UNRESOLVED] += sum(pending.values())
    return {label: min(1.0, p) for label, p in settled.items()}


def _unknown(likely: Mapping[tuple[int, str], float], most: int) -> dict[str, int]:
    """Beginnings to ask for, the likeliest first, and the least number of tokens of each."""
    lengths: dict[str, int] = {}
    for length, text in sorted(likely, key=likely.__getitem__, reverse=True):
        lengths[text] = min(length, lengths.get(text, length))
    return dict(list(lengths.items())[:most])


def _verdict(reading: Reading, text: str, token: str, *, is_cut: bool) -> str:
    if token == END:
        return reading.finished(text)
    if UNFORCEABLE in token:
        return UNRESOLVED
    return reading.finished(text + token) if is_cut else reading.begun(text + token)


class ExactReader(msgspec.Struct, frozen=True):
    """Asks one item after the other. See benchmarks.run.exact.measuring for what its probabilities mean."""

    plan: Plan
    server: LogprobServer

    async def __call__(self, item: Item, n: int = 1) -> Sequence[Reply]:
        """One reply, whatever `n`. Raises CompletionError when a request fails: a part is not a distribution."""
        protocol = self.plan.options.protocol
        sampling = self.plan.suite.sampling(protocol)
        usage = Usage()

        async def ask_next(begun: str, n_tokens: int) -> Mapping[str, NextTokens]:
            following, completion = await self.server.next_tokens(item.messages, begun, sampling, n_tokens=n_tokens)
            usage.add(completion)
            return following

        probabilities = await follow(ask_next, Reading(self.plan.suite, item, protocol), sampling)
        reply = Reply(
            item_id=item.item_id,
            status="ok",
            choice_probabilities=probabilities,
            usage={"requests": usage.n_requests, **usage.totals},
            fingerprint=usage.fingerprint,
        )
        return [reply]


class _Carrying(msgspec.Struct, frozen=True):
    inner: Completer
    fields: Mapping[str, Any]

    async def complete(self, request: CompletionRequest) -> Completion:
        extra = {**self.fields, **request.extra}
        return await self.inner.complete(msgspec.structs.replace(request, extra=extra))

    async def aclose(self) -> None:
        await self.inner.aclose()


async def open_reader(plan: Plan, completer: Completer, thinking: ThinkingFound) -> ExactReader:
    """Probes the server, as it is kept from thinking. Raises BenchmarkError when it cannot be measured exactly."""
    sampling = plan.suite.sampling(plan.options.protocol)
    if sampling.temperature not in (0, 1):
        raise BenchmarkError(
            f"mode exact needs temperature 0 or 1; {plan.suite.name} samples at {sampling.temperature:g}"
        )
    completer = Batching(completer)
    if thinking.opening:
        completer = WithEmptyThought(completer)
    return ExactReader(plan, await probe(_Carrying(completer, thinking.sent), plan.options.model, sampling))
