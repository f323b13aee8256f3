"""Client of a judge model, shared by the live judge auditor and the suites that a judge scores.
A reply is held to a JSON schema where the server can do that, else asked for in free text. An unreadable reply is asked
for again, as another draw; then what could be read counts, else it is a failure, never a number.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from auditors.clients.failures import is_for_tokens
from auditors.clients.pacing import NotSentError
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.text.refusal_words import declines
from auditors.text.thinking import DEFAULT
from auditors.types import (
    Completer,
    Completion,
    CompletionError,
    CompletionRequest,
    FailureKind,
    HearsOfJudgements,
    JudgeForm,
    JudgeOutcome,
    JudgeStamp,
    Message,
)

ATTEMPTS = 3
"""One question and two more when the reply cannot be read (protocols 2.7)."""
REPEATED_TEMPERATURE = 0.7
"""Least temperature at which a question is asked again: at 0 the same reply would come again."""
MORE_TOKENS = 4
"""Times as many tokens for a question whose last reply was cut off."""

T = TypeVar("T")

_OUTCOMES: Mapping[FailureKind, JudgeOutcome] = {
    "malformed": "malformed",
    "timeout": "timeout",
    "rejected": "rejected",
    "unavailable": "error",
    "thinking_exhausted": "thinking_exhausted",
}


class UnreadableError(ValueError):
    """A judge's reply that is not what was asked for; the message says why."""

    def __init__(self, message: str, partial: Any = None) -> None:
        """`partial`: what could be read, which counts if no further reply can be read better; None for nothing."""
        super().__init__(message)
        self.partial = partial


class JudgeQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a judge, in free text and, where the reply may be held to a schema, in that form."""

    messages: Sequence[Message]
    """Asked of servers that cannot hold a reply to a schema, and where there is none."""
    prompt_sha256: str
    """SHA-256 of the question with its slots open: scores of different questions never share a series."""
    schema: Mapping[str, Any] | None = None
    schema_messages: Sequence[Message] | None = None
    """The question where the reply is held to the schema; None: the same messages."""
    max_tokens: int = 256
    temperature: float = 0.0


class Judgement(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A judge's answer: a value, or None with the reason why every attempt was unreadable."""

    value: T | None
    text: str | None
    """The reply that was read, or else the last one, as it came."""
    stamp: JudgeStamp
    reason: str | None = None
    """Reason why the value is missing, or only a part of what was asked for."""


class JudgeClient:
    """Asks a judge; a completer that `HearsOfJudgements` hears the result of every request."""

    def __init__(self, completer: Completer, model: str, *, form: JudgeForm | None = None) -> None:
        """`form`: the form that earlier judgements of the same run took; None tries a schema first."""
        self.model = model
        self._completer = completer
        self._form = form
        self._thinking = str(completer.thinking if isinstance(completer, ThinkingCompleter) else DEFAULT)

    async def ask(self, question: Callable[[], JudgeQuestion], read: Callable[[str | None], T]) -> Judgement[T]:
        """Ask up to ATTEMPTS times, until `read` accepts a reply; each in a new draw and, after a cut-off reply, with
        more tokens. Raises CompletionError when the judge's server gives no reply.
        """
        attempt, longer, has_room, partial = 0, 1, True, None
        while True:
            attempt, judge_question = attempt + 1, question()
            if attempt > 1:
                temperature = max(judge_question.temperature, REPEATED_TEMPERATURE)
                judge_question = msgspec.structs.replace(
                    judge_question, temperature=temperature, max_tokens=judge_question.max_tokens * longer
                )
            try:
                completion, form = await self._complete(judge_question)
            except CompletionError as exc:
                if longer == 1 or not is_for_tokens(exc):
                    raise
                attempt, longer, has_room = attempt - 1, longer // MORE_TOKENS, False  # its context has no more
                continue
            if completion.finish_reason == "length" and has_room:
                longer *= MORE_TOKENS
            stamp = JudgeStamp(
                model=self.model,
                prompt_sha256=judge_question.prompt_sha256,
                attempts=attempt,
                form=form,
                thinking=self._thinking,
                fingerprint=completion.fingerprint,
            )
            text = completion.refusal if completion.text is None else completion.text
            try:
                value = read(completion.text)
            except UnreadableError as exc:
                is_refused = completion.refusal or completion.is_filtered or declines(completion.text or "")
                self._note("refused" if is_refused else "malformed")
                if exc.partial is not None:
                    partial = Judgement(value=exc.partial, text=text, stamp=stamp, reason=str(exc))
                if attempt == ATTEMPTS:
                    reason = f"no verdict in {ATTEMPTS} replies: {exc}"
                    return partial or Judgement(value=None, text=text, stamp=stamp, reason=reason)
            else:
                self._note("ok")
                return Judgement(value=value, text=text, stamp=stamp)

    async def _complete(self, question: JudgeQuestion) -> tuple[Completion, JudgeForm]:
        """The reply and the form it took. The first refusal of a schema, when free text is then taken, settles it."""
        if question.schema is None or self._form == "text":
            return await self._sent(self._request(question, "text")), "text"
        try:
            completion = await self._sent(self._request(question, "schema"))
        except CompletionError as exc:
            if exc.kind != "rejected" or self._form == "schema":
                raise
            completion = await self._sent(self._request(question, "text"))
            self._form = "text"
            return completion, "text"
        self._form = "schema"
        return completion, "schema"

    async def _sent(self, request: CompletionRequest) -> Completion:
        try:
            return await self._completer.complete(request)
        except asyncio.CancelledError as exc:
            if not exc.args:  # otherwise it says why: held back and never sent, or given up for live traffic
                self._note("timeout")
            raise
        except NotSentError:
            raise
        except CompletionError as exc:
            self._note(_OUTCOMES.get(exc.kind, "error"))
            raise

    def _note(self, outcome: JudgeOutcome) -> None:
        if isinstance(self._completer, HearsOfJudgements):
            self._completer.on_judged(outcome)

    def _request(self, question: JudgeQuestion, form: JudgeForm) -> CompletionRequest:
        is_held = form == "schema"
        return CompletionRequest(
            model=self.model,
            messages=(question.schema_messages if is_held else None) or question.messages,
            max_tokens=question.max_tokens,
            temperature=question.temperature,
            response_schema=question.schema if is_held else None,
        )


def prompt_sha256(*parts: str | Mapping[str, Any]) -> str:
    """sha256 of the fixed parts of a question: texts with their slots open, and schemas."""
    texts = (part if isinstance(part, str) else msgspec.json.encode(part).decode() for part in parts)
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
