"""Parses the bodies of an exchange into messages and reply text, for every chat-like endpoint.

Answers were joined before they were stored (`answers`); one that was not is joined here. What cannot be audited as text
(images, tool calls, further choices, a cut) is left out and noted; what cannot be read at all raises
`NotAuditableError`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from auditors.text.answers import BROKEN, NOTES, STREAM_NOTES, joined, trimmed
from auditors.text.events import is_event_stream
from auditors.text.lenient_json import read_json
from auditors.types import AuditFailure, Auditor, Exchange, Message, NotAuditable


class NotAuditableError(Exception):
    """The exchange is no conversation that can be read, or used as asked; the message says why."""

    def __init__(self, reason: NotAuditable, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def failure_of(self, auditor: Auditor) -> AuditFailure:
        """The same as a value: what the auditor makes of the exchange."""
        return AuditFailure(
            auditor=auditor.name,
            auditor_version=auditor.version,
            kind="not_auditable",
            message=str(self),
            reason=self.reason,
        )


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange as text."""

    messages: list[Message]
    """System prompt, turns and last question, text parts only, in order."""
    reply_text: str
    """Text of the first choice; empty when there is none."""
    refusal: str | None = None
    """The server's own refusal field or reason; None when it sent none (a refusal in plain words is ordinary text)."""
    finish_reason: str | None = None
    notes: list[str] = []
    """What was left out or odd, from a small set of phrases, each once."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None

    @property
    def prompt_text(self) -> str:
        """All messages in one string, for finding words in it."""
        return "\n".join(message.content for message in self.messages)


def read_conversation(exchange: Exchange) -> Conversation:
    """What was said in an exchange. Raises NotAuditableError."""
    if exchange.endpoint not in _READERS:
        raise NotAuditableError("no_conversation", f"{exchange.endpoint} is no endpoint with a conversation")
    reader = _READERS[exchange.endpoint](_json_object(exchange.request_body, "request"))
    try:
        reader.read_request()
        if is_event_stream(exchange):
            response = joined(exchange.endpoint, exchange.response_body)
        else:
            response = _json_object(exchange.response_body, "response")
        reader.read_notes(response)
        reader.read_response(trimmed(exchange.endpoint, response) or response)
        return reader.conversation()
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError) as exc:
        message = f"{exchange.endpoint}: unexpected shape: {type(exc).__name__}: {exc}"
        raise NotAuditableError("unexpected_shape", message) from exc


def no_text(conversation: Conversation) -> NotAuditableError:
    """Of an answer without text, by what it held in its place."""
    notes = ", ".join(conversation.notes) or "empty"
    reason: NotAuditable = "tool_calls" if "tool call" in conversation.notes else "no_text"
    return NotAuditableError(reason, f"the answer has no text ({notes})")


class _Reader(ABC):
    """Collects one conversation; a subclass knows one endpoint's shapes."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.messages: list[Message] = []
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.finish_reason: str | None = None
        self.notes: dict[str, None] = {}

    @abstractmethod
    def read_request(self) -> None: ...

    @abstractmethod
    def read_response(self, response: dict[str, Any]) -> None: ...

    def read_notes(self, response: dict[str, Any]) -> None:
        """What only the stream of an answer could tell."""
        noted = response.get(NOTES) or ()
        if BROKEN in noted:
            raise NotAuditableError("not_json", "an event of the stream is not a JSON object")
        for phrase in noted:
            if phrase in STREAM_NOTES:
                self.note(phrase)

    def note(self, phrase: str) -> None:
        self.notes[phrase] = None

    def ask(self, role: str, content: Any) -> None:
        self.messages.append(Message(role, self.text_of(content)))

    def answer(self, content: Any) -> None:
        """Adds to the reply; refusal parts go to the refusal."""
        if isinstance(content, list):
            self.refusals += [str(part["refusal"]) for part in content if part.get("type") == "refusal"]
            content = [part for part in content if part.get("type") != "refusal"]
        self.texts.append(self.text_of(content))

    def text_of(self, content: Any) -> str:
        """Text of a string or of a list of content parts; every other part is noted by its type."""
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        return "\n".join(filter(None, map(self._text_of_part, content)))

    def _text_of_part(self, part: Any) -> str:
        if isinstance(part, str):
            return part
        if part.get("type") in ("text", "input_text", "output_text"):
            return str(part["text"])
        if part.get("type") == "refusal":
            return str(part["refusal"])
        self.note(_PART_NOTES.get(part.get("type"), "other content part"))
        return ""

    def conversation(self) -> Conversation:
        return Conversation(
            messages=self.messages,
            reply_text="".join(self.texts),
            refusal="".join(self.refusals) or None,
            finish_reason=self.finish_reason,
            notes=list(self.notes),
            temperature=self._number("temperature"),
            top_p=self._number("top_p"),
            max_tokens=next(filter(None, map(self._whole, _MAX_TOKENS)), None),
        )

    def _number(self, key: str) -> float | None:
        value = self.request.get(key)
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    def _whole(self, key: str) -> int | None:
        value = self.request.get(key)
        return value if isinstance(value, int) and 0 < value < _TOO_MANY_TOKENS else None


