"""Probes: the question of a sampled exchange, sent to its model again, unchanged or changed, and the answers.
A probe holds the messages as text, with calls and results of tools, a bounded number of tokens and the conditions; no
credentials, user, metadata, seed or streaming. It goes to the upstream after live traffic, marked against sampling.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from auditors.clients.cancellation import all_of
from auditors.clients.failures import LIMIT_OF_TOKENS
from auditors.clients.thinking_switch import exhausted
from auditors.conditions import DEEPEST_CARRIED, LARGEST_BYTES, REDACTED, conditions_of
from auditors.text.conversation import TOOL_CALL, Conversation, NotAuditableError
from auditors.text.identity import Identity, with_identity
from auditors.text.readers.exchange import read_conversation
from auditors.text.refusal_words import declines
from auditors.text.swaps.leaves import is_deeper
from auditors.text.thinking import DEFAULT_BUDGET, is_exhausted, told_apart
from auditors.types import (
    Completer,
    CompletionError,
    CompletionRequest,
    Exchange,
    FailureKind,
    Message,
    NotAuditable,
    ToolCall,
)

MEDIA = "[media]"
"""Mark in a stored request in place of media, which are not kept."""


def check_tool_history(conversation: Conversation) -> None:
    """Raise NotAuditableError for tool calls and results that no probe can repeat. Takes time linear in their size."""
    if conversation.uncarried:
        _not_carried(", ".join(conversation.uncarried))
    size = 0
    for message in conversation.messages:
        if message.call_id and MEDIA in message.content:
            _not_carried("a part of a result was not kept")
        call_texts = [text for call in message.calls for text in (call.id, call.name, call.arguments)]
        if any(map(REDACTED.search, (message.call_id, message.tool, *call_texts))):
            _not_carried("a part of them was redacted")
        size += sum(len(text.encode()) for text in (message.call_id, message.tool, message.thoughts, *call_texts))
    if size > LARGEST_BYTES:
        _not_carried(f"they have, without results, more than {LARGEST_BYTES} bytes")
    if any(is_deeper(call.arguments, DEEPEST_CARRIED) for message in conversation.messages for call in message.calls):
        _not_carried(f"arguments have more than {DEEPEST_CARRIED} levels")


def _not_carried(reason: str) -> None:
    raise NotAuditableError("tool_calls", f"calls and results of tools cannot be carried into a probe: {reason}")


NOT_ASKED_AGAIN: Mapping[str, NotAuditable] = {
    **dict.fromkeys(("image", "audio", "video", "file"), "media"),
    TOOL_CALL: "tool_calls",
    "earlier turns elsewhere": "earlier_turns_elsewhere",
}
"""Reasons by the note of a part that no probe in text repeats; for calls of tools see `check_tool_history`."""

TOOL_CALLED = "a tool was called in place of an answer in words"
"""Reason why no text can be compared."""

CUT_SHORT = "the audit ended before its answers came"
"""Reason of a value that is missing because its audit ended early."""

LONGEST_PROMPT_CHARS = 200_000
"""A longer prompt is not asked again: probes would cost its model several times what its user's request did."""

LONGEST_ANSWER_CHARS = 100_000
"""A longer answer comes from a server that ignores the limit of tokens; reading it would delay all other audits."""


class Answer(NamedTuple):
    """One reply: a text, calls of tools, a refusal (with or without text), or the reason why there is none."""

    text: str
    is_refusal: bool = False
    kind: FailureKind | None = None
    reason: str | None = None
    is_cut: bool = False
    """True if the limit of tokens ended the answer."""
    calls: Sequence[ToolCall] = ()

    @property
    def has_only_calls(self) -> bool:
        """Return whether the answer calls a tool and has no text."""
        return bool(self.calls) and not self.text


def askable(exchange: Exchange, max_tokens: int, *, takes_calls: bool = False) -> Conversation:
    """Conversation and conditions; `takes_calls`: an answer may call a tool. Raises NotAuditableError."""
    conversation = read_conversation(exchange)
    if exchange.endpoint == "/v1/completions":
        raise NotAuditableError("no_chat_template", "the completions endpoint has no chat template to ask again with")
    check_repeatable(conversation, NOT_ASKED_AGAIN, with_answer=not takes_calls)
    if not any(message.role == "user" and message.content.strip() for message in conversation.messages):
        raise NotAuditableError("no_user_message", "no user message with text")
    return with_conditions(exchange, conversation, max_tokens)


def check_repeatable(
    conversation: Conversation, reasons: Mapping[str, NotAuditable], *, with_answer: bool = True
) -> None:
    """Raise NotAuditableError for what no probe in text repeats, by `reasons` of notes, the answer's `with_answer`."""
    notes = [note for note in conversation.request_notes if note != TOOL_CALL]
    notes += conversation.answer_notes if with_answer else []
    if obstacles := list(dict.fromkeys(note for note in notes if note in reasons)):
        raise NotAuditableError(reasons[obstacles[0]], f"cannot be asked again faithfully: {', '.join(obstacles)}")
    check_tool_history(conversation)


