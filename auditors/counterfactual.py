"""The counterfactual auditor: is the same question answered differently when it is about another group?
A sampled prompt that names one group of an axis is asked twice as it was and twice about another group (`text.swaps`),
under the live conditions; the second draw shows how far answers differ by chance. Each metric is a contrast of the
sides, a mean over sampled exchanges that can be swapped, per (axis, group named); docs/auditors.md has ranges and what
is missing. Differences (refusal, length, favouritism) are antisymmetric in the sides; excesses (distance, tools, JSON)
are differences across the sides less those within (`metrics.dispersion`, `structured`). Words of the axis are made
neutral in all answers first (`swaps.masking`), as an answer echoes them. No tool is run. Numbers do not show which
answer is better, or anything about prompts that cannot be swapped, which are counted. English only.
"""

import asyncio
from typing import Any

from auditors.audit_texts import LONGEST_CHARS, MOST_CALLS, Answers, KeptAnswer, KeptCall, fitted, leave
from auditors.clients.cancellation import all_of
from auditors.clients.judge_client import JudgeClient
from auditors.conditions import has_room, offers_tools, returns_json
from auditors.judge import PROMPT_SHA256, judge_question
from auditors.judge_verdict import parse_verdict
from auditors.probes import CUT_SHORT, Answer, askable, longest, too_long
from auditors.sides import CALLED, DECLINED, DRAWS, SidedAuditor, Sides, read
from auditors.structured import JSON, TOOL_ARGUMENTS, TOOL_NAME, Contrast, json_contrast, tool_contrasts
from auditors.text.conversation import Conversation, text_of
from auditors.text.fencing import mark
from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.masking import Echo
from auditors.text.swaps.outcome import Abstained, NotSwapped, Swapped
from auditors.text.swaps.prompt import SwappedPrompt, swapped_prompt
from auditors.types import (
    AuditFailure,
    CompletionError,
    Exchange,
    Measurement,
    Status,
    status_of,
)

DISTANCE = "counterfactual_distance_excess"
REFUSAL = "counterfactual_refusal_difference"
LENGTH = "counterfactual_length_difference"
FAVORITISM = "counterfactual_favoritism_difference"

_TOO_LONG = Contrast(None, "unrelated", "the live answer is longer than a probe may be")


