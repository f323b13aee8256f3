"""Probes: the question of a sampled exchange, sent to its model again, also in changed form, and the answers.

A question asked again holds the messages as text, with calls and results of tools as they came, the temperature, top_p,
a bounded number of tokens and every other field that shapes the answer (`auditors.conditions`), and nothing else: no
client's credentials, user, metadata or conversation id, no seed (each answer is drawn again), no streaming. A tool
that an answer calls is read, never run. It goes straight to the upstream behind live traffic, marked so that no gateway
samples it. A history of tools that cannot be sent again as it was raises NotAuditableError `tool_calls`.
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
from auditors.text.swaps.json_text import is_deeper
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
    """Raises NotAuditableError for a history of tools that no probe can have. Takes time in proportion to it."""
    if conversation.uncarried:
        _not_carried(", ".join(conversation.uncarried))
    size = 0
    for message in conversation.messages:
        if message.call_id and MEDIA in message.content:
            _not_carried("a part of a result was not kept")
        written = [text for call in message.calls for text in (call.id, call.name, call.arguments)]
        if any(map(REDACTED.search, (message.call_id, message.tool, *written))):
            _not_carried("a part of them was redacted")
        size += sum(len(text.encode()) for text in (message.call_id, message.tool, message.thoughts, *written))
    if size > LARGEST_BYTES:
        _not_carried(f"they have, without results, more than {LARGEST_BYTES} bytes")
    if any(is_deeper(call.arguments, DEEPEST_CARRIED) for message in conversation.messages for call in message.calls):
        _not_carried(f"arguments have more than {DEEPEST_CARRIED} levels")


def _not_carried(why: str) -> None:
    raise NotAuditableError("tool_calls", f"calls and results of tools cannot be carried into a probe: {why}")


NOT_ASKED_AGAIN: Mapping[str, NotAuditable] = {
    **dict.fromkeys(("image", "audio", "video", "file"), "media"),
    TOOL_CALL: "tool_calls",
    "earlier turns elsewhere": "earlier_turns_elsewhere",
}
"""Notes of parts of a conversation that a question in words cannot repeat, with the reason that each gives.

A tool that was called in the request is no such thing: `auditors.probes` says what of it is carried.
"""

TOOL_CALLED = "a tool was called in place of an answer in words"
"""Reason of a contrast in words that there cannot be."""

CUT_SHORT = "the audit ended before its answers came"
"""Reason of a value that is missing because its audit was ended early."""

LONGEST_PROMPT_CHARS = 200_000
"""Asked again, a longer prompt would cost its model several times what its user's question did."""

LONGEST_ANSWER_CHARS = 100_000
"""A longer one is none that was asked for: its server keeps no limit, and reading it would hold up everything else."""


class Answer(NamedTuple):
    """One reply: a text, calls of tools, a refusal (with or without text), or the reason why there is none."""

    text: str
    is_refusal: bool = False
    kind: FailureKind | None = None
    reason: str | None = None
    is_cut: bool = False
    """Ended by the limit of tokens."""
    calls: Sequence[ToolCall] = ()
    """Tools that it asks for."""

    @property
    def has_only_calls(self) -> bool:
        """Return whether the answer calls a tool and says nothing."""
        return bool(self.calls) and not self.text


def askable(exchange: Exchange, max_tokens: int, *, takes_calls: bool = False) -> Conversation:
    """The conversation of an exchange whose question can be asked again, with the conditions to ask it under.

    Args: max_tokens: longest answer that is to be asked for; takes_calls: whether an answer that calls a tool is of
        use.

    Raises: NotAuditableError.
    """
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
    """Raises NotAuditableError for a conversation that no question in words can repeat.

    Args: reasons: notes of things that cannot be repeated, with the reason that each makes; with_answer: whether notes
        of the answer count too.
    """
    noted = [note for note in conversation.asked_notes if note != TOOL_CALL]
    noted += conversation.answer_notes if with_answer else []
    if obstacles := list(dict.fromkeys(note for note in noted if note in reasons)):
        raise NotAuditableError(reasons[obstacles[0]], f"cannot be asked again faithfully: {', '.join(obstacles)}")
    check_tool_history(conversation)


