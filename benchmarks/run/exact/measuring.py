"""One item of a plan, measured: from its prompt to a reply that carries probabilities."""

import msgspec

from auditors.types import Completer
from benchmarks.errors import BenchmarkError
from benchmarks.run.exact.server import LogprobServer, Usage, probe
from benchmarks.run.exact.truncation import NextTokens
from benchmarks.run.exact.walk import follow
from benchmarks.run.plan import Plan
from benchmarks.suites.common.accepted_answers import Reading
from benchmarks.suites.protocol import Item, Reply


class ExactReader(msgspec.Struct, frozen=True):
    """Asks one item after the other. See benchmarks.run.exact.walk for what its probabilities mean."""

    plan: Plan
    server: LogprobServer

    async def __call__(self, item: Item) -> Reply:
        """Raises CompletionError when one of the item's requests fails: part of a distribution is none."""
        protocol = self.plan.options.protocol
        sampling = self.plan.suite.sampling(protocol)
        usage = Usage()

        async def ask_next(begun: str) -> NextTokens:
            following, completion = await self.server.next_tokens(item.messages, begun, sampling)
            usage.add(completion)
            return following

        found = await follow(ask_next, Reading(self.plan.suite, item, protocol), sampling)
        return Reply(
            item_id=item.item_id,
            status="ok",
            choice_probabilities=found,
            usage={"requests": usage.n_requests, **usage.totals},
            fingerprint=usage.fingerprint,
        )


async def open_reader(plan: Plan, completer: Completer) -> ExactReader:
    """Probes the server. Raises BenchmarkError, one line, when it cannot be measured exactly."""
    sampling = plan.suite.sampling(plan.options.protocol)
    if sampling.temperature not in (0, 1):
        raise BenchmarkError(
            f"mode exact needs temperature 0 or 1; {plan.suite.name} samples at {sampling.temperature:g}"
        )
    return ExactReader(plan, await probe(completer, plan.options.model, sampling))
