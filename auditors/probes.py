"""Probes: the question of a sampled exchange, sent to its model again, also in changed form, and the answers.

A question asked again holds the messages as text, the temperature, top_p and a bounded number of tokens, and nothing
else: no tools, no client's credentials, user, metadata or conversation id, no seed (each answer is drawn afresh), no
streaming. It goes straight to the upstream behind live traffic, marked so that no gateway samples it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from auditors.text.conversation import Conversation, NotAuditableError, read_conversation
from auditors.text.identity import Identity, with_identity
from auditors.text.refusal_words import declines
from auditors.types import Completer, CompletionError, CompletionRequest, Exchange, FailureKind, Message, NotAuditable

NOT_ASKED_AGAIN: Mapping[str, NotAuditable] = {
    **dict.fromkeys(("image", "audio", "video", "file"), "media"),
    "tool call": "tool_calls",
    "earlier turns elsewhere": "earlier_turns_elsewhere",
}
"""What a conversation may hold, by its note, that a question in words cannot repeat; and the reason it makes."""

CUT_SHORT = "the audit ended before its answers came"
"""Reason of a value that is missing because nobody waited longer."""

LONGEST_PROMPT_CHARS = 200_000
"""Asked again, a longer prompt would cost its model several times what its user's question did."""


class Answer(NamedTuple):
    """One reply: a text, a refusal (with or without text), or the reason why there is none."""

    text: str
    is_refusal: bool = False
    kind: FailureKind | None = None
    reason: str | None = None
    is_cut: bool = False
    """Ended by the limit of tokens."""


def askable(exchange: Exchange) -> Conversation:
    """The conversation of an exchange whose question can be asked again in words. Raises NotAuditableError."""
    conversation = read_conversation(exchange)
    if exchange.endpoint == "/v1/completions":
        raise NotAuditableError("no_chat_template", "the completions endpoint has no chat template to ask again with")
    if found := [note for note in conversation.notes if note in NOT_ASKED_AGAIN]:
        raise NotAuditableError(NOT_ASKED_AGAIN[found[0]], f"cannot be asked again faithfully: {', '.join(found)}")
    if not any(message.role == "user" and message.content.strip() for message in conversation.messages):
        raise NotAuditableError("no_user_message", "no user message with text")
    return conversation


def is_unaskable(kinds: Iterable[FailureKind | None]) -> bool:
    """Whether the server rejected a question in every form: it cannot be asked again, so no value of it is missing.

    Rejected in some forms only, it could be asked, and the values of the others are missing.
    """
    return all(kind == "rejected" for kind in kinds)


def too_long(conversation: Conversation) -> str | None:
    """Why a prompt is too long to be asked again; None when it is not."""
    length = sum(len(message.content) for message in conversation.messages)
    if length > LONGEST_PROMPT_CHARS:
        return f"the prompt has {length} characters, and more than {LONGEST_PROMPT_CHARS} are not asked again"
    return None


def last_user(conversation: Conversation) -> int:
    """Index of the last user message with text; -1 when there is none."""
    indices = [i for i, message in enumerate(conversation.messages) if message.role == "user" and message.content]
    return indices[-1] if indices else -1


def question(
    exchange: Exchange, conversation: Conversation, messages: Sequence[Message], max_tokens: int
) -> CompletionRequest:
    """The exchange's question with these messages; the smaller limit of tokens holds."""
    return CompletionRequest(
        model=exchange.served_model,
        messages=list(messages),
        max_tokens=min(conversation.max_tokens or max_tokens, max_tokens),
        temperature=conversation.temperature,
        top_p=conversation.top_p,
    )


def question_as(
    identity: Identity, exchange: Exchange, conversation: Conversation, max_tokens: int
) -> CompletionRequest:
    """The question with the identity sentence before its last user message (protocols 5.2); there must be one."""
    messages, last = list(conversation.messages), last_user(conversation)
    messages[last] = msgspec.structs.replace(messages[last], content=with_identity(identity, messages[last].content))
    return question(exchange, conversation, messages, max_tokens)


async def answers(
    completer: Completer, requests: Sequence[CompletionRequest], slots: asyncio.Semaphore
) -> list[Answer]:
    """One answer a request, in order, no more in flight than there are slots."""

    async def one(request: CompletionRequest) -> Answer:
        async with slots:
            return await _answer(completer, request)

    return await asyncio.gather(*map(one, requests))


async def _answer(completer: Completer, request: CompletionRequest) -> Answer:
    try:
        completion = await completer.complete(request)
    except CompletionError as exc:
        return Answer("", kind=exc.kind, reason=str(exc))
    text = (completion.text or "").strip()
    is_refusal = bool(completion.refusal) or declines(text)
    if not text and not is_refusal:
        return Answer("", kind="malformed", reason="an empty answer")
    return Answer(text, is_refusal, is_cut=completion.finish_reason == "length")