class CounterfactualAuditor(SidedAuditor):
    """Asks a sampled question about another group too; what it estimates is in the module docstring."""

    name = "counterfactual"
    version = "8"
    distance, refusal, length = DISTANCE, REFUSAL, LENGTH
    question_sha256 = PROMPT_SHA256

    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        """Every contrast that is due; or one measurement without a value that says why nothing was swapped."""
        conversation = askable(exchange, self._max_tokens, takes_calls=True)
        other = await asyncio.to_thread(_about_another, exchange, conversation)
        if isinstance(other, NotSwapped):
            return [self._unswapped(other, DISTANCE, embedder=self._embedder.name)]
        sides = await self._ask(exchange, conversation, [conversation.messages, other.messages] * DRAWS)
        if failure := self._unanswered(sides, lambda reason: self._lost(conversation, other.swap, reason, sides)):
            return failure
        leave(lambda: _kept_sides(other, sides))
        return await self._measured(exchange, conversation, other, sides)

    def _missing(self, exchange: Exchange) -> list[Measurement]:
        conversation = askable(exchange, self._max_tokens, takes_calls=True)
        other = _about_another(exchange, conversation)
        return [] if isinstance(other, NotSwapped) else self._lost(conversation, other.swap, CUT_SHORT, Sides())

    async def _measured(
        self, exchange: Exchange, conversation: Conversation, other: SwappedPrompt, sides: Sides
    ) -> list[Measurement]:
        swapped = other.swap
        values = await self._compared(sides, swapped.axis)
        if self._judge_model and sides.obstacle:
            values[FAVORITISM] = self._unjudged(sides.obstacle)
        elif self._judge_model:
            values[FAVORITISM] = await self._favoritism(exchange, conversation, other, sides)
        values |= await self._of_decisions(conversation, other, sides)
        n_cut = sum(answer.is_cut for answer in sides.all)
        detail = {"words_swapped": swapped.n_words} | ({"answers_cut": n_cut} if n_cut else {})
        return [self._contrast(metric, swapped, value, detail) for metric, value in values.items()]

    async def _of_decisions(
        self, conversation: Conversation, other: SwappedPrompt, sides: Sides
    ) -> dict[str, Contrast]:
        if not (due := _due(conversation)):
            return {}
        length = sum(len(answer.text) + sum(len(call.arguments) for call in answer.calls) for answer in sides.all)
        contrasts = await read(length, _decisions, other, sides)
        if not self._has_room(conversation):
            contrasts |= {metric: _TOO_LONG for metric in contrasts if metric != TOOL_NAME}
        return {metric: contrasts[metric] for metric in due}

    def _has_room(self, conversation: Conversation) -> bool:
        return has_room(conversation, longest(conversation, self._max_tokens))

    def _lost(self, conversation: Conversation, swapped: Swapped, reason: str, sides: Sides) -> list[Measurement]:
        values = self._lost_words(sides, reason)
        lost, of_answers = values[REFUSAL], values[DISTANCE]
        if self._judge_model:
            values[FAVORITISM] = self._unjudged(of_answers)
        of_fields = of_answers if self._has_room(conversation) else _TOO_LONG
        values |= {metric: lost if metric == TOOL_NAME else of_fields for metric in _due(conversation)}
        detail = {"words_swapped": swapped.n_words}
        return [self._contrast(metric, swapped, value, detail) for metric, value in values.items()]

    async def _favoritism(
        self, exchange: Exchange, conversation: Conversation, other: SwappedPrompt, sides: Sides
    ) -> Contrast:
        """Mean score of the named group less that of the group swapped in; a group not reported scores 0."""
        judge = self._judge_of(exchange)
        swapped, about_other = other.swap, text_of(other.messages)
        cases = [
            *((conversation.prompt_text, answer.text, swapped.group) for answer in sides.asked),
            *((about_other, answer.text, swapped.target) for answer in sides.swapped),
        ]
        try:
            scores = await all_of(self._score(judge, swapped.axis, *case) for case in cases)
        except CompletionError as exc:
            return self._unjudged(Contrast(None, status_of(exc.kind), f"judge: {exc.kind}: {exc}"))
        stamp = scores[0].judge
        if unread := next((score for score in scores if score.value is None), None):
            return Contrast(None, unread.status, unread.reason, stamp)
        total = [score.value or 0.0 for score in scores]
        return Contrast((sum(total[:DRAWS]) - sum(total[DRAWS:])) / DRAWS, judge=stamp)

    async def _score(self, judge: JudgeClient, axis: str, prompt: str, answer: str, group: str) -> Contrast:
        async with self._slots:
            judgement = await judge.ask(lambda: judge_question(prompt, answer, mark()), parse_verdict)
        if judgement.value is None:
            return Contrast(None, "malformed", f"judge: {judgement.reason}", judgement.stamp)
        if judgement.value.refused:
            return Contrast(None, "refusal", "declined, says the judge", judgement.stamp)
        unread = judgement.value.why_unread((axis, group))
        status: Status = "ok" if unread is None else "malformed"
        return Contrast(judgement.value.score((axis, group)), status, unread, judgement.stamp)

    def _contrast(self, metric: str, swapped: Swapped, contrast: Contrast, detail: dict[str, Any]) -> Measurement:
        return self._measurement(
            metric,
            swapped.axis,
            swapped.group,
            contrast.value,
            contrast.status,
            contrast.reason,
            reference=swapped.target,
            judge=contrast.judge,
            detail={"embedder": self._embedder.name, **detail},
        )


def _about_another(exchange: Exchange, conversation: Conversation) -> SwappedPrompt | NotSwapped:
    if too_long(conversation):
        return Abstained(axis=next(iter(SLOTS)), reason="too long")
    return swapped_prompt(exchange.id, conversation.messages)


def _kept_sides(other: SwappedPrompt, sides: Sides) -> Answers:
    return Answers(
        axis=other.swap.axis,
        group=other.swap.group,
        reference=other.swap.target,
        words_swapped=other.swap.n_words,
        question=fitted(text_of(other.messages)),
        asked=list(map(_kept_answer, sides.asked)),
        swapped=list(map(_kept_answer, sides.swapped)),
    )


def _kept_answer(answer: Answer) -> KeptAnswer:
    text, room = fitted(answer.text), LONGEST_CHARS
    calls = list[KeptCall]()
    for call in answer.calls[:MOST_CALLS]:
        kept_call = KeptCall(fitted(call.name)[:room], fitted(call.arguments)[: max(0, room - len(call.name))])
        room -= len(kept_call.name) + len(kept_call.arguments)
        calls.append(kept_call)
        if room <= 0:
            break
    written = sum(len(call.name) + len(call.arguments) for call in answer.calls) + len(answer.text)
    is_whole = written == len(text) + LONGEST_CHARS - room
    return KeptAnswer(text=text, calls=calls, is_refusal=answer.is_refusal, is_cut=answer.is_cut or not is_whole)


def _due(conversation: Conversation) -> list[str]:
    tools = [TOOL_NAME, TOOL_ARGUMENTS] if offers_tools(conversation.conditions) else []
    return [*tools, *([JSON] if returns_json(conversation.conditions) else [])]


def _decisions(other: SwappedPrompt, sides: Sides) -> dict[str, Contrast]:
    echo = Echo(other.asked, other.swap)
    contrasts = tool_contrasts(*sides, echo)
    if any(answer.is_refusal for answer in sides.all):
        return contrasts | {TOOL_ARGUMENTS: DECLINED, JSON: DECLINED}
    if any(answer.has_only_calls for answer in sides.all):
        return contrasts | {JSON: CALLED}
    return contrasts | {JSON: json_contrast(*sides, echo)}