class _ChatReader(_Reader):
    def read_request(self) -> None:
        for message in self.request["messages"]:
            self.ask(message["role"], message.get("content"))
            if message.get("tool_calls") or message["role"] == "tool":
                self.note("tool call")

    def read_response(self, response: dict[str, Any]) -> None:
        for choice in response["choices"]:
            if self._is_first(choice):
                self._take(choice, choice["message"])

    def _is_first(self, choice: dict[str, Any]) -> bool:
        if choice.get("index", 0) == 0:
            return True
        self.note("further choices")
        return False

    def _take(self, choice: dict[str, Any], said: dict[str, Any]) -> None:
        self.answer(said.get("content"))
        self.refusals.append(said.get("refusal") or "")
        if said.get("reasoning_content") or said.get("reasoning"):
            self.note("reasoning")
        if said.get("tool_calls") or said.get("function_call"):
            self.note("tool call")
        self.finish_reason = choice.get("finish_reason") or self.finish_reason


class _CompletionReader(_ChatReader):
    def read_request(self) -> None:
        prompt = self.request["prompt"]
        if isinstance(prompt, list) and prompt and all(isinstance(one, str) for one in prompt):
            if len(prompt) > 1:
                self.note("further prompts")
            prompt = prompt[0]
        if not isinstance(prompt, str):
            raise NotAuditableError("token_ids", "the prompt is token numbers, not text")
        self.ask("user", prompt)

    def read_response(self, response: dict[str, Any]) -> None:
        for choice in response["choices"]:
            if self._is_first(choice):
                self.texts.append(choice["text"])
                self.finish_reason = choice.get("finish_reason") or self.finish_reason


class _ResponsesReader(_Reader):
    def read_request(self) -> None:
        if self.request.get("instructions"):
            self.ask("system", self.request["instructions"])
        if self.request.get("previous_response_id"):
            self.note("earlier turns elsewhere")
        asked = self.request["input"]
        for item in [{"role": "user", "content": asked}] if isinstance(asked, str) else asked:
            if "role" in item:
                self.ask(item["role"], item.get("content"))
            else:
                self.note("tool call" if "call" in item.get("type", "") else "other input item")

    def read_response(self, response: dict[str, Any]) -> None:
        for item in response["output"]:
            if item["type"] == "message":
                self.answer(item["content"])
            else:
                self.note("reasoning" if item["type"] == "reasoning" else "tool call")
        self._finish(response)

    def _finish(self, response: dict[str, Any]) -> None:
        details = response.get("incomplete_details") or {}
        self.finish_reason = details.get("reason") or response.get("status")


class _MessagesReader(_Reader):
    def read_request(self) -> None:
        if self.request.get("system"):
            self.ask("system", self.request["system"])
        for message in self.request["messages"]:
            self.ask(message["role"], message["content"])

    def read_response(self, response: dict[str, Any]) -> None:
        self.answer(response["content"])
        self._finish(response)

    def _finish(self, said: dict[str, Any]) -> None:
        self.finish_reason = said.get("stop_reason")
        if self.finish_reason == "refusal":
            self.refusals.append("refusal")


_READERS: dict[str, type[_Reader]] = {
    "/v1/chat/completions": _ChatReader,
    "/v1/completions": _CompletionReader,
    "/v1/responses": _ResponsesReader,
    "/v1/messages": _MessagesReader,
}
_MAX_TOKENS: Sequence[str] = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_TOO_MANY_TOKENS = 2**63
_PART_NOTES = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("video", "video_url"), "video"),
    **dict.fromkeys(("file", "input_file", "document"), "file"),
    **dict.fromkeys(("tool_use", "tool_result", "server_tool_use"), "tool call"),
    **dict.fromkeys(("thinking", "redacted_thinking", "reasoning"), "reasoning"),
}


def _json_object(body: bytes, what: str) -> dict[str, Any]:
    if not body:
        raise NotAuditableError("no_text", f"the {what} has no text: it was no JSON, or its text was dropped")
    try:
        data = read_json(body)
    except ValueError as exc:
        raise NotAuditableError("not_json", f"the {what} is not JSON: {exc}") from exc
    if not isinstance(data, dict):
        raise NotAuditableError("not_json", f"the {what} is not a JSON object")
    return data
