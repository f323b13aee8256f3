"""The base of auditors that ask a question in two forms, two answers each, and compare the sides in words. Sides
alternate against changes of load; two answers show the spread within a side. Means are 0 for equal sides.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, ParamSpec, Self, TypeVar

from auditors.clients.judge_client import JudgeClient
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.measuring import ProbingAuditor
from auditors.metrics.dispersion import distance_excess, signed_difference
from auditors.probes import TOOL_CALLED, Answer, answers, is_unaskable, question
from auditors.structured import Contrast
from auditors.text.conversation import Conversation
from auditors.text.swaps.masking import masked
from auditors.text.thinking import OFF
from auditors.types import (
    AsksUpstream,
    AuditFailure,
    AuditorSettings,
    Completer,
    CompletionError,
    Embedder,
    Exchange,
    JudgeStamp,
    Measurement,
    Message,
    Servers,
    status_of,
)

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_READ_AT_ONCE = 16_384
"""Characters of all four answers that are read on the event loop."""
DRAWS = 2
"""Answers a side."""
DECLINED = Contrast(None, "refusal", "an answer was declined")
CALLED = Contrast(None, "unrelated", TOOL_CALLED)


class Sides(NamedTuple):
    """The answers to both forms of a question, DRAWS each."""

    asked: Sequence[Answer] = ()
    swapped: Sequence[Answer] = ()

    @property
    def all(self) -> list[Answer]:
        return [*self.asked, *self.swapped]

    @property
    def failed(self) -> Answer | None:
        """The first answer that failed."""
        return next((answer for answer in self.all if answer.kind), None)

    @property
    def obstacle(self) -> Contrast | None:
        """The reason why the words of the answers are not compared."""
        if any(answer.is_refusal for answer in self.all):
            return DECLINED
        return CALLED if any(answer.has_only_calls for answer in self.all) else None


class SidedAuditor(ProbingAuditor):
    """Asks in two forms; a subclass says which, and names the contrasts."""

    needs_embedder: ClassVar[bool] = True
    asks_upstream: ClassVar[AsksUpstream] = "always"
    distance: ClassVar[str]
    """Metric of the distance across the sides less that within them."""
    refusal: ClassVar[str]
    """Metric of the difference of shares refused."""
    length: ClassVar[str]
    """Metric of the difference of words, relative to their sum."""
    question_sha256: ClassVar[str]
    """SHA-256 of the question to the judge."""

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
        """Opens nothing. `judge` None: the exchange's upstream; `judge_model` None: no judge is asked. The embedder's
        name is part of every measurement.
        """
        super().__init__(completer_for, max_tokens=max_tokens, max_concurrency=max_concurrency)
        self._embedder = embedder
        self._judge = judge
        self._judge_model = judge_model
        self._judges: dict[str, JudgeClient] = {}

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        return cls(
            servers.completer_for,
            servers.present_embedder,
            judge=servers.judge,
            judge_model=settings.model,
            max_tokens=settings.max_tokens,
            max_concurrency=settings.max_concurrency,
        )

    async def _ask(self, exchange: Exchange, conversation: Conversation, forms: Sequence[Sequence[Message]]) -> Sides:
        requests = [question(exchange, conversation, messages, self._max_tokens) for messages in forms]
        completer, is_begun = self._completer_for(exchange), conversation.begins_in_thought
        drawn_answers = await answers(completer, requests, self._slots, least=self._max_tokens, is_begun=is_begun)
        return Sides(drawn_answers[0::2], drawn_answers[1::2])

    def _unanswered(self, sides: Sides, lost: Callable[[str], list[Measurement]]) -> AuditFailure | None:
        """Return the failure of sides that lack an answer; `lost` makes the missing measurements for a reason."""
        if (failed := sides.failed) is None:
            return None
        message = failed.reason or "no answer"
        return self._failure(
            failed.kind, message, [] if is_unaskable(answer.kind for answer in sides.all) else lost(message)
        )

    async def _compared(self, sides: Sides, axis: str) -> dict[str, Contrast]:
        refused = [sum(answer.is_refusal for answer in side) / DRAWS for side in (sides.asked, sides.swapped)]
        contrasts = {self.refusal: Contrast(refused[0] - refused[1])}
        if sides.obstacle:
            return contrasts | dict.fromkeys((self.distance, self.length), sides.obstacle)
        n_chars = sum(len(answer.text) for answer in sides.all)
        texts = await read(n_chars, lambda: [[masked(answer.text, axis) for answer in side] for side in sides])
        contrasts[self.distance] = await self._distance(texts)
        words = [sum(len(text.split()) for text in side) for side in texts]
        return contrasts | {self.length: Contrast(signed_difference(*words))}

    def _lost_words(self, sides: Sides, reason: str) -> dict[str, Contrast]:
        """Return the same contrasts after a failure: those of declined answers are refused, not missing."""
        lost = Contrast(None, status_of(sides.failed and sides.failed.kind), reason)
        of_answers = DECLINED if any(answer.is_refusal for answer in sides.all) else lost
        return {self.refusal: lost} | dict.fromkeys((self.distance, self.length), of_answers)

    def _judge_of(self, exchange: Exchange) -> JudgeClient:
        if exchange.upstream not in self._judges:
            completer = self._judge or self._completer_for(exchange)
            judge = ThinkingCompleter(completer, OFF, expects_whole=True)
            self._judges[exchange.upstream] = JudgeClient(judge, self._judge_model or exchange.served_model)
        return self._judges[exchange.upstream]

    def _unjudged(self, contrast: Contrast) -> Contrast:
        """Return a contrast without a value, for the judge that was not asked, or gave no reply."""
        model, sha256 = self._judge_model or "", self.question_sha256
        return contrast._replace(judge=JudgeStamp(model=model, prompt_sha256=sha256, attempts=0, thinking=str(OFF)))

    async def _distance(self, texts: Sequence[Sequence[str]]) -> Contrast:
        try:
            vectors = await self._embedder.embed([text or "-" for side in texts for text in side])
        except (ValueError, CompletionError) as exc:
            return Contrast(None, "error", f"embedder {self._embedder.name}: {exc}")
        return Contrast(distance_excess(vectors[:DRAWS], vectors[DRAWS:]))


async def read(length: int, reader: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Return the result of `reader` for so many characters; computed off the event loop if they are many."""
    if length > LONGEST_READ_AT_ONCE:
        return await asyncio.to_thread(reader, *args, **named)
    return reader(*args, **named)
