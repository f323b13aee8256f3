"""The decision auditor: is the same case decided differently when it is about another group?
A request that is answered by probabilities of labels (System One, OpenAI's Decisions, chat completions with
log-probabilities) and names one group of an axis is asked twice as it was and twice about another group
(`swapped_decision`); nothing is sampled. Estimands, means over sampled exchanges that can be swapped, per (axis,
group):
- `decision_probability_excess`: probability of the outcome as asked less that when swapped, -1..1: of yes, of a
  choice's favourable option, or the place on a score's scale, 0..1.
- `decision_flip_rate`: share of decisions that flip across the sides less the share that flip within them, -1/2..1.
- `decision_impact_ratio`: selection rate as asked over that when swapped (four-fifths rule: below 0.8 is adverse),
  measured as r / (1 + r), which has a mean (`metrics.decisions`).
A decision is a selection when its outcome reaches the threshold of the request (`x-biasgate-threshold`) or of the
configuration. The questions of a request count by their mean. A question has no value where the labels' mass is low or
a reply cannot be read; it is missing where that happened on some sides only, or the server failed. Cases that cannot be
swapped safely abstain and are counted. English only.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from auditors.clients.cancellation import all_of
from auditors.measuring import MeasuringAuditor
from auditors.metrics.answers import flip_excess, impact, mean_difference
from auditors.probes import CUT_SHORT, NOT_ASKED_AGAIN, is_unaskable
from auditors.text.conversation import NotAuditableError
from auditors.text.readers.exchange import json_object, read_conversation
from auditors.text.swaps import leaves
from auditors.text.swaps.lexicon import SLOTS, axis_order, plainest
from auditors.text.swaps.outcome import Abstained, NotSwapped, Swapped
from auditors.text.swaps.swap import LONGEST_CHARS, swap
from auditors.types import (
    AsksUpstream,
    AuditFailure,
    AuditorSettings,
    CompletionError,
    Decider,
    DecisionRequest,
    Exchange,
    FailureKind,
    Measurement,
    Servers,
    Status,
)
from gateway.features.decisions import questions
from gateway.features.decisions.chat import ChatDecision
from gateway.features.decisions.questions import Answered, Decision, Question, Reading, Unread, decision_of, outcome
from gateway.features.decisions.typed import typed_decision

EXCESS = "decision_probability_excess"
IMPACT = "decision_impact_ratio"
FLIPS = "decision_flip_rate"
METRICS = frozenset({EXCESS, IMPACT, FLIPS})
TYPED_PATHS = frozenset({"/v1/systemone", "/v1/decisions"})
DRAWS = 2
"""Probes a side: two are the fewest that show how far a side differs from itself."""


@runtime_checkable
class DecisionSettings(Protocol):
    """The settings that this auditor reads from its section, in addition to those common to all auditors."""

    @property
    def threshold(self) -> float | None: ...
    @property
    def favourable(self) -> list[str]: ...


NAMED_IN_LABELS = "a label names the group"
MEDIA = "[media]"
"""Mark in a stored request in place of media, which are not kept."""


class _Reply(NamedTuple):
    """The outcome of a probe: readings, or the kind and reason of its failure."""

    reads: Sequence[Reading] = ()
    kind: FailureKind | None = None
    reason: str | None = None


class _Case(NamedTuple):
    """One question's readings, DRAWS a side."""

    question: Question
    asked: tuple[Answered, Answered]
    swapped: tuple[Answered, Answered]


class _Swap(NamedTuple):
    """A decision and the same about another group."""

    decision: Decision
    about: Swapped
    content: Any


