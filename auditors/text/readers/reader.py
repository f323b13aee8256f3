"""The common base of all endpoints' readers; content that is not auditable as text (images, a cut) is noted."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from auditors.text.answers.collecting import thought_tokens
from auditors.text.answers.joined import BROKEN, NOTES, STREAM_NOTES
from auditors.text.conversation import TOOL_CALL, Conversation, NotAuditableError
from auditors.text.thoughts import split
from auditors.text.tool_calls import UncarriedError
from auditors.types import Message, ToolCall

T = TypeVar("T")

_MAX_TOKENS: Sequence[str] = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_WORDS = frozenset({"messages", "input", "prompt", "system", "instructions"})
_ANSWER_TOKENS = ("completion_tokens", "output_tokens")
_TOO_MANY_TOKENS = 2**63
_PART_NOTES = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("video", "video_url"), "video"),
    **dict.fromkeys(("file", "input_file", "document"), "file"),
    **dict.fromkeys(("tool_use", "tool_result", "server_tool_use"), TOOL_CALL),
    **dict.fromkeys(("thinking", "redacted_thinking", "reasoning"), "reasoning"),
}


class Reader(ABC):
    """Collects one conversation; a subclass knows one endpoint's shapes."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.messages: list[Message] = []
        self.request_texts: list[str] = []
        self.uncarried: dict[str, None] = {}
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.finish_reason: str | None = None
        self.notes: dict[str, None] = {}
        self.request_notes: list[str] = []
        self.answer_tokens: int | None = None

    @abstractmethod
    def read_request(self) -> None: ...

    @abstractmethod
    def read_response(self, response: dict[str, Any]) -> None: ...

    def end_request(self) -> None:
        """End the request: notes from here on are about the answer."""
        self.request_notes, self.notes = list(self.notes), {}

    def read_notes(self, response: dict[str, Any]) -> None:
        """Take the notes that only the stream of an answer could give."""
        noted = response.get(NOTES) or ()
        if BROKEN in noted:
            raise NotAuditableError("not_json", "an event of the stream is not a JSON object")
        for phrase in noted:
            if phrase in STREAM_NOTES:
                self.note(phrase)

    def read_usage(self, response: dict[str, Any]) -> None:
        """Read the length of the answer that the server states."""
        usage = response.get("usage")
        counts = [usage.get(name) for name in _ANSWER_TOKENS] if isinstance(usage, dict) else []
        if isinstance(usage, dict) and thought_tokens(usage):
            self.note("reasoning")
        self.answer_tokens = next((n for n in counts if isinstance(n, int) and 0 < n < _TOO_MANY_TOKENS), None)

    def note(self, phrase: str) -> None:
        self.notes[phrase] = None

    def ask(self, role: str, content: Any) -> None:
        self.request_texts.append(self.text_of(content))
        self.messages.append(Message(role, self.request_texts[-1]))

    def carry(self, read: Callable[[], T]) -> T | None:
        """Return the result of `read`; None, with the reason kept, if no message of a chat can say it."""
        try:
            return read()
        except UncarriedError as exc:
            self.uncarried[str(exc)] = None
            return None

    def carry_calls(self, calls: Sequence[ToolCall], thoughts: str, field: str = "reasoning") -> None:
        """Adds calls, and what the model thought before them, to the last message, an assistant's."""
        last = self.messages[-1]
        self.messages[-1] = msgspec.structs.replace(
            last, calls=tuple(calls), thoughts=thoughts, thoughts_field=field if thoughts else last.thoughts_field
        )

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
        parts = split("".join(self.texts))
        if parts.thoughts is not None:
            self.note("reasoning")
        notes = list(dict.fromkeys([*self.request_notes, *self.notes]))
        return Conversation(
            messages=self.messages,
            request_texts=self.request_texts,
            uncarried=list(self.uncarried),
            reply_text=parts.answer,
            thinks="reasoning" in notes,
            begins_in_thought=parts.is_begun_before,
            refusal="".join(self.refusals) or None,
            finish_reason=self.finish_reason,
            notes=notes,
            temperature=self._number("temperature"),
            top_p=self._number("top_p"),
            max_tokens=next(filter(None, map(self._whole, _MAX_TOKENS)), None),
            request_notes=self.request_notes,
            answer_notes=list(self.notes),
            answer_tokens=self.answer_tokens,
            fields={name: value for name, value in self.request.items() if name not in _WORDS},
        )

    def _number(self, key: str) -> float | None:
        value = self.request.get(key)
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    def _whole(self, key: str) -> int | None:
        value = self.request.get(key)
        return value if isinstance(value, int) and 0 < value < _TOO_MANY_TOKENS else None
