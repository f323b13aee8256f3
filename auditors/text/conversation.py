"""Parses the raw bytes of an exchange into messages and reply text, for every chat-like endpoint.

Server-sent events are joined here, long after the reply went out. What cannot be audited as text (images, tool calls,
further choices, a cut) is left out and noted; what cannot be read at all raises `NotAuditableError`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from auditors.types import Exchange, Message


class NotAuditableError(Exception):
    """The exchange is no conversation that can be read; the message says why."""


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


class ServerEvent(NamedTuple):
    """One server-sent event."""

    name: str
    data: str


def read_conversation(exchange: Exchange) -> Conversation:
    """What was said in an exchange. Raises NotAuditableError."""
    if exchange.endpoint not in _READERS:
        raise NotAuditableError(f"{exchange.endpoint} is no endpoint with a conversation")
    reader = _READERS[exchange.endpoint](_json_object(exchange.request_body, "request"))
    try:
        reader.read_request()
        if exchange.stream or exchange.content_type.startswith("text/event-stream"):
            reader.read_events(exchange.response_body)
        else:
            reader.read_response(_json_object(exchange.response_body, "response"))
    except (AttributeError, IndexError, KeyError, TypeError) as exc:
        raise NotAuditableError(f"{exchange.endpoint}: unexpected shape: {type(exc).__name__}: {exc}") from exc
    return reader.conversation()


def server_events(body: bytes) -> Iterator[ServerEvent]:
    """Complete events of an event stream: any line ending, comments skipped, data lines joined.

    An event that the body's end cuts off is not yielded, as the standard asks (WHATWG HTML, 9.2.6).
    """
    name, data = "", list[str]()
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for line in text.split("\n")[:-1]:  # what follows the last line ending is no whole line
        if not line:
            if data:
                yield ServerEvent(name or "message", "\n".join(data))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")


class _Reader(ABC):
    """Collects one conversation; a subclass knows one endpoint's shapes."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.messages: list[Message] = []
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.finish_reason: str | None = None
        self.notes: dict[str, None] = {}
        self.is_ended = False

    @abstractmethod
    def read_request(self) -> None: ...

    @abstractmethod
    def read_response(self, response: dict[str, Any]) -> None: ...

    @abstractmethod
    def read_event(self, event: dict[str, Any]) -> None: ...

    def read_events(self, body: bytes) -> None:
        for event in server_events(body):
            if event.data.strip() == "[DONE]":
                self.is_ended = True
                continue
            data = _json_object(event.data.encode(), "event")
            if event.name == "error" or data.get("type") == "error" or data.get("error"):
                self.note("error event")
                continue
            self.read_event(data)
        if not self.is_ended:
            self.note("stream cut off")

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
        return float(value) if isinstance(value, int | float) else None

    def _whole(self, key: str) -> int | None:
        value = self.request.get(key)
        return value if isinstance(value, int) and value > 0 else None


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

    def read_event(self, event: dict[str, Any]) -> None:
        for choice in event.get("choices") or ():
            if self._is_first(choice):
                self._take(choice, choice["delta"])

    def _is_first(self, choice: dict[str, Any]) -> bool:
        if choice.get("index", 0) == 0:
            return True
        self.note("further choices")
        return False

    def _take(self, choice: dict[str, Any], said: dict[str, Any]) -> None:
        self.answer(said.get("content"))
        self.refusals.append(said.get("refusal") or "")
        if said.get("tool_calls") or said.get("function_call"):
            self.note("tool call")
        if said.get("reasoning_content") or said.get("reasoning"):
            self.note("reasoning")
        self.finish_reason = choice.get("finish_reason") or self.finish_reason


class _CompletionReader(_ChatReader):
    def read_request(self) -> None:
        prompt = self.request["prompt"]
        if isinstance(prompt, list) and prompt and all(isinstance(one, str) for one in prompt):
            if len(prompt) > 1:
                self.note("further prompts")
            prompt = prompt[0]
        if not isinstance(prompt, str):
            raise NotAuditableError("the prompt is token numbers, not text")
        self.ask("user", prompt)

    def _take(self, choice: dict[str, Any], said: dict[str, Any]) -> None:
        self.texts.append(choice["text"])
        self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def read_response(self, response: dict[str, Any]) -> None:
        self.read_event(response)

    def read_event(self, event: dict[str, Any]) -> None:
        for choice in event.get("choices") or ():
            if self._is_first(choice):
                self._take(choice, {})


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

    def read_event(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "response.output_text.delta":
                self.texts.append(event["delta"])
            case "response.refusal.delta":
                self.refusals.append(event["delta"])
            case "response.output_item.added" if event["item"]["type"] != "message":
                self.note("reasoning" if event["item"]["type"] == "reasoning" else "tool call")
            case "response.failed":
                self.note("error event")
                self.is_ended = True
            case "response.completed" | "response.incomplete":
                self._finish(event["response"])
                self.is_ended = True

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

    def read_event(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "content_block_start":
                self.answer([event["content_block"]])
            case "content_block_delta" if event["delta"]["type"] == "text_delta":
                self.texts.append(event["delta"]["text"])
            case "message_delta":
                self._finish(event["delta"])
            case "message_stop":
                self.is_ended = True

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
_PART_NOTES = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("video", "video_url"), "video"),
    **dict.fromkeys(("file", "input_file", "document"), "file"),
    **dict.fromkeys(("tool_use", "tool_result", "server_tool_use"), "tool call"),
    **dict.fromkeys(("thinking", "redacted_thinking", "reasoning"), "reasoning"),
}


def _json_object(body: bytes, what: str) -> dict[str, Any]:
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise NotAuditableError(f"the {what} is not JSON: {exc}") from exc
    except RecursionError as exc:
        raise NotAuditableError(f"the {what} is nested too deeply to be read") from exc
    if not isinstance(data, dict):
        raise NotAuditableError(f"the {what} is not a JSON object")
    return data
