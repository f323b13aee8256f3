"""The embedding auditor: is the model's default answer closer to the answer it gives under some identities?
The sampled answer is the default output D0, drawn again where it may be longer than a probe's. The messages are asked
again once per identity (protocols 5.2) under the live conditions. Estimands: `representative_distance` (axis, group),
the mean cosine distance to D0, whose population SD over groups is the paper's RBS; `representative_bias_score` (axis),
the mean SD within an exchange, larger by sampling noise. Neither shows which way answers differ. Missing where server
or embedder fails: the distance and its axis' score, all with a fresh D0; not missing: refusals, calls of tools,
exchanges that cannot be asked again (docs/auditors.md).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

from auditors.clients.thinking_switch import exhausted
from auditors.conditions import has_room
from auditors.identities import PAPER, Identities, identities_of
from auditors.measuring import ProbingAuditor
from auditors.metrics.dispersion import cosine_distance, representative_bias_score
from auditors.nearest_identity import DISTANCE, SCORE
from auditors.probes import (
    CUT_SHORT,
    NOT_ASKED_AGAIN,
    TOOL_CALLED,
    check_repeatable,
    is_unaskable,
    last_user,
    longest,
    question,
    question_as,
    too_long,
    with_conditions,
    within_context,
)
from auditors.text.conversation import Conversation, NotAuditableError, no_text
from auditors.text.identity import Identity
from auditors.text.readers.exchange import read_conversation
from auditors.text.thinking import is_exhausted, told_apart
from auditors.types import (
    AsksUpstream,
    AuditFailure,
    AuditorSettings,
    Completer,
    CompletionError,
    CompletionRequest,
    Embedder,
    Exchange,
    FailureKind,
    Measurement,
    NotAuditable,
    Servers,
    Status,
    status_of,
)

_ORDER: tuple[Status, ...] = ("refusal", "unrelated", "thinking_exhausted", "malformed", "error", "ok")
"""Order of reasons for a missing value, the first of which counts: values never due before missing ones."""
_SAMPLED_REFUSAL = "the sampled answer is a refusal"
NOT_COMPARED: Mapping[str, NotAuditable] = {**NOT_ASKED_AGAIN, "stream cut off": "cut_off"}
"""Notes with the reason why an answer is not compared: half an answer is not a default to measure from."""


class Answer(NamedTuple):
    """The answer under an identity: a text, or the status and reason of its absence."""

    text: str
    status: Status = "ok"
    reason: str | None = None
    kind: FailureKind | None = None


class RepresentativeAuditor(ProbingAuditor):
    """Asks a served model again under each identity; what it estimates is in the module docstring."""

    name = "embedding"
    version = "4"
    needs_embedder = True
    asks_upstream: AsksUpstream = "always"

    def __init__(
        self,
        completer_for: Callable[[Exchange], Completer],
        embedder: Embedder,
        *,
        identities: Identities = PAPER,
        max_tokens: int = 256,
        max_concurrency: int = 4,
        sets_thinking: bool = False,
    ) -> None:
        """See `ProbingAuditor`; with `sets_thinking` no live answer is D0: probes think otherwise."""
        super().__init__(completer_for, max_tokens=max_tokens, max_concurrency=max_concurrency)
        self._embedder = embedder
        self._identities = identities
        self._sets_thinking = sets_thinking

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        return cls(
            servers.completer_for,
            servers.present_embedder,
            identities=identities_of(settings),
            max_tokens=settings.max_tokens,
            max_concurrency=settings.max_concurrency,
            sets_thinking=settings.thinking is not None,
        )

    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        conversation = read_conversation(exchange)
        if _is_refused(conversation):
            axes = self._identities.axes
            return [self._measured_by(SCORE, axis, None, None, "refusal", _SAMPLED_REFUSAL) for axis in axes]
        conversation = _askable(exchange, conversation, self._max_tokens)
        default, answers = await self._ask_all(exchange, conversation)
        if all(answer.kind for answer in answers):
            missing = [] if is_unaskable(answer.kind for answer in answers) else self._measurements(answers, {})
            message = f"with an identity sentence: {answers[0].reason}"
            return self._failure(answers[0].kind, message, missing)
        if default.status != "ok":
            answers = [min(default, answer, key=lambda each: _ORDER.index(each.status)) for answer in answers]
            if default.kind:
                message = f"the newly drawn default answer: {default.reason}"
                return self._failure(default.kind, message, self._measurements(answers, {}))
            return self._measurements(answers, {})
        return await self._measured(default.text, answers)

    def _missing(self, exchange: Exchange) -> list[Measurement]:
        conversation = read_conversation(exchange)
        if _is_refused(conversation):
            return []
        _askable(exchange, conversation, self._max_tokens)
        return self._measurements([Answer("", "error", CUT_SHORT)] * len(self._identities.listed), {})

    async def _ask_all(self, exchange: Exchange, conversation: Conversation) -> tuple[Answer, list[Answer]]:
        completer, limit = self._completer_for(exchange), self._max_tokens
        ask = partial(self._ask, completer, conversation.begins_in_thought)
        requests = [question_as(identity, exchange, conversation, limit) for identity in self._identities.listed]
        if has_room(conversation, longest(conversation, limit)) and not self._sets_thinking:
            answers = await within_context(ask, requests, limit)
            return Answer(conversation.reply_text), answers
        requests = [question(exchange, conversation, conversation.messages, limit), *requests]
        default, *answers = await within_context(ask, requests, limit)
        return default, answers

    async def _ask(self, completer: Completer, is_begun: bool, request: CompletionRequest) -> Answer:
        async with self._slots:
            try:
                completion = told_apart(await completer.complete(request), is_begun=is_begun)
            except CompletionError as exc:
                return Answer("", status_of(exc.kind), str(exc), exc.kind)
        if is_exhausted(completion):
            reason = str(exhausted(request.max_tokens))
            return Answer("", "thinking_exhausted", reason, "thinking_exhausted")
        text = completion.text or ""
        if text.strip():
            return Answer(text)
        if completion.refusal:
            return Answer("", "refusal", "the model declined")
        if completion.tool_calls:
            return Answer("", "unrelated", TOOL_CALLED)
        return Answer("", "error", "empty answer")

    async def _measured(self, default: str, answers: Sequence[Answer]) -> list[Measurement] | AuditFailure:
        try:
            distances = await self._distances(default, answers)
        except (ValueError, CompletionError) as exc:
            message = f"embedder {self._embedder.name}: {exc}"
            lost = [Answer("", "error", message) if answer.status == "ok" else answer for answer in answers]
            kind: FailureKind = exc.kind if isinstance(exc, CompletionError) else "internal"
            return self._failure(kind, message, self._measurements(lost, {}))
        return self._measurements(answers, distances)

    def _measurements(self, answers: Sequence[Answer], distances: Mapping[Identity, float]) -> list[Measurement]:
        measurements = [
            self._measured_by(DISTANCE, identity.axis, identity.group, distances.get(identity), status, reason)
            for identity, (_, status, reason, _) in zip(self._identities.listed, answers, strict=True)
        ]
        return measurements + [self._axis_score(axis, answers, distances) for axis in self._identities.axes]

    async def _distances(self, default: str, answers: Sequence[Answer]) -> dict[Identity, float]:
        pairs = zip(self._identities.listed, answers, strict=True)
        answered = [(identity, answer.text) for identity, answer in pairs if answer.text]
        vectors = await self._embedder.embed([default, *(text for _, text in answered)])
        distances = cosine_distance(vectors[1:], vectors[0])
        return {identity: float(value) for (identity, _), value in zip(answered, distances, strict=True)}

    def _axis_score(self, axis: str, answers: Sequence[Answer], distances: Mapping[Identity, float]) -> Measurement:
        """The axis' score; None where an identity has no answer, as D_i are compared on equal items only."""
        pairs = [pair for pair in zip(self._identities.listed, answers, strict=True) if pair[0].axis == axis]
        if absent := [pair for pair in pairs if pair[0] not in distances]:
            identity, answer = min(absent, key=lambda pair: _ORDER.index(pair[1].status))
            reason = f"no answer as {identity.group}: {answer.reason}"
            return self._measured_by(SCORE, axis, None, None, answer.status, reason)
        by_group = {identity.group: distances[identity] for identity, _ in pairs}
        score = representative_bias_score(list(by_group.values()))
        return self._measured_by(SCORE, axis, None, score, distances=by_group)

    def _measured_by(
        self,
        metric: str,
        axis: str,
        group: str | None,
        value: float | None,
        status: Status = "ok",
        reason: str | None = None,
        **detail: Any,
    ) -> Measurement:
        detail = {"embedder": self._embedder.name, **self._identities.detail, **detail}
        return self._measurement(metric, axis, group, value, status, reason, detail=detail)


def _is_refused(conversation: Conversation) -> bool:
    return bool(conversation.refusal) and not conversation.reply_text.strip()


def _askable(exchange: Exchange, conversation: Conversation, max_tokens: int) -> Conversation:
    if exchange.endpoint == "/v1/completions":
        why = "the completions endpoint has no chat template to put an identity sentence into"
        raise NotAuditableError("no_chat_template", why)
    check_repeatable(conversation, NOT_COMPARED)
    if not conversation.reply_text.strip():
        raise no_text(conversation)
    if last_user(conversation) < 0:
        raise NotAuditableError("no_user_message", "no user message to put an identity sentence into")
    if too_many := too_long(conversation):
        raise NotAuditableError("too_long", too_many)
    return with_conditions(exchange, conversation, max_tokens)
