"""Asks an item: model, then judge; notices an absent server. `n` replies come unseeded, or singly at temperature 0."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial

import msgspec

from auditors.clients.judge_client import JudgeClient
from auditors.text.thinking import is_exhausted, told_apart
from auditors.types import Completer, Completion, CompletionError, CompletionRequest
from benchmarks.errors import RunStopped
from benchmarks.run import judge as judged
from benchmarks.run.completers.served import LOWERED, POLICY
from benchmarks.run.exact.measuring import open_reader
from benchmarks.run.plan import Plan
from benchmarks.run.thinking import FATAL_STATUS_CODES, Probe, ThinkingFound
from benchmarks.suites.protocol import REFUSAL_FIELD, Item, Parsed, Reply

MOST_AT_ONCE = 8
"""Replies asked for in one request, and"""
SHARE_OF_FLIGHT = 8
"""of those that may be in flight at most such a part: who asks for few at a time gets few."""
STOPPED = CompletionError("unavailable", "the run was stopped")
NOT_ASKED = {"requests": 0}
"""The `usage` of a reply that came with another, which has the cost of both."""


class Draws:
    """Remembers for a server whether it draws several replies."""

    def __init__(self, completer: Completer) -> None:
        self._completer = completer
        self._draws_several = True

    async def complete(self, request: CompletionRequest, n: int) -> Sequence[Completion]:
        """One to `n` replies to a request. Raises CompletionError."""
        if n == 1 or not self._draws_several or not request.temperature:
            return [await self._completer.complete(request)]
        several = msgspec.structs.replace(request, extra={**request.extra, "n": n})
        try:
            first = await self._completer.complete(several)
        except CompletionError as exc:
            if exc.status_code not in (400, 422):
                raise
            self._draws_several = False
            return [await self._completer.complete(request)]
        self._draws_several = bool(first.further) or first.is_filtered
        usage = NOT_ASKED | {name: what for name, what in (first.usage or {}).items() if name in (LOWERED, POLICY)}
        further = [msgspec.structs.replace(completion, usage=usage) for completion in first.further[: n - 1]]
        return [first, *further]


GIVE_UP_AFTER = 20
"""Failed requests in a row, with none answered before, after which a run stops: the server is not there."""


class _Health:
    """Notices a server that will not answer, so that a wrong URL costs twenty requests and not thousands."""

    def __init__(self, who: str, *, seen_reply: bool) -> None:
        self.verdict: str | None = None
        self._who = who
        self._seen_reply = seen_reply
        self._failed_in_a_row = 0
        self._last: CompletionError | None = None

    def answered(self) -> None:
        self._seen_reply = True

    def failed(self, error: CompletionError) -> None:
        self._failed_in_a_row += 1
        if self._seen_reply or self.verdict:
            return
        if error.status_code in FATAL_STATUS_CODES:
            self.verdict = f"the {self._who} refuses: {error}"
        elif self._failed_in_a_row >= GIVE_UP_AFTER:
            self.verdict = self._none_answered(f"first {self._failed_in_a_row}", error)
        self._last = error

    def ended(self) -> None:
        """No further request comes: of a short run too, one was to be answered."""
        if self._last is not None and not self._seen_reply and not self.verdict:
            self.verdict = self._none_answered(str(self._failed_in_a_row), self._last)

    def _none_answered(self, which: str, last: CompletionError) -> str:
        return f"none of the {which} requests to the {self._who} was answered; the last: {last}"


Answer = Callable[[Item, int], Awaitable[Sequence[Reply]]]
"""One to so many replies to an item, in the mode of the plan. Raises CompletionError."""


async def answerer(plan: Plan, completer: Completer, probe: Probe) -> Answer:
    """Return the function that asks an item in the mode of the plan; `probe` finds how the server thinks."""
    thinking = await probe()
    if plan.options.mode == "exact":
        return await open_reader(plan, completer, thinking)
    return partial(_sampled, plan, Draws(completer), thinking)


class Asker:
    """Asks the model, and then the judge where the suite has one."""

    def __init__(self, plan: Plan, answer: Answer, judge: JudgeClient | None, *, seen_reply: bool) -> None:
        self._plan = plan
        self._answer = answer
        self._judge = judge
        self._model_health = _Health("model server", seen_reply=seen_reply)
        self._judge_health = _Health("judge", seen_reply=seen_reply)

    @property
    def verdict(self) -> str | None:
        """Why asking on is of no use; None while it is."""
        return self._model_health.verdict or self._judge_health.verdict

    def ended(self) -> None:
        """Nothing is left to ask."""
        self._model_health.ended()
        self._judge_health.ended()

    async def ask(self, item: Item, samples: Sequence[int], earlier: Reply | None) -> AsyncIterator[Reply]:
        """Replies to at least the first sample, judged; an `earlier` text only by the judge. Unjudged if stopped."""
        if earlier is not None and earlier.text is not None:
            parsed = self._plan.suite.parse(item, earlier.text, protocol=self._plan.options.protocol)
            replies: Sequence[Reply] = [
                msgspec.structs.replace(
                    earlier, status=parsed.status, parsed=parsed.value, rule=parsed.rule, error=None
                )
            ]
        else:
            replies = await self._generated(item, samples)
        for place, reply in enumerate(replies):
            try:
                judged_reply = reply if self._judge is None else await self._judged(item, reply, self._judge)
            except (asyncio.CancelledError, RunStopped):
                for waiting in replies[place:]:
                    yield judged.unjudged(waiting, STOPPED) if waiting.status == "ok" else waiting
                raise
            yield judged_reply

    async def _generated(self, item: Item, samples: Sequence[int]) -> Sequence[Reply]:
        try:
            replies = await self._answer(item, len(samples))
        except CompletionError as exc:
            self._model_health.failed(exc)
            return [Reply(item_id=item.item_id, sample=samples[0], status="error", error=f"{exc.kind}: {exc}")]
        self._model_health.answered()
        return [msgspec.structs.replace(reply, sample=sample) for reply, sample in zip(replies, samples, strict=False)]

    async def _judged(self, item: Item, reply: Reply, judge: JudgeClient) -> Reply:
        try:
            judged_reply = await judged.put_to(self._plan.suite, self._plan.options, item, reply, judge)
        except CompletionError as exc:
            self._judge_health.failed(exc)
            return judged.unjudged(reply, exc)
        if judged_reply.judge is not None:
            self._judge_health.answered()
        return judged_reply


async def _sampled(plan: Plan, draws: Draws, thinking: ThinkingFound, item: Item, n: int) -> list[Reply]:
    # What all choices thought is told in one number: of a model that thinks, each reply is asked for by itself.
    sampling = item.sampling or plan.suite.sampling(plan.options.protocol)
    completions = await draws.complete(
        CompletionRequest(
            model=plan.options.model,
            messages=item.messages,
            max_tokens=sampling.max_tokens + thinking.room,
            temperature=sampling.temperature if plan.options.temperature is None else plan.options.temperature,
            top_p=sampling.top_p,
            extra=({} if sampling.top_k is None else {"top_k": sampling.top_k}) | thinking.sent,
        ),
        1 if thinking.thinks else n,
    )
    return [_reply(plan, item, thinking, completion) for completion in completions]


def _reply(plan: Plan, item: Item, thinking: ThinkingFound, completion: Completion) -> Reply:
    completion = told_apart(completion, is_begun=thinking.field == "begun")
    reply = Reply(
        item_id=item.item_id,
        reasoning=completion.reasoning if plan.options.keep_reasoning else None,
        finish_reason=completion.finish_reason,
        usage=dict(completion.usage) if completion.usage else None,
        fingerprint=completion.fingerprint,
    )
    if is_exhausted(completion):
        return msgspec.structs.replace(reply, status="thinking_exhausted")
    parsed = _read(plan, item, completion)
    return msgspec.structs.replace(
        reply,
        text=completion.refusal if completion.text is None else completion.text,
        status=parsed.status,
        parsed=parsed.value,
        rule=parsed.rule,
    )


def _read(plan: Plan, item: Item, completion: Completion) -> Parsed:
    if completion.is_filtered or (completion.refusal is not None and not completion.text):
        return Parsed("refusal", rule=REFUSAL_FIELD)
    return plan.suite.parse(item, completion.text, protocol=plan.options.protocol)