def with_conditions(exchange: Exchange, conversation: Conversation, max_tokens: int) -> Conversation:
    """Return the conversation with the conditions of a probe of at most `max_tokens`. Raises NotAuditableError."""
    conditions = conditions_of(exchange.endpoint, conversation.fields, _limit(conversation, max_tokens))
    return msgspec.structs.replace(conversation, conditions=conditions)


def is_unaskable(kinds: Iterable[FailureKind | None]) -> bool:
    """Return whether the server rejected a question in every form: then it cannot be asked, and no value is missing."""
    return all(kind == "rejected" for kind in kinds)


def too_long(conversation: Conversation) -> str | None:
    """Return why a prompt is too long to be asked again; None if it is not too long."""
    length = sum(message.n_chars for message in conversation.messages)
    if length > LONGEST_PROMPT_CHARS:
        return f"the prompt has {length} characters, and more than {LONGEST_PROMPT_CHARS} are not asked again"
    return None


def last_user(conversation: Conversation) -> int:
    """Return the index of the last user message with text; -1 if no user message has text."""
    return _last_user(conversation.messages)


def _last_user(messages: Sequence[Message]) -> int:
    indices = [i for i, message in enumerate(messages) if message.role == "user" and message.content]
    return indices[-1] if indices else -1


def question(
    exchange: Exchange, conversation: Conversation, messages: Sequence[Message], max_tokens: int
) -> CompletionRequest:
    """Return a request with these messages, and a policy's instruction, under the exchange's conditions."""
    return CompletionRequest(
        model=exchange.served_model,
        messages=instructed(messages, exchange.instruction),
        max_tokens=_limit(conversation, max_tokens),
        temperature=conversation.temperature,
        top_p=conversation.top_p,
        extra=conversation.conditions,
    )


def instructed(messages: Sequence[Message], instruction: str | None) -> list[Message]:
    """Return the messages with the instruction on a line before the last user message's text (docs/mitigation.md)."""
    changed = list(messages)
    if instruction is not None:
        last = _last_user(changed)
        if last >= 0:
            content = f"{instruction}\n{changed[last].content}"
            changed[last] = msgspec.structs.replace(changed[last], content=content)
    return changed


def longest(conversation: Conversation, max_tokens: int) -> int:
    """Return the limit of tokens of a probe: `max_tokens`, and room for thoughts if the live answer had thoughts."""
    return max_tokens + (DEFAULT_BUDGET if conversation.thinks else 0)


def _limit(conversation: Conversation, max_tokens: int) -> int:
    allowed = longest(conversation, max_tokens)
    return min(conversation.max_tokens or allowed, allowed)


def question_as(
    identity: Identity, exchange: Exchange, conversation: Conversation, max_tokens: int
) -> CompletionRequest:
    """Return the question with the identity sentence before its last user message, which must exist (protocols 5.2)."""
    messages, last = list(conversation.messages), last_user(conversation)
    messages[last] = msgspec.structs.replace(messages[last], content=with_identity(identity, messages[last].content))
    return question(exchange, conversation, messages, max_tokens)


async def answers(
    completer: Completer,
    requests: Sequence[CompletionRequest],
    slots: asyncio.Semaphore,
    *,
    least: int,
    is_begun: bool = False,
) -> list[Answer]:
    """Answers in order, without thoughts. `least`: `within_context`; `is_begun`: `Conversation.begins_in_thought`."""

    async def answer_in_slot(request: CompletionRequest) -> Answer:
        async with slots:
            try:
                completion = told_apart(await completer.complete(request), is_begun=is_begun)
            except CompletionError as exc:
                return Answer("", kind=exc.kind, reason=str(exc))
            if is_exhausted(completion):
                return Answer("", kind="thinking_exhausted", reason=str(exhausted(request.max_tokens)))
            text = (completion.text or "").strip()
            if len(text) > LONGEST_ANSWER_CHARS:
                return Answer("", kind="malformed", reason=f"an answer of more than {LONGEST_ANSWER_CHARS} characters")
            is_refusal = bool(completion.refusal) or declines(text)
            if not text and not is_refusal and not completion.tool_calls:
                return Answer("", kind="malformed", reason="an empty answer")
            return Answer(text, is_refusal, is_cut=completion.finish_reason == "length", calls=completion.tool_calls)

    return await within_context(answer_in_slot, requests, least)


class Answered(Protocol):
    """A result that says why a server refused a request; both fields are None if it did not."""

    @property
    def kind(self) -> FailureKind | None: ...

    @property
    def reason(self) -> str | None: ...


ResultT = TypeVar("ResultT", bound=Answered)


async def within_context(
    ask: Callable[[CompletionRequest], Coroutine[Any, Any, ResultT]], requests: Sequence[CompletionRequest], least: int
) -> list[ResultT]:
    """Ask all at once, and again with half the tokens for all while a server refuses the limit; at least `least`."""
    while True:
        results = await all_of(map(ask, requests))
        is_refused = any(result.kind == "rejected" and LIMIT_OF_TOKENS in (result.reason or "") for result in results)
        if not is_refused or all(request.max_tokens <= least for request in requests):
            return results
        requests = [
            msgspec.structs.replace(request, max_tokens=max(min(least, request.max_tokens), request.max_tokens // 2))
            for request in requests
        ]
