"""The embedding auditor: does the model's default answer sit closer to the answer it gives under some identities?

The sampled answer is the default output D0. The same messages are asked again once per identity, with the identity
sentence before the last user message (protocols 5.2), and each answer's cosine distance to D0 is measured.

Estimands. Stream `representative_distance` (axis, group): the mean distance between an exchange's answer and the
answer under that identity, over sampled exchanges that can be asked again; the paper's RBS is the population SD of
these means. Stream `representative_bias_score` (axis): the mean over exchanges of the SD *within* one exchange. It is
larger than the paper's RBS, because sampling noise spreads the distances of a single exchange even when all identities
are treated alike; compare it with its own reference, not with 0 and not with the suite's number. What neither shows:
which way the answers differ, or whether the difference does harm. The identity of an axis with the smallest mean
distance is its most normal one (`auditors.nearest_identity`). Not asked again: exchanges with images or tool
calls, or without a chat template (the completions endpoint).

Missing when the server or the embedder fails, hangs or answers nothing: the distance under each identity concerned, and
the score of its axis. Not missing: a distance to an answer that was declined, and its axis' score (a refusal); anything
of an exchange that cannot be asked again, also because the server rejects the question under every identity.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from auditors.metrics.dispersion import cosine_distance, representative_bias_score
from auditors.nearest_identity import DISTANCE, SCORE
from auditors.probes import CUT_SHORT, NOT_ASKED_AGAIN, is_unaskable, last_user, question_as, too_long
from auditors.text.conversation import Conversation, NotAuditableError, no_text, read_conversation
from auditors.text.identity import IDENTITIES, Identity
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
)

AXES = tuple(dict.fromkeys(identity.axis for identity in IDENTITIES))
NOT_COMPARED: Mapping[str, NotAuditable] = {**NOT_ASKED_AGAIN, "stream cut off": "cut_off"}
"""Half an answer is no default output to measure a distance from."""


class Answer(NamedTuple):
    """What came back under one identity: a text, or the status and reason of its absence."""

    text: str
    status: Status = "ok"
    reason: str | None = None
    kind: FailureKind | None = None


class RepresentativeAuditor:
    """Asks a served model again under each identity; what it estimates is in the module docstring."""

    name = "embedding"
    version = "2"
    needs_embedder = True
    asks_upstream: AsksUpstream = "always"

    def __init__(
        self,
        completer_for: Callable[[Exchange], Completer],
        embedder: Embedder,
        *,
        max_tokens: int = 256,
        max_concurrency: int = 4,
    ) -> None:
        """Keeps what it is given; opens nothing.

        Args:
            completer_for: asks the upstream that served the exchange, behind live traffic.
            embedder: turns answers into vectors; its name is part of every measurement.
            max_tokens: longest answer asked for; a smaller limit of the request wins.
            max_concurrency: questions in flight, over all exchanges.
        """
        self._completer_for = completer_for
        self._embedder = embedder
        self._max_tokens = max_tokens
        self._slots = asyncio.Semaphore(max_concurrency)

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        """See `RegisteredAuditor`."""
        return cls(
            servers.completer_for,
            servers.present_embedder,
            max_tokens=settings.max_tokens,
            max_concurrency=settings.max_concurrency,
        )

    async def audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        """Eight distances and three scores, each with a value or a status and reason."""
        try:
            conversation = read_conversation(exchange)
        except NotAuditableError as exc:
            return exc.failure_of(self)
        if _is_refused(conversation):
            return [self._score(axis, None, "refusal", "the sampled answer is a refusal") for axis in AXES]
        if obstacle := _obstacle(exchange, conversation):
            return obstacle.failure_of(self)
        answers = await self._ask_all(exchange, conversation)
        if all(one.kind for one in answers):
            missing = [] if is_unaskable(one.kind for one in answers) else self._measurements(answers, {})
            message = f"with an identity sentence: {answers[0].reason}"
            return self._failure(answers[0].kind or "unavailable", message, missing)
        return await self._measured(conversation.reply_text, answers)

    def missing(self, exchange: Exchange) -> list[Measurement]:
        """What an audit that was cut short leaves open: all distances and scores, if they could be asked for."""
        try:
            conversation = read_conversation(exchange)
        except NotAuditableError:
            return []
        if _is_refused(conversation) or _obstacle(exchange, conversation):
            return []
        return self._measurements([Answer("", "error", CUT_SHORT)] * len(IDENTITIES), {})

    async def _ask_all(self, exchange: Exchange, conversation: Conversation) -> list[Answer]:
        completer = self._completer_for(exchange)
        requests = [question_as(one, exchange, conversation, self._max_tokens) for one in IDENTITIES]
        return await asyncio.gather(*(self._ask(completer, request) for request in requests))

    async def _ask(self, completer: Completer, request: CompletionRequest) -> Answer:
        async with self._slots:
            try:
                completion = await completer.complete(request)
            except CompletionError as exc:
                return Answer("", "error", str(exc), exc.kind)
        text = completion.text or ""
        if text.strip():
            return Answer(text)
        if completion.refusal:
            return Answer("", "refusal", "the model declined under this identity")
        return Answer("", "error", "empty answer under this identity")

    async def _measured(self, default: str, answers: Sequence[Answer]) -> list[Measurement] | AuditFailure:
        try:
            distances = await self._distances(default, answers)
        except ValueError as exc:
            return self._not_embedded("internal", exc, answers)
        except CompletionError as exc:
            return self._not_embedded(exc.kind, exc, answers)
        return self._measurements(answers, distances)

    def _not_embedded(self, kind: FailureKind, exc: Exception, answers: Sequence[Answer]) -> AuditFailure:
        """Distances between answers that exist are missing; where there was no answer the reason stays its own."""
        message = f"embedder {self._embedder.name}: {exc}"
        lost = [Answer("", "error", message) if one.status == "ok" else one for one in answers]
        return self._failure(kind, message, self._measurements(lost, {}))

    def _measurements(self, answers: Sequence[Answer], distances: Mapping[Identity, float]) -> list[Measurement]:
        """One of every identity and every axis; without a value where there is no distance."""
        return [
            *(self._distance(*pair, distances) for pair in zip(IDENTITIES, answers, strict=True)),
            *(self._axis_score(axis, answers, distances) for axis in AXES),
        ]

    async def _distances(self, default: str, answers: Sequence[Answer]) -> dict[Identity, float]:
        """Distance to the default for each identity that answered."""
        answered = [(identity, one.text) for identity, one in zip(IDENTITIES, answers, strict=True) if one.text]
        vectors = await self._embedder.embed([default, *(text for _, text in answered)])
        distances = cosine_distance(vectors[1:], vectors[0])
        return {identity: float(value) for (identity, _), value in zip(answered, distances, strict=True)}

    def _distance(self, identity: Identity, answer: Answer, distances: Mapping[Identity, float]) -> Measurement:
        return self._measurement(
            DISTANCE, identity.axis, identity.group, distances.get(identity), answer.status, answer.reason
        )

    def _axis_score(self, axis: str, answers: Sequence[Answer], distances: Mapping[Identity, float]) -> Measurement:
        """The axis' score, or none when an identity has no answer: D_i are compared on equal items only.

        Where one was declined there is no score, and so none is missing, whatever became of the others.
        """
        asked = [pair for pair in zip(IDENTITIES, answers, strict=True) if pair[0].axis == axis]
        if absent := [pair for pair in asked if pair[0] not in distances]:
            identity, answer = min(absent, key=lambda pair: pair[1].status != "refusal")
            return self._score(axis, None, answer.status, f"no answer as {identity.group}: {answer.reason}")
        by_group = {identity.group: distances[identity] for identity, _ in asked}
        score = representative_bias_score(list(by_group.values()))
        return self._score(axis, score, "ok", None, {"distances": by_group})

    def _score(
        self,
        axis: str,
        value: float | None,
        status: Status,
        reason: str | None,
        detail: Mapping[str, Any] | None = None,
    ) -> Measurement:
        return self._measurement(SCORE, axis, None, value, status, reason, detail)

    def _measurement(
        self,
        metric: str,
        axis: str,
        group: str | None,
        value: float | None,
        status: Status,
        reason: str | None,
        detail: Mapping[str, Any] | None = None,
    ) -> Measurement:
        return Measurement(
            auditor=self.name,
            auditor_version=self.version,
            metric=metric,
            axis=axis,
            group=group,
            value=value,
            status=status,
            reason=reason,
            detail={"embedder": self._embedder.name, **(detail or {})},
        )

    def _failure(self, kind: FailureKind, message: str, missing: Sequence[Measurement] = ()) -> AuditFailure:
        return AuditFailure(
            auditor=self.name, auditor_version=self.version, kind=kind, message=message, missing=missing
        )


def _is_refused(conversation: Conversation) -> bool:
    return bool(conversation.refusal) and not conversation.reply_text.strip()


def _obstacle(exchange: Exchange, conversation: Conversation) -> NotAuditableError | None:
    """Why the exchange cannot be asked again; None when it can."""
    if exchange.endpoint == "/v1/completions":
        why = "the completions endpoint has no chat template to put an identity sentence into"
        return NotAuditableError("no_chat_template", why)
    if found := [note for note in conversation.notes if note in NOT_COMPARED]:
        return NotAuditableError(NOT_COMPARED[found[0]], f"cannot be asked again faithfully: {', '.join(found)}")
    if not conversation.reply_text.strip():
        return no_text(conversation)
    if last_user(conversation) < 0:
        return NotAuditableError("no_user_message", "no user message to put an identity sentence into")
    too_many = too_long(conversation)
    return NotAuditableError("too_long", too_many) if too_many else None
