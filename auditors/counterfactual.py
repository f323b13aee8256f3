"""The counterfactual auditor: is the same question answered differently when it is about another group?

A sampled prompt that names one group of an axis is asked twice as it was and twice about another group
(`text.swaps`), all four answers drawn afresh. Asking the same prompt again is the control: it shows how far answers
differ by chance. Calls and results of tools in the request are part of the prompt: who is named is read of its words,
and then exchanged in arguments and results too (`text.swaps.prompt`). Every metric is a contrast of the two sides (the
group named, against the group swapped in).

Estimands, each a mean over sampled exchanges that can be swapped, per (axis, group named):
- `counterfactual_distance_excess`: mean distance between answers across the sides less the mean distance within them,
  in embeddings of the masked answers. With two draws a side this is unbiased for half the squared distance between
  the two sides' mean embeddings (auditors.metrics.dispersion): 0 for a model that answers both alike, whatever its
  temperature. Comparing one old answer with one new one instead would count every resampling as bias.
- `counterfactual_refusal_difference`: share refused as asked less share refused when swapped, -1..1.
- `counterfactual_length_difference`: (words as asked - words when swapped) / (sum of both), -1..1.
- `counterfactual_favoritism_difference`: how far a judge finds the asked-about group favoured, less the same of the
  swapped side about its group, -3..3; only with a judge.
Where the request offers tools or asks for JSON (`auditors.structured`), the same excess, across less within, of
- `counterfactual_tool_name_excess`: share of pairs of answers that do not call the same tools, -1..1. No call is a
  choice: a call on one side and words on the other are a flip. No tool is ever run.
- `counterfactual_tool_arguments_excess`: mean share of arguments that differ, -1..1, where all four answers call the
  same tools; that condition does not tell the four apart, so a model that treats both sides alike is still at 0.
- `counterfactual_json_excess`: mean share of the fields of the answers' JSON that differ, -1..1.
Favouritism, length and refusal are antisymmetric in the sides, so their mean is 0 when both sides have one
distribution: the control is in the expectation and need not be subtracted. Sampled afresh means that the answer the
client got is not used: it was drawn under other load and was selected by being sampled. Its conditions are those of the
live request.

An answer echoes the words that were swapped. Before distances and lengths, every word of the axis is replaced by a
neutral one in all four answers (`swaps.masked`), so the echo alone is no difference; in arguments and JSON so are names
of fields, and words that the swap exchanged (`swaps.echo`). When any of the four is refused, all but the refusal
difference and the tool's name have status "refusal". Where a tool is called in place of words, what compares words is
"unrelated"; so are arguments where not all call the same tools, and JSON and arguments where the live answer is longer
than a probe may be. JSON that cannot be read is "malformed".

What no value shows: which answer is the better one, whether a difference is wrong (advice may rightly differ), or
anything about prompts that cannot be swapped safely. Those abstain with a reason and are counted, never guessed.
English only.

Missing when the server fails, hangs or answers nothing: every contrast of the swap that this exchange was due for, as
a contrast needs all four answers; but those of refused answers are refused, not missing, once any answer was
declined. An embedder that fails loses the distance alone, a judge the judge score alone. Not missing: what was left
alone, and a question that the server rejects on both sides.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from auditors.audit_texts import LONGEST_CHARS, MOST_CALLS, Answers, KeptAnswer, KeptCall, fitted, leave
from auditors.clients.cancellation import all_of
from auditors.clients.judge_client import JudgeClient
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.conditions import has_room, offers_tools, returns_json
from auditors.judge import PROMPT_SHA256, judge_question, parse_verdict
from auditors.metrics.dispersion import distance_excess, signed_difference
from auditors.probes import CUT_SHORT, TOOL_CALLED, Answer, answers, askable, is_unaskable, longest, question, too_long
from auditors.structured import JSON, TOOL_ARGUMENTS, TOOL_NAME, json_contrast, tool_contrasts
from auditors.text.conversation import Conversation, NotAuditableError, text_of
from auditors.text.fencing import mark
from auditors.text.swaps.echo import Echo
from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.masking import masked
from auditors.text.swaps.outcome import Abstained, NotSwapped, Swapped
from auditors.text.swaps.prompt import SwappedPrompt, swapped_prompt
from auditors.text.thinking import OFF
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
    Servers,
    Status,
    status_of,
)

P = ParamSpec("P")
T = TypeVar("T")

DISTANCE = "counterfactual_distance_excess"
REFUSAL = "counterfactual_refusal_difference"
LENGTH = "counterfactual_length_difference"
FAVORITISM = "counterfactual_favoritism_difference"
LONGEST_READ_AT_ONCE = 16_384
"""Characters of all four answers that are read on the event loop."""
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
_TOO_LONG = _Value(None, "unrelated", "the live answer is longer than a probe may be")
_CALLED = _Value(None, "unrelated", TOOL_CALLED)


class CounterfactualAuditor:
    """Asks a sampled question about another group too; what it estimates is in the module docstring."""

    name = "counterfactual"
    version = "5"
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
        """Every contrast that is due; or one measurement without a value that says why nothing was swapped."""
        try:
            conversation = askable(exchange, self._max_tokens, takes_calls=True)
        except NotAuditableError as exc:
            return exc.failure_of(self)
        other = await asyncio.to_thread(_about_another, exchange, conversation)
        if isinstance(other, NotSwapped):
            return [other.measurement_of(self, DISTANCE, embedder=self._embedder.name)]
        sides = await self._ask(exchange, conversation, other)
        if failed := next((one for one in sides.all if one.kind), None):
            message = failed.reason or "no answer"
            is_owed = not is_unaskable(one.kind for one in sides.all)
            missing = self._lost(conversation, other.swap, message, sides) if is_owed else []
            return self._failure(failed.kind or "unavailable", message, missing)
        leave(lambda: _kept(other, sides))
        return await self._measured(exchange, conversation, other, sides)

    def missing(self, exchange: Exchange) -> list[Measurement]:
        """What an audit that was cut short leaves open: the contrasts of its swap, if it could be swapped."""
        try:
            conversation = askable(exchange, self._max_tokens, takes_calls=True)
        except NotAuditableError:
            return []
        other = _about_another(exchange, conversation)
        return [] if isinstance(other, NotSwapped) else self._lost(conversation, other.swap, CUT_SHORT, Sides((), ()))

    async def _ask(self, exchange: Exchange, conversation: Conversation, other: SwappedPrompt) -> Sides:
        """All four answers; the sides alternate, so that a change of load meets both."""
        requests = [
            question(exchange, conversation, messages, self._max_tokens)
            for _ in range(DRAWS)
            for messages in (conversation.messages, other.messages)
        ]
        completer, is_begun = self._completer_for(exchange), conversation.begins_in_thought
        found = await answers(completer, requests, self._slots, least=self._max_tokens, is_begun=is_begun)
        return Sides(found[0::2], found[1::2])

    async def _measured(
        self, exchange: Exchange, conversation: Conversation, other: SwappedPrompt, sides: Sides
    ) -> list[Measurement]:
        swapped = other.swap
        refused = [sum(one.is_refusal for one in side) / DRAWS for side in sides]
        values = {REFUSAL: _Value(refused[0] - refused[1])}
        if any(refused):
            values |= self._of_words(_DECLINED)
        elif any(one.has_only_calls for one in sides.all):
            values |= self._of_words(_CALLED)
        else:
            texts = await _read(sum(len(one.text) for one in sides.all), _masked, sides, swapped.axis)
            values[DISTANCE] = await self._distance(texts)
            words = [sum(len(text.split()) for text in side) for side in texts]
            values[LENGTH] = _Value(signed_difference(*words))
            if self._judge_model:
                values[FAVORITISM] = await self._favoritism(exchange, conversation, other, sides)
        values |= await self._of_decisions(conversation, other, sides)
        n_cut = sum(one.is_cut for one in sides.all)
        detail = {"words_swapped": swapped.n_words} | ({"answers_cut": n_cut} if n_cut else {})
        return [self._measurement(metric, swapped, one, detail) for metric, one in values.items()]

    def _of_words(self, found: _Value) -> dict[str, _Value]:
        """The same for every contrast that takes four answers in words."""
        values = {DISTANCE: found, LENGTH: found}
        return values | ({FAVORITISM: found._replace(judge=_unasked(self._judge_model))} if self._judge_model else {})

    async def _of_decisions(self, conversation: Conversation, other: SwappedPrompt, sides: Sides) -> dict[str, _Value]:
        """The contrasts of tools and JSON that are due."""
        if not (due := _due(conversation)):
            return {}
        length = sum(len(one.text) + sum(len(call.arguments) for call in one.calls) for one in sides.all)
        found = await _read(length, _decisions, other, sides)
        if not self._has_room(conversation):
            found |= {metric: _TOO_LONG for metric in found if metric != TOOL_NAME}
        return {metric: found[metric] for metric in due}

    def _has_room(self, conversation: Conversation) -> bool:
        return has_room(conversation, longest(conversation, self._max_tokens))

    def _lost(self, conversation: Conversation, swapped: Swapped, reason: str, sides: Sides) -> list[Measurement]:
        """Every contrast without its value, after these answers."""
        failed = next((one for one in sides.all if one.kind), None)
        lost = _Value(None, status_of(failed and failed.kind), reason)
        of_answers = _DECLINED if any(one.is_refusal for one in sides.all) else lost
        values = {REFUSAL: lost} | self._of_words(of_answers)
        of_fields = of_answers if self._has_room(conversation) else _TOO_LONG
        values |= {metric: lost if metric == TOOL_NAME else of_fields for metric in _due(conversation)}
        detail = {"words_swapped": swapped.n_words}
        return [self._measurement(metric, swapped, one, detail) for metric, one in values.items()]

    async def _distance(self, texts: Sequence[Sequence[str]]) -> _Value:
        try:
            vectors = await self._embedder.embed([text or "-" for side in texts for text in side])
        except (ValueError, CompletionError) as exc:
            return _Value(None, "error", f"embedder {self._embedder.name}: {exc}")
        return _Value(distance_excess(vectors[:DRAWS], vectors[DRAWS:]))

    async def _favoritism(
        self, exchange: Exchange, conversation: Conversation, other: SwappedPrompt, sides: Sides
    ) -> _Value:
        """Mean score of the named group less that of the group swapped in; a group not reported scores 0."""
        judge = self._judge_of(exchange)
        swapped, about_other = other.swap, text_of(other.messages)
        asked = [
            *((conversation.prompt_text, one.text, swapped.group) for one in sides.asked),
            *((about_other, one.text, swapped.target) for one in sides.swapped),
        ]
        try:
            scores = await all_of(self._score(judge, swapped.axis, *one) for one in asked)
        except CompletionError as exc:
            return _Value(None, status_of(exc.kind), f"judge: {exc.kind}: {exc}", _unasked(judge.model))
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
            judge = ThinkingCompleter(completer, OFF, expects_whole=True)
            self._judges[exchange.upstream] = JudgeClient(judge, self._judge_model or exchange.served_model)
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

    def _failure(self, kind: FailureKind, message: str, missing: Sequence[Measurement] = ()) -> AuditFailure:
        return AuditFailure(
            auditor=self.name, auditor_version=self.version, kind=kind, message=message, missing=missing
        )


def _about_another(exchange: Exchange, conversation: Conversation) -> SwappedPrompt | NotSwapped:
    """The question about another group, or the plainest reason why there is none."""
    if too_long(conversation):
        return Abstained(axis=next(iter(SLOTS)), reason="too long")
    return swapped_prompt(exchange.id, conversation.messages)


async def _read(length: int, read: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """What `read` finds in so many characters; off the event loop where they are many."""
    if length > LONGEST_READ_AT_ONCE:
        return await asyncio.to_thread(read, *args, **named)
    return read(*args, **named)


def _kept(other: SwappedPrompt, sides: Sides) -> Answers:
    """Both sides in words, as far as they are kept."""
    return Answers(
        axis=other.swap.axis,
        group=other.swap.group,
        reference=other.swap.target,
        words_swapped=other.swap.n_words,
        question=fitted(text_of(other.messages)),
        asked=list(map(_kept_answer, sides.asked)),
        swapped=list(map(_kept_answer, sides.swapped)),
    )


def _kept_answer(one: Answer) -> KeptAnswer:
    text, room = fitted(one.text), LONGEST_CHARS
    calls = list[KeptCall]()
    for call in one.calls[:MOST_CALLS]:
        kept = KeptCall(fitted(call.name)[:room], fitted(call.arguments)[: max(0, room - len(call.name))])
        room -= len(kept.name) + len(kept.arguments)
        calls.append(kept)
        if room <= 0:
            break
    written = sum(len(call.name) + len(call.arguments) for call in one.calls) + len(one.text)
    is_whole = written == len(text) + LONGEST_CHARS - room
    return KeptAnswer(text=text, calls=calls, is_refusal=one.is_refusal, is_cut=one.is_cut or not is_whole)


def _masked(sides: Sides, axis: str) -> list[list[str]]:
    return [[masked(one.text, axis) for one in side] for side in sides]


def _due(conversation: Conversation) -> list[str]:
    """The contrasts of decisions that the conditions of an exchange make."""
    tools = [TOOL_NAME, TOOL_ARGUMENTS] if offers_tools(conversation.conditions) else []
    return [*tools, *([JSON] if returns_json(conversation.conditions) else [])]


def _decisions(other: SwappedPrompt, sides: Sides) -> dict[str, _Value]:
    """Contrasts of tools and of JSON, whether they are due or not."""
    echo = Echo(other.asked, other.swap)
    of_tools = tool_contrasts(*sides, echo)
    found = {metric: _Value(*contrast) for metric, contrast in of_tools.items()}
    if any(one.is_refusal for one in sides.all):
        return found | {TOOL_ARGUMENTS: _DECLINED, JSON: _DECLINED}
    if any(one.has_only_calls for one in sides.all):
        return found | {JSON: _CALLED}
    return found | {JSON: _Value(*json_contrast(*sides, echo))}


def _unasked(model: str) -> JudgeStamp:
    return JudgeStamp(model=model, prompt_sha256=PROMPT_SHA256, attempts=0, thinking=str(OFF))
