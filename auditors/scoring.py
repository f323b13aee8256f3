"""The base of auditors that compare the likelihoods of the answer given, which its server tells by a prefill each."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple, Self

from auditors.clients.cancellation import all_of
from auditors.likelihoods import NoLogprobsError, Scored, read_scored, scoring_request
from auditors.measuring import MeasuringAuditor
from auditors.probes import askable, is_unaskable
from auditors.text.conversation import Conversation, NotAuditableError, no_text
from auditors.types import (
    AsksUpstream,
    AuditFailure,
    AuditorSettings,
    CompletionError,
    Decider,
    Exchange,
    FailureKind,
    Measurement,
    Message,
    Servers,
)


class _Reply(NamedTuple):
    scored: Scored | None
    kind: FailureKind | None = None
    reason: str = ""


class ScoringAuditor(MeasuringAuditor):
    """Scores an answer under several conversations; a subclass says which, and compares."""

    needs_embedder: ClassVar[bool] = False
    asks_upstream: ClassVar[AsksUpstream] = "always"

    def __init__(self, decider_for: Callable[[Exchange], Decider], *, max_concurrency: int = 4) -> None:
        self._decider_for = decider_for
        self._slots = asyncio.Semaphore(max_concurrency)

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        return cls(servers.present_decider_for, max_concurrency=settings.max_concurrency)

    async def _scored(
        self,
        exchange: Exchange,
        conversation: Conversation,
        sides: Iterable[tuple[Sequence[Message], str]],
        lost: Callable[[str], list[Measurement]],
    ) -> list[Scored] | AuditFailure:
        """Return the scored answer of each conversation, or the failure, of which `lost` makes the missing measurements
        for a reason. Raises NotAuditableError.
        """
        replies = await all_of(self._score(exchange, conversation, *side) for side in sides)
        if failed := next((reply for reply in replies if reply.scored is None), None):
            missing = [] if is_unaskable(reply.kind for reply in replies) else lost(failed.reason)
            return self._failure(failed.kind, failed.reason, missing)
        return [reply.scored for reply in replies if reply.scored]

    async def _score(
        self, exchange: Exchange, conversation: Conversation, messages: Sequence[Message], answer: str
    ) -> _Reply:
        """Return the scored answer, or the failure. Raises NotAuditableError."""
        request = scoring_request(exchange.served_model, messages, answer, conversation.conditions)
        try:
            async with self._slots:
                reply = await self._decider_for(exchange).decide(request)
            return _Reply(await asyncio.to_thread(read_scored, reply, answer))
        except NoLogprobsError:
            raise _no_logprobs("its reply has none") from None
        except CompletionError as exc:
            if exc.kind == "rejected" and "prompt_logprobs" in str(exc):
                raise _no_logprobs(str(exc)) from None
            return _Reply(None, exc.kind, str(exc))


def scorable(exchange: Exchange) -> tuple[Conversation, str]:
    """Return the conversation and the answer, if its likelihood can be told. Raises NotAuditableError."""
    conversation = askable(exchange, max_tokens=1)
    answer = conversation.reply_text.strip()
    if conversation.thinks:
        raise NotAuditableError("thoughts", "its model thought first, and an answer without its thoughts is another")
    if not answer:
        raise no_text(conversation)
    if any(message.calls or message.call_id for message in conversation.messages):
        raise NotAuditableError("tool_calls", "likelihoods of answers after calls of tools are not compared")
    return conversation, answer


def _no_logprobs(why: str) -> NotAuditableError:
    return NotAuditableError("no_prompt_logprobs", f"the server tells no log-probabilities of a prompt: {why}")
