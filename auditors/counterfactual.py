"""The counterfactual auditor: is the same question answered differently when it is about another group?

A sampled prompt that names one group of an axis is asked twice as it was and twice about another group
(`text.swaps`), all four answers drawn afresh. Asking the same prompt again is the control: it shows how far answers
differ by chance. Every metric is a contrast of the two sides (the group named, against the group swapped in).

Estimands, each a mean over sampled exchanges that can be swapped, per (axis, group named):
- `counterfactual_distance_excess`: mean distance between answers across the sides less the mean distance within them,
  in embeddings of the masked answers. With two draws a side this is unbiased for half the squared distance between
  the two sides' mean embeddings (auditors.metrics.counterfactual): 0 for a model that answers both alike, whatever its
  temperature. Comparing one old answer with one new one instead would count every resampling as bias.
- `counterfactual_refusal_difference`: share refused as asked less share refused when swapped, -1..1.
- `counterfactual_length_difference`: (words as asked - words when swapped) / (sum of both), -1..1.
- `counterfactual_favoritism_difference`: how far a judge finds the asked-about group favoured, less the same of the
  swapped side about its group, -3..3; only with a judge.
The last three are antisymmetric in the sides, so their mean is 0 when both sides have one distribution: the control is
in the expectation and need not be subtracted. Sampled afresh means that the answer the client got is not used: it was
drawn under other load, perhaps with tools, and was selected by being sampled.

An answer echoes the words that were swapped. Before distances and lengths, every word of the axis is replaced by a
neutral one in all four answers (`swaps.masked`), so the echo alone is no difference. When any of the four is refused,
distance, length and judge score have status "refusal": the refusal difference holds them.

What no value shows: which answer is the better one, whether a difference is wrong (advice may rightly differ), or
anything about prompts that cannot be swapped safely. Those abstain with a reason and are counted, never guessed.
English only.

Missing when the server fails, hangs or answers nothing: every contrast of the swap that this exchange was due for, as
a contrast needs all four answers; but distance, length and judge score are refused, not missing, once any answer was
declined. An embedder that fails loses the distance alone, a judge the judge score alone. Not missing: what was left
alone, and a question that the server rejects on both sides.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from auditors.clients.judge_client import JudgeClient
from auditors.judge import PROMPT_SHA256, judge_question, parse_verdict
from auditors.metrics.counterfactual import distance_excess, signed_difference
from auditors.probes import CUT_SHORT, Answer, answers, askable, is_unaskable, question
from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.fencing import mark
from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.swap import Abstained, Swapped, masked, swap
from auditors.types import (
    AsksUpstream,
    AuditFailure,
    AuditorSettings,
    Completer,
    CompletionError,
    Embedder,
    Exchange,
    FailureKind,
    JudgeStamp,
    Measurement,
    Message,
    Servers,
    Status,
)

DISTANCE = "counterfactual_distance_excess"
REFUSAL = "counterfactual_refusal_difference"
LENGTH = "counterfactual_length_difference"
FAVORITISM = "counterfactual_favoritism_difference"
DRAWS = 2
"""Answers a side: two are the fewest that show the spread within a side."""


class Sides(NamedTuple):
    """The answers to both prompts, DRAWS each."""

    asked: Sequence[Answer]
    swapped: Sequence[Answer]

    @property
    def all(self) -> list[Answer]:
        return [*self.asked, *self.swapped]


class _Value(NamedTuple):
    value: float | None
    status: Status = "ok"
    reason: str | None = None
    judge: JudgeStamp | None = None


_DECLINED = _Value(None, "refusal", "an answer was declined")


class CounterfactualAuditor:
    """Asks a sampled question about another group too; what it estimates is in the module docstring."""

    name = "counterfactual"
    version = "3"
    needs_embedder = True
    asks_upstream: AsksUpstream = "always"

    def __init__(
        self,
        completer_for: Callable[[Exchange], Completer],
        embedder: Embedder,
        *,
        judge: Completer | None = None,
        judge_model: str | None = None,
        max_tokens: int = 256,
        max_concurrency: int = 4,
    ) -> None:
        """Keeps what it is given; opens nothing.

        Args:
            completer_for: asks the upstream that served the exchange, behind live traffic.
            embedder: turns answers into vectors; its name is part of every measurement.
            judge: completer of an outside judge; None lets the exchange's upstream judge, if a model is named.
            judge_model: judging model; None measures no favouritism.
            max_tokens: longest answer asked for; a smaller limit of the request wins.
            max_concurrency: questions in flight, over all exchanges.
        """
        self._completer_for = completer_for
        self._embedder = embedder
        self._judge = judge
        self._judge_model = judge_model
        self._max_tokens = max_tokens
        self._slots = asyncio.Semaphore(max_concurrency)
        self._judges: dict[str, JudgeClient] = {}

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        """See `RegisteredAuditor`."""
        return cls(
            servers.completer_for,
            servers.present_embedder,
            judge=servers.judge,
            judge_model=settings.model,
            max_tokens=settings.max_tokens,
            max_concurrency=settings.max_concurrency,
        )

    async def audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        """Three or four contrasts; or one measurement without a value that says why nothing was swapped."""
        try:
            conversation = askable(exchange)
        except NotAuditableError as exc:
            return exc.failure_of(self)
        swapped = await asyncio.to_thread(swapped_prompt, exchange, conversation)
        if isinstance(swapped, Abstained):
            return [self._abstained(swapped)]
        sides = await self._ask(exchange, conversation, swapped)
        if failed := next((one for one in sides.all if one.kind), None):
            message = failed.reason or "no answer"
            missing = [] if is_unaskable(one.kind for one in sides.all) else self._lost(swapped, message, sides)
            return self._failure(failed.kind or "unavailable", message, missing)
        return await self._measured(exchange, conversation, swapped, sides)

    def missing(self, exchange: Exchange) -> list[Measurement]:
        """What an audit that was cut short leaves open: the contrasts of its swap, if it could be swapped."""
        try:
            conversation = askable(exchange)
        except NotAuditableError:
            return []
        swapped = swapped_prompt(exchange, conversation)
        return [] if isinstance(swapped, Abstained) else self._lost(swapped, CUT_SHORT, Sides((), ()))

    async def _ask(self, exchange: Exchange, conversation: Conversation, swapped: Swapped) -> Sides:
        """All four answers; the sides alternate, so that a change of load meets both."""
        original, about_other = conversation.messages, _messages(conversation, swapped)
        requests = [
            question(exchange, conversation, messages, self._max_tokens)
            for _ in range(DRAWS)
            for messages in (original, about_other)
        ]
        found = await answers(self._completer_for(exchange), requests, self._slots)
        return Sides(found[0::2], found[1::2])

    async def _measured(
        self, exchange: Exchange, conversation: Conversation, swapped: Swapped, sides: Sides
    ) -> list[Measurement]:
        refused = [sum(one.is_refusal for one in side) / DRAWS for side in sides]
        values = {REFUSAL: _Value(refused[0] - refused[1])}
        if any(refused):
            values |= self._of_answers(_DECLINED)
        else:
            texts = [[masked(one.text, swapped.axis) for one in side] for side in sides]
            values[DISTANCE] = await self._distance(texts)
            words = [sum(len(text.split()) for text in side) for side in texts]
            values[LENGTH] = _Value(signed_difference(*words))
            if self._judge_model:
                values[FAVORITISM] = await self._favoritism(exchange, conversation, swapped, sides)
        n_cut = sum(one.is_cut for one in sides.all)
        detail = {"words_swapped": swapped.n_words} | ({"answers_cut": n_cut} if n_cut else {})
        return [self._measurement(metric, swapped, one, detail) for metric, one in values.items()]

    def _of_answers(self, found: _Value) -> dict[str, _Value]:
        """The same for every contrast that takes four answers in words."""
        values = {DISTANCE: found, LENGTH: found}
        return values | ({FAVORITISM: found._replace(judge=_unasked(self._judge_model))} if self._judge_model else {})

    def _lost(self, swapped: Swapped, reason: str, sides: Sides) -> list[Measurement]:
        """Every contrast without its value, after these answers."""
        lost = _Value(None, "error", reason)
        values = {REFUSAL: lost} | self._of_answers(_DECLINED if any(one.is_refusal for one in sides.all) else lost)
        detail = {"words_swapped": swapped.n_words}
        return [self._measurement(metric, swapped, one, detail) for metric, one in values.items()]

    async def _distance(self, texts: Sequence[Sequence[str]]) -> _Value:
        try:
            vectors = await self._embedder.embed([text or "-" for side in texts for text in side])
        except (ValueError, CompletionError) as exc:
            return _Value(None, "error", f"embedder {self._embedder.name}: {exc}")
        return _Value(distance_excess(vectors[:DRAWS], vectors[DRAWS:]))

    async def _favoritism(
        self, exchange: Exchange, conversation: Conversation, swapped: Swapped, sides: Sides
    ) -> _Value:
        """Mean score of the named group less that of the group swapped in; a group not reported scores 0."""
        judge = self._judge_of(exchange)
        other = "\n".join(swapped.texts)
        asked = [
            *((conversation.prompt_text, one.text, swapped.group) for one in sides.asked),
            *((other, one.text, swapped.target) for one in sides.swapped),
        ]
        try:
            scores = await asyncio.gather(*(self._score(judge, swapped.axis, *one) for one in asked))
        except CompletionError as exc:
            return _Value(None, "error", f"judge: {exc.kind}: {exc}", _unasked(judge.model))
        stamp = scores[0].judge
        if unread := next((one for one in scores if one.value is None), None):
            return _Value(None, unread.status, unread.reason, stamp)
        total = [one.value or 0.0 for one in scores]
        return _Value((sum(total[:DRAWS]) - sum(total[DRAWS:])) / DRAWS, judge=stamp)

    async def _score(self, judge: JudgeClient, axis: str, prompt: str, answer: str, group: str) -> _Value:
        async with self._slots:
            judgement = await judge.ask(lambda: judge_question(prompt, answer, mark()), parse_verdict)
        if judgement.value is None:
            return _Value(None, "malformed", f"judge: {judgement.reason}", judgement.stamp)
        if judgement.value.refused:
            return _Value(None, "refusal", "declined, says the judge", judgement.stamp)
        found = [one.score for one in judgement.value.findings if (one.axis, one.group) == (axis, group)]
        return _Value(float(found[0]) if found else 0.0, judge=judgement.stamp)

    def _judge_of(self, exchange: Exchange) -> JudgeClient:
        if exchange.upstream not in self._judges:
            completer = self._judge or self._completer_for(exchange)
            self._judges[exchange.upstream] = JudgeClient(completer, self._judge_model or exchange.served_model)
        return self._judges[exchange.upstream]

    def _measurement(self, metric: str, swapped: Swapped, found: _Value, detail: dict[str, Any]) -> Measurement:
        return Measurement(
            auditor=self.name,
            auditor_version=self.version,
            metric=metric,
            axis=swapped.axis,
            group=swapped.group,
            reference=swapped.target,
            value=found.value,
            status=found.status,
            reason=found.reason,
            judge=found.judge,
            detail={"embedder": self._embedder.name, **detail},
        )

    def _abstained(self, abstained: Abstained) -> Measurement:
        """Counted in the series that a swap would have entered, where it is known which."""
        return Measurement(
            auditor=self.name,
            auditor_version=self.version,
            metric=DISTANCE,
            axis=abstained.axis if abstained.group else None,
            group=abstained.group,
            value=None,
            status="unrelated",
            reason=f"not swapped: {abstained.reason}",
            detail={"embedder": self._embedder.name},
        )

    def _failure(self, kind: FailureKind, message: str, missing: Sequence[Measurement] = ()) -> AuditFailure:
        return AuditFailure(
            auditor=self.name, auditor_version=self.version, kind=kind, message=message, missing=missing
        )


def swapped_prompt(exchange: Exchange, conversation: Conversation) -> Swapped | Abstained:
    """The first axis that can be swapped, in an order that the exchange's id decides, or the plainest reason for none.

    The order and the target depend on that id alone, which no client chooses: a repeated audit asks the same question.
    """
    digest = hashlib.blake2b(exchange.id.encode(), digest_size=8).digest()
    number = int.from_bytes(digest)
    axes = list(SLOTS)
    first = number % len(axes)
    texts = [message.content for message in conversation.messages]
    reasons: list[Abstained] = []
    for axis in (*axes[first:], *axes[:first]):
        found = swap(texts, axis, choice=number // len(axes))
        if isinstance(found, Swapped):
            return found
        reasons.append(found)
    return min(reasons, key=lambda one: (one.reason == "no identity term", one.group is None))


def _unasked(model: str) -> JudgeStamp:
    return JudgeStamp(model=model, prompt_sha256=PROMPT_SHA256, attempts=0)


def _messages(conversation: Conversation, swapped: Swapped) -> list[Message]:
    pairs = zip(conversation.messages, swapped.texts, strict=True)
    return [msgspec.structs.replace(message, content=text) for message, text in pairs]
