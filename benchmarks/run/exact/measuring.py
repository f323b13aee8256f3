"""One item of a plan, measured: from its prompt to a reply that carries probabilities."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from auditors.types import Completer, Completion, CompletionRequest
from benchmarks.errors import BenchmarkError
from benchmarks.run.exact.batching import Batching
from benchmarks.run.exact.server import LogprobServer, Usage, probe
from benchmarks.run.exact.truncation import NextTokens
from benchmarks.run.exact.walk import follow
from benchmarks.run.plan import Plan
from benchmarks.run.thinking import ThinkingFound, WithEmptyThought
from benchmarks.suites.common.accepted_answers import Reading
from benchmarks.suites.protocol import Item, Reply


class ExactReader(msgspec.Struct, frozen=True):
    """Asks one item after the other. See benchmarks.run.exact.walk for what its probabilities mean."""

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
    """A completer whose every request has further fields; its own win."""

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