class DecisionAuditor(MeasuringAuditor):
    """Asks for a sampled decision about another group too; what it estimates is in the module docstring."""

    name = "decision"
    version = "4"
    needs_embedder = False
    asks_upstream: AsksUpstream = "always"

    def __init__(
        self,
        decider_for: Callable[[Exchange], Decider],
        *,
        threshold: float | None = None,
        favourable: Sequence[str] = (),
        max_concurrency: int = 4,
    ) -> None:
        """`threshold`: where the request has none; `favourable`: good options of a choice, in order."""
        self._decider_for = decider_for
        self._threshold = threshold
        self._favourable = tuple(favourable)
        self._slots = asyncio.Semaphore(max_concurrency)

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        own = settings if isinstance(settings, DecisionSettings) else None
        return cls(
            servers.present_decider_for,
            threshold=own.threshold if own else None,
            favourable=own.favourable if own else (),
            max_concurrency=settings.max_concurrency,
        )

    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        """Two or three contrasts; or one measurement without a value that says why there is none."""
        swap = await asyncio.to_thread(self._swap, exchange)
        if not isinstance(swap, _Swap):
            return [self._unswapped(swap, EXCESS)]
        decision, decider = swap.decision, self._decider_for(exchange)
        sides = [decision.body(content, exchange.served_model) for content in (decision.content, swap.content)]

        async def ask(body: dict[str, Any]) -> _Reply:
            async with self._slots:
                try:
                    reply = await decider.decide(DecisionRequest(path=decision.path, body=body))
                except CompletionError as exc:
                    return _Reply(kind=exc.kind, reason=str(exc))
            return _Reply(await asyncio.to_thread(decision.read, reply))

        replies = await all_of(ask(body) for _ in range(DRAWS) for body in sides)
        if failed := next((reply for reply in replies if reply.kind), None):
            message = failed.reason or "no answer"
            is_owed = not is_unaskable(reply.kind for reply in replies)
            missing = self._without_value(swap.about, "error", message) if is_owed else []
            return self._failure(failed.kind, message, missing)
        return self._measured(exchange, swap, [reply.reads for reply in replies])

    def _missing(self, exchange: Exchange) -> list[Measurement]:
        swap = self._swap(exchange)
        return self._without_value(swap.about, "error", CUT_SHORT) if isinstance(swap, _Swap) else []

    def _swap(self, exchange: Exchange) -> _Swap | NotSwapped:
        """Takes processor time in proportion to the request. Raises NotAuditableError."""
        decision = read_decision(exchange, self._favourable)
        swapped = swapped_decision(exchange.id, decision)
        return swapped if isinstance(swapped, NotSwapped) else _Swap(decision, *swapped)

    def _measured(self, exchange: Exchange, swap: _Swap, reads: Sequence[Sequence[Reading]]) -> list[Measurement]:
        cases, unread = list[_Case](), list[Unread]()
        for question, draws in zip(swap.decision.questions, zip(*reads, strict=True), strict=True):
            case = _case(question, draws)
            if isinstance(case, Unread):
                unread.append(case)
            else:
                cases.append(case)
        if not cases:
            worst = min(unread, key=lambda reading: _WORST.index(reading.status))
            return self._without_value(swap.about, worst.status, worst.reason)
        threshold = exchange.threshold if exchange.threshold is not None else self._threshold
        measurements = self._of_cases(swap.about, cases, threshold)
        if unread:  # questions without a value, counted by a reason
            reason = min(reading.reason for reading in unread)
            measurements.append(self._measurement(EXCESS, None, None, None, "unrelated", reason))
        return measurements

    def _of_cases(self, about: Swapped, cases: Sequence[_Case], threshold: float | None) -> list[Measurement]:
        answers = [answered for case in cases for answered in (*case.asked, *case.swapped)]
        masses = [answered.label_mass for answered in answers if answered.label_mass is not None]
        detail: dict[str, Any] = {"questions": len(cases), "words_swapped": about.n_words}
        if masses:
            detail["label_mass"] = min(masses)
        sides = [[_decisions(case.question, side, threshold) for side in (case.asked, case.swapped)] for case in cases]
        flips = [flip_excess(asked, swapped) for asked, swapped in sides]
        cases_with_outcome = [case for case in cases if outcome(case.question, case.asked[0]) is not None]
        measurements = [self._value(FLIPS, about, sum(flips) / len(flips), detail | {"threshold": threshold})]
        if not cases_with_outcome:
            reason = "no option is known to be favourable"
            return [self._value(EXCESS, about, None, detail, reason=reason), *measurements]
        asked = [_outcomes(case.question, case.asked) for case in cases_with_outcome]
        swapped = [_outcomes(case.question, case.swapped) for case in cases_with_outcome]
        pairs = list(zip(asked, swapped, strict=True))
        differences = [mean_difference(mine, theirs) for mine, theirs in pairs]
        within = [(abs(mine[0] - mine[1]) + abs(theirs[0] - theirs[1])) / 2 for mine, theirs in pairs]
        further = {"asked": _mean(asked), "swapped": _mean(swapped), "within": sum(within) / len(within)}
        measurements.insert(0, self._value(EXCESS, about, sum(differences) / len(differences), detail | further))
        share = impact(
            [chosen for case in cases_with_outcome for chosen in _selections(case.question, case.asked, threshold)],
            [chosen for case in cases_with_outcome for chosen in _selections(case.question, case.swapped, threshold)],
        )
        if share is not None:
            ratio = self._value(IMPACT, about, share.share, detail | {"threshold": threshold}, weight=share.weight)
            measurements.append(ratio)
        return measurements

    def _value(self, metric: str, about: Swapped, value: float | None, detail: Any, **further: Any) -> Measurement:
        """Return a measurement of the swap; without a value, its status is `unrelated` if `further` names none."""
        fields: dict[str, Any] = {"reference": about.target, "detail": detail}
        fields["status"] = "unrelated" if value is None else "ok"
        return self._measurement(metric, about.axis, about.group, value, **(fields | further))

    def _without_value(self, about: Swapped, status: Status, reason: str) -> list[Measurement]:
        detail = {"words_swapped": about.n_words}
        why = {"status": status, "reason": reason}
        return [self._value(metric, about, None, detail, **why) for metric in (EXCESS, FLIPS, IMPACT)]