def with_conditions(exchange: Exchange, conversation: Conversation, max_tokens: int) -> Conversation:
    """The conversation with what a probe of so many tokens carries on. Raises NotAuditableError."""
    conditions = conditions_of(exchange.endpoint, conversation.fields, _limit(conversation, max_tokens))
    return msgspec.structs.replace(conversation, conditions=conditions)


def is_unaskable(kinds: Iterable[FailureKind | None]) -> bool:
    """Return whether the server rejected a question in every form: it cannot be asked again, so no value of it is
    missing.

    Rejected in some forms only, it could be asked, and the values of the others are missing.
    """
    return all(kind == "rejected" for kind in kinds)


def too_long(conversation: Conversation) -> str | None:
    """Why a prompt is too long to be asked again; None when it is not."""
    length = sum(message.n_chars for message in conversation.messages)
    if length > LONGEST_PROMPT_CHARS:
        return f"the prompt has {length} characters, and more than {LONGEST_PROMPT_CHARS} are not asked again"
    return None


def last_user(conversation: Conversation) -> int:
    """Index of the last user message with text; -1 when there is none."""
    return _last_user(conversation.messages)


def _last_user(messages: Sequence[Message]) -> int:
    indices = [i for i, message in enumerate(messages) if message.role == "user" and message.content]
    return indices[-1] if indices else -1


def question(
    exchange: Exchange, conversation: Conversation, messages: Sequence[Message], max_tokens: int
) -> CompletionRequest:
    """The exchange's question with these messages, under its conditions; the smaller limit of tokens holds.

    Where a policy of the gateway added an instruction, the question has it too, in whatever form it is asked.
    """
    return CompletionRequest(
        model=exchange.served_model,
        messages=instructed(messages, exchange.instruction),
        max_tokens=_limit(conversation, max_tokens),
        temperature=conversation.temperature,
        top_p=conversation.top_p,
        extra=conversation.conditions,
    )


def instructed(messages: Sequence[Message], instruction: str | None) -> list[Message]:
    """The messages with the instruction on a line before the last user message's text (docs/mitigation.md)."""
    changed = list(messages)
    if instruction is not None:
        last = _last_user(changed)
        if last >= 0:
            content = f"{instruction}\n{changed[last].content}"
            changed[last] = msgspec.structs.replace(changed[last], content=content)
    return changed


def longest(conversation: Conversation, max_tokens: int) -> int:
    """Tokens that a probe may have for an answer of so many: with room for thoughts where the live one had any."""
    return max_tokens + (DEFAULT_BUDGET if conversation.thinks else 0)


def _limit(conversation: Conversation, max_tokens: int) -> int:
    allowed = longest(conversation, max_tokens)
    return min(conversation.max_tokens or allowed, allowed)


def question_as(
    identity: Identity, exchange: Exchange, conversation: Conversation, max_tokens: int
) -> CompletionRequest:
    """The question with the identity sentence before its last user message (protocols 5.2); there must be one."""
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
    """One answer a request, in order, no more in flight than there are slots; its thoughts, if any, are left out.
    `least`: see `within_context`; `is_begun`: see `Conversation.begins_in_thought`.
    """

    async def one(request: CompletionRequest) -> Answer:
        async with slots:
            return await _answer(completer, request, is_begun)

    return await within_context(one, requests, least)


class Answered(Protocol):
    """The outcome of a request that a server refused to answer, as far as it is known."""

    @property
    def kind(self) -> FailureKind | None: ...

    @property
    def reason(self) -> str | None: ...


A = TypeVar("A", bound=Answered)


async def within_context(
    ask: Callable[[CompletionRequest], Coroutine[Any, Any, A]], requests: Sequence[CompletionRequest], least: int
) -> list[A]:
    """All requests, asked at once, with half the limit of tokens again and again while a server refuses one for it.

    The limit is the same for all of them, so that no answer is cut off where another is not. What is given up is the
    room for thoughts: below `least`, the tokens of an answer, no limit goes.
    """
    while True:
        results = await all_of(map(ask, requests))
        is_refused = any(result.kind == "rejected" and LIMIT_OF_TOKENS in (result.reason or "") for result in results)
        if not is_refused or all(request.max_tokens <= least for request in requests):
            return results
        requests = [
            msgspec.structs.replace(request, max_tokens=max(min(least, request.max_tokens), request.max_tokens // 2))
            for request in requests
        ]


async def _answer(completer: Completer, request: CompletionRequest, is_begun: bool) -> Answer:
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
