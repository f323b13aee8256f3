"""An exchange as text, made by `auditors.text.readers`: what was asked and answered, or why that cannot be audited."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from auditors.types import Message, NotAuditable


class NotAuditableError(Exception):
    """The exchange is not a conversation that can be read, or used as asked; the message says why."""

    def __init__(self, reason: NotAuditable, message: str) -> None:
        super().__init__(message)
        self.reason = reason


TOOL_CALL = "tool call"
"""Note of a conversation with calls or results of tools."""
CUT_BY_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens"})
"""Reasons by which endpoints say that an answer ended by its limit of tokens."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange as text."""

    messages: list[Message]
    """System prompt, turns and last question, with calls and results of tools, text parts only, in order."""
    request_texts: list[str] = []
    """The words of the request's own messages; results that come apart from them (all but those of a chat) are none."""
    uncarried: list[str] = []
    """Why calls or results of tools are not all in the messages, from a small set of phrases, each once."""
    reply_text: str
    """Text of the first choice, without thoughts; empty when there is none."""
    refusal: str | None = None
    """The server's own refusal field or reason; None when it sent none (a refusal in plain words is ordinary text)."""
    finish_reason: str | None = None
    notes: list[str] = []
    """Phrases from a small set, each once, for parts that were left out or odd."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    request_notes: list[str] = []
    answer_notes: list[str] = []
    thinks: bool = False
    """True if its model thought before it answered; the thoughts are not part of the reply."""
    begins_in_thought: bool = False
    """The template opened the thoughts, and the server left them in the text: a text without a mark is a thought."""
    answer_tokens: int | None = None
    """Tokens of the answer, thoughts and further choices among them, as the server counted them."""
    fields: Mapping[str, Any] = {}
    """Members of the request other than its words, as they were read."""
    conditions: Mapping[str, Any] = {}
    """Fields that a probe of it carries on (`auditors.conditions`); empty until they were determined."""

    @property
    def prompt_text(self) -> str:
        """All messages in one string, with what they ask of tools and what tools returned."""
        return text_of(self.messages)

    @property
    def request_text(self) -> str:
        """Return the words of all messages, without tool calls and attachments, as a single string."""
        return "\n".join(self.request_texts)


def text_of(messages: Iterable[Message]) -> str:
    """Messages in one string, each on lines of its own."""
    return "\n".join(message.text for message in messages)


def no_text(conversation: Conversation) -> NotAuditableError:
    """Make the error of an answer without text, by the parts that it has in place of text."""
    notes = ", ".join(conversation.notes) or "empty"
    reason: NotAuditable = "tool_calls" if TOOL_CALL in conversation.answer_notes else "no_text"
    if reason == "no_text" and conversation.thinks and conversation.finish_reason in CUT_BY_LENGTH:
        reason = "thinking_exhausted"
    return NotAuditableError(reason, f"the answer has no text ({notes})")