_WORST: Sequence[Status] = ("malformed", "error", "refusal", "unrelated", "ok")
"""Order of several reasons for a missing value: the status that claims least comes first."""


def read_decision(exchange: Exchange, favourable: Sequence[str]) -> Decision:
    """Return the decision that an exchange asked for. Raises NotAuditableError for prose, or if it is unreadable."""
    if exchange.endpoint in TYPED_PATHS:
        decision = typed_decision(exchange.endpoint, json_object(exchange.request_body, "request"), favourable)
        if not exchange.response_body:
            raise NotAuditableError("no_text", "the response was dropped, or was not JSON")
        readings = decision.read(exchange.response_body)
        if all(isinstance(reading, Unread) and reading.status != "refusal" for reading in readings):
            raise NotAuditableError("unexpected_shape", f"{exchange.endpoint}: the answer has no probabilities")
        return decision
    if exchange.endpoint != ChatDecision.path:
        raise NotAuditableError("no_decision", f"{exchange.endpoint} is not an endpoint for decisions")
    request = json_object(exchange.request_body, "request")
    if not request.get("logprobs"):
        raise NotAuditableError("no_decision", "the request asks for no log-probabilities")
    conversation = read_conversation(exchange)
    if notes := [note for note in conversation.notes if note in NOT_ASKED_AGAIN]:
        raise NotAuditableError(NOT_ASKED_AGAIN[notes[0]], f"cannot be asked again faithfully: {', '.join(notes)}")
    return ChatDecision(request, conversation, favourable, exchange.instruction)


def _case(question: Question, draws: Sequence[Reading]) -> _Case | Unread:
    checked = [_with_mass_enough(draw) for draw in draws]
    unread = [reading for reading in checked if isinstance(reading, Unread)]
    if unread:
        if len(unread) == len(checked) or any(reading.status == "refusal" for reading in unread):
            return min(unread, key=lambda reading: _WORST.index(reading.status))
        return Unread("malformed", unread[0].reason)
    first, other, second, last = (reading for reading in checked if isinstance(reading, Answered))
    return _Case(question, (first, second), (other, last))


def _with_mass_enough(read: Reading) -> Reading:
    if isinstance(read, Answered) and read.label_mass is not None and read.label_mass < questions.LEAST_LABEL_MASS:
        return Unread("unrelated", questions.LOW_MASS)
    return read


def _decisions(
    question: Question, draws: tuple[Answered, Answered], threshold: float | None
) -> tuple[int | bool | None, int | bool | None]:
    return decision_of(question, draws[0], threshold), decision_of(question, draws[1], threshold)


def _outcomes(question: Question, draws: Sequence[Answered]) -> list[float]:
    return [value for draw in draws if (value := outcome(question, draw)) is not None]


def _selections(question: Question, draws: Sequence[Answered], threshold: float | None) -> list[bool]:
    return [bool(questions.is_selected(question, draw, threshold)) for draw in draws]


def _mean(values: Sequence[Sequence[float]]) -> float:
    """Mean over questions of the mean over draws."""
    return sum(sum(value) / len(value) for value in values) / len(values)


def swapped_decision(exchange_id: str, decision: Decision) -> tuple[Swapped, Any] | NotSwapped:
    """Return the swap on the first axis that can be swapped, in an order by the exchange's id, and the content after
    it; or the plainest reason for none, as where a member's name, an id or a label names the group. Raises
    NotAuditableError when a part of the request was not kept.
    """
    content = decision.content
    content_leaves = list(leaves.leaves(content))
    if any(leaf.text == MEDIA for leaf in content_leaves):
        raise NotAuditableError("media", "a part of the request was not kept")
    first_axis = next(iter(SLOTS))
    if len(content_leaves) > leaves.MOST_TEXTS or sum(len(leaf.text) for leaf in content_leaves) > LONGEST_CHARS:
        return Abstained(axis=first_axis, reason="too long")
    order = axis_order(exchange_id)
    reasons: list[NotSwapped] = []
    members = list(leaves.member_names(content))
    for axis in order.axes:
        swapped = swap([leaves.framed(leaf, axis) for leaf in content_leaves], axis, choice=order.choice)
        if isinstance(swapped, Abstained):
            reasons.append(swapped)
        elif leaves.names_a_group(decision.names, axis):
            reasons.append(NotSwapped(axis=axis, reason=NAMED_IN_LABELS, group=swapped.group))
        elif leaves.names_a_group(members, axis):
            reasons.append(NotSwapped(axis=axis, reason=leaves.NAMED_IN_MEMBERS, group=swapped.group))
        else:
            texts = (leaves.bare(text, leaf, axis) for text, leaf in zip(swapped.texts, content_leaves, strict=True))
            return swapped, leaves.with_leaves(content, texts)
    return plainest(reasons)
