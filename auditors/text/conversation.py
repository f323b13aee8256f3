"""Parses the bodies of an exchange into messages and reply text, for every chat-like endpoint.

Answers were joined before they were stored (`answers`); one that was not is joined here. What cannot be audited as text
(images, tool calls, further choices, a cut) is left out and noted; what cannot be read at all raises
`NotAuditableError`. Calls and results of tools in a request are read too, for asking it again (`tool_calls`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from auditors.text import tool_calls
from auditors.text.answers.collecting import thought_tokens
from auditors.text.answers.joined import BROKEN, NOTES, STREAM_NOTES, joined, trimmed
from auditors.text.events import is_event_stream
from auditors.text.lenient_json import read_json
from auditors.text.thoughts import split
from auditors.text.tool_calls import UncarriedError
from auditors.thinking import reasoning_in
from auditors.types import AuditFailure, Auditor, Exchange, Message, NotAuditable, ToolCall

T = TypeVar("T")


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


TOOL_CALL = "tool call"
"""Note of a conversation with calls or results of tools."""
CUT_BY_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens"})
"""How endpoints say that an answer ended by its limit of tokens."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange as text."""

    messages: list[Message]
    """System prompt, turns and last question, with calls and results of tools, text parts only, in order."""
    said: list[str] = []
    """The words of the request's own messages; results that come apart from them (all but those of a chat) are none."""
    uncarried: list[str] = []
    """Why calls or results of tools are not all in the messages, from a small set of phrases, each once."""
    reply_text: str
    """Text of the first choice, without thoughts; empty when there is none."""
    refusal: str | None = None
    """The server's own refusal field or reason; None when it sent none (a refusal in plain words is ordinary text)."""
    finish_reason: str | None = None
    notes: list[str] = []
    """What was left out or odd, from a small set of phrases, each once."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    asked_notes: list[str] = []
    """Those of the notes that are about the request."""
    answer_notes: list[str] = []
    """Those that are about the answer."""
    thinks: bool = False
    """Whether its model thought before it answered: what it thought is no part of the reply."""
    begins_in_thought: bool = False
    """The template opened the thoughts, and the server left them in the text: a text without a mark is a thought."""
    answer_tokens: int | None = None
    """Tokens of the answer, thoughts and further choices among them, as the server counted them."""
    fields: Mapping[str, Any] = {}
    """Members of the request beside its words, as they were read."""
    conditions: Mapping[str, Any] = {}
    """What a probe of it carries on (`auditors.conditions`); empty until that was found out."""

    @property
    def prompt_text(self) -> str:
        """All messages in one string, with what they ask of tools and what tools returned."""
        return text_of(self.messages)

    @property
    def said_text(self) -> str:
        """What was said in words, in one string, for finding words in it."""
        return "\n".join(self.said)


def text_of(messages: Iterable[Message]) -> str:
    """Messages in one string, each on lines of its own."""
    return "\n".join(message.text for message in messages)


def read_conversation(exchange: Exchange) -> Conversation:
    """What was said in an exchange. Raises NotAuditableError."""
    if exchange.endpoint not in _READERS:
        raise NotAuditableError("no_conversation", f"{exchange.endpoint} is no endpoint with a conversation")
    reader = _READERS[exchange.endpoint](_json_object(exchange.request_body, "request"))
    try:
        reader.read_request()
        reader.end_request()
        if is_event_stream(exchange):
            response = joined(exchange.endpoint, exchange.response_body)
        else:
            response = _json_object(exchange.response_body, "response")
        reader.read_notes(response)
        reader.read_usage(response)
        reader.read_response(trimmed(exchange.endpoint, response) or response)
        return reader.conversation()
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError) as exc:
        message = f"{exchange.endpoint}: unexpected shape: {type(exc).__name__}: {exc}"
        raise NotAuditableError("unexpected_shape", message) from exc


def no_text(conversation: Conversation) -> NotAuditableError:
    """Of an answer without text, by what it held in its place."""
    notes = ", ".join(conversation.notes) or "empty"
    reason: NotAuditable = "tool_calls" if TOOL_CALL in conversation.answer_notes else "no_text"
    if reason == "no_text" and conversation.thinks and conversation.finish_reason in CUT_BY_LENGTH:
        reason = "thinking_exhausted"
    return NotAuditableError(reason, f"the answer has no text ({notes})")


class _Reader(ABC):
    """Collects one conversation; a subclass knows one endpoint's shapes."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.messages: list[Message] = []
        self.said: list[str] = []
        self.uncarried: dict[str, None] = {}
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.finish_reason: str | None = None
        self.notes: dict[str, None] = {}
        self.asked_notes: list[str] = []
        self.answer_tokens: int | None = None

    @abstractmethod
    def read_request(self) -> None: ...

    @abstractmethod
    def read_response(self, response: dict[str, Any]) -> None: ...

    def end_request(self) -> None:
        """What is noted from here on is about the answer."""
        self.asked_notes, self.notes = list(self.notes), {}

    def read_notes(self, response: dict[str, Any]) -> None:
        """What only the stream of an answer could tell."""
        noted = response.get(NOTES) or ()
        if BROKEN in noted:
            raise NotAuditableError("not_json", "an event of the stream is not a JSON object")
        for phrase in noted:
            if phrase in STREAM_NOTES:
                self.note(phrase)

    def read_usage(self, response: dict[str, Any]) -> None:
        """How long the server says that its answer is."""
        usage = response.get("usage")
        counts = [usage.get(name) for name in _ANSWER_TOKENS] if isinstance(usage, dict) else []
        if isinstance(usage, dict) and thought_tokens(usage):
            self.note("reasoning")
        self.answer_tokens = next((n for n in counts if isinstance(n, int) and 0 < n < _TOO_MANY_TOKENS), None)

    def note(self, phrase: str) -> None:
        self.notes[phrase] = None

    def ask(self, role: str, content: Any) -> None:
        """Adds a message with these words."""
        self.said.append(self.text_of(content))
        self.messages.append(Message(role, self.said[-1]))

    def carry(self, read: Callable[[], T]) -> T | None:
        """What `read` finds; None, and the reason kept, where no message of a chat can say it."""
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
        notes = list(dict.fromkeys([*self.asked_notes, *self.notes]))
        return Conversation(
            messages=self.messages,
            said=self.said,
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
            asked_notes=self.asked_notes,
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


class _ChatReader(_Reader):
    def read_request(self) -> None:
        for message in self.request["messages"]:
            self.ask(message["role"], message.get("content"))
            if message.get("tool_calls") or message["role"] == "tool":
                self.note(TOOL_CALL)
                self.carry(partial(self._read_tools, message))
            elif message.get("function_call") or message["role"] == "function":
                self.uncarried[tool_calls.LEGACY] = None

    def _read_tools(self, message: dict[str, Any]) -> None:
        """Completes the last message by its calls, or by the call that it answers. Raises UncarriedError."""
        calls = message.get("tool_calls")
        if calls and message["role"] != "assistant":
            raise UncarriedError(tool_calls.OTHER_ROLE)
        if calls:
            found = reasoning_in(message)
            thoughts = (found.text, found.field) if found else ("",)
            self.carry_calls(tool_calls.chat_calls(calls), *thoughts)
            return
        tool = message.get("name")
        self.messages[-1] = Message(
            "tool",
            tool_calls.result_of(message.get("content")),
            call_id=tool_calls.id_of(message.get("tool_call_id")),
            tool=tool if isinstance(tool, str) else "",
        )

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
        if reasoning_in(said):
            self.note("reasoning")
        if said.get("tool_calls") or said.get("function_call"):
            self.note(TOOL_CALL)
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
    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        self._calls: list[ToolCall] = []
        self._thoughts: list[dict[str, Any]] = []
        self._has_said = False

    def read_request(self) -> None:
        if self.request.get("instructions"):
            self.ask("system", self.request["instructions"])
        if self.request.get("previous_response_id"):
            self.note("earlier turns elsewhere")
        asked = self.request["input"]
        for item in [{"role": "user", "content": asked}] if isinstance(asked, str) else asked:
            self._read_item(item)
        self._end_turn()

    def _read_item(self, item: dict[str, Any]) -> None:
        """A turn of the model is all that it says, thinks and asks of tools up to the next item of anyone else."""
        if "role" in item:
            if item["role"] != "assistant" or self._calls:
                self._end_turn()
            self.ask(item["role"], item.get("content"))
            self._has_said = item["role"] == "assistant"
            return
        kind = item.get("type", "")
        self.note(TOOL_CALL if "call" in kind else "other input item")
        if kind == "function_call":
            if call := self.carry(lambda: tool_calls.responses_call(item)):
                self._calls.append(call)
        elif kind == "reasoning":
            self._thoughts += [item]
        elif kind == "function_call_output":
            self._end_turn()
            self.carry(partial(self._read_result, item))
        elif "call" in kind:
            self.uncarried[tool_calls.OF_A_SERVER] = None

    def _read_result(self, item: dict[str, Any]) -> None:
        """Raises UncarriedError."""
        text = tool_calls.result_of(item.get("output"))
        self.messages.append(Message("tool", text, call_id=tool_calls.id_of(item.get("call_id"))))

    def _end_turn(self) -> None:
        """Gives the turn's calls to its message, or to one without words."""
        if self._calls:
            if not self._has_said:
                self.messages.append(Message("assistant", ""))
            self.carry_calls(self._calls, self.carry(partial(_thoughts_of_items, self._thoughts)) or "")
        self._calls, self._thoughts, self._has_said = [], [], False

    def read_response(self, response: dict[str, Any]) -> None:
        for item in response["output"]:
            if item["type"] == "message":
                self.answer(item["content"])
            else:
                self.note("reasoning" if item["type"] == "reasoning" else TOOL_CALL)
        self._finish(response)

    def _finish(self, response: dict[str, Any]) -> None:
        details = response.get("incomplete_details") or {}
        self.finish_reason = details.get("reason") or response.get("status")


class _MessagesReader(_Reader):
    def read_request(self) -> None:
        if self.request.get("system"):
            self.ask("system", self.request["system"])
        for message in self.request["messages"]:
            content = message["content"]
            blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
            self._read_results(message["role"], blocks)
            self.ask(message["role"], content)
            self._read_calls(message["role"], blocks)

    def _read_results(self, role: str, blocks: Sequence[dict[str, Any]]) -> None:
        """Adds the results in a message, which come before what its user says."""
        for block in blocks:
            if block.get("type") == "tool_result":
                self.carry(partial(self._read_result, role, block))

    def _read_result(self, role: str, block: dict[str, Any]) -> None:
        """Raises UncarriedError."""
        if role != "user":
            raise UncarriedError(tool_calls.OTHER_ROLE)
        text = tool_calls.result_of(block.get("content"))
        self.messages.append(Message("tool", text, call_id=tool_calls.id_of(block.get("tool_use_id"))))

    def _read_calls(self, role: str, blocks: Sequence[dict[str, Any]]) -> None:
        """Completes the last message by its calls, or takes it away where it was nothing but results."""
        kinds = [block.get("type") for block in blocks]
        if any(isinstance(kind, str) and "tool" in kind and kind not in _OWN_TOOLS for kind in kinds):
            self.uncarried[tool_calls.OF_A_SERVER] = None
        if "tool_use" in kinds:
            self.carry(partial(self._complete, role, blocks))
        elif "tool_result" in kinds and not self.messages[-1].content:
            self.messages.pop()

    def _complete(self, role: str, blocks: Sequence[dict[str, Any]]) -> None:
        """Raises UncarriedError."""
        if role != "assistant":
            raise UncarriedError(tool_calls.OTHER_ROLE)
        calls = [tool_calls.messages_call(block) for block in blocks if block.get("type") == "tool_use"]
        if any(block.get("type") == "redacted_thinking" for block in blocks):
            raise UncarriedError(tool_calls.UNREADABLE_THOUGHTS)
        self.carry_calls(calls, tool_calls.thoughts_of(block for block in blocks if block.get("type") == "thinking"))

    def read_response(self, response: dict[str, Any]) -> None:
        self.answer(response["content"])
        self._finish(response)

    def _finish(self, said: dict[str, Any]) -> None:
        self.finish_reason = said.get("stop_reason")
        if self.finish_reason == "refusal":
            self.refusals.append("refusal")


def _thoughts_of_items(items: Sequence[dict[str, Any]]) -> str:
    """The thoughts in reasoning items: in full where they are there, else their summary. Raises UncarriedError."""
    found = list[str]()
    for item in items:
        parts = [item.get(name) for name in ("content", "summary")]
        texts = [tool_calls.thoughts_of(part) for part in parts if isinstance(part, list)]
        found += [next(filter(None, texts), "")]
        if item.get("encrypted_content") and not found[-1]:
            raise UncarriedError(tool_calls.UNREADABLE_THOUGHTS)
    return "\n".join(filter(None, found))


_READERS: dict[str, type[_Reader]] = {
    "/v1/chat/completions": _ChatReader,
    "/v1/completions": _CompletionReader,
    "/v1/responses": _ResponsesReader,
    "/v1/messages": _MessagesReader,
}
_OWN_TOOLS = ("tool_use", "tool_result")
"""Blocks of tools that the application runs itself."""
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
