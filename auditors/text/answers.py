"""An answer in the one form that is stored and audited: events joined, envelopes left out, text in one piece.

It has the shape in which its endpoint answers at once, with no more than auditors read: text by choice, reasoning
apart, refusals, tool calls, why it ended, model, fingerprint and usage. What only a stream can tell (an error in its
midst, no end, an event that is no JSON) goes with it as notes.

What streams do wrong has a meaning too. An event of an unknown type, without data, or with members of another type
than documented says nothing. A broken character is U+FFFD; halves of one in two events are put together. Of parts
beyond MOST_PARTS nothing is kept. Time and memory are in proportion to the bytes, whatever numbers the events carry.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from io import StringIO
from typing import Any, TypeVar

import msgspec

from auditors.text.events import server_events
from auditors.text.lenient_json import read_piece, well_formed

NOTES = "stream_notes"
"""Member of a joined answer: what only its stream could tell."""
BROKEN, CUT_OFF, ERROR = "broken event", "stream cut off", "error event"
STREAM_NOTES = frozenset({BROKEN, CUT_OFF, ERROR})
MOST_PARTS = 1024
"""Choices of an answer, calls and parts of a choice, items or blocks."""

_MOST_COUNTS = 32
"""Members of `usage`."""
_MOST_KINDS = 16
"""Of parts without text in the pieces of a content."""
_Json = dict[str, Any]
_Key = TypeVar("_Key", bound=Hashable)
_Entry = TypeVar("_Entry")


def joined(endpoint: str, body: bytes) -> _Json:
    """The answer that the events of a stream make together. Raises KeyError for an endpoint without answers."""
    answer = _ANSWERS[endpoint]()
    notes: dict[str, None] = {}
    for event in server_events(body):
        text = event.data.strip()
        if text == "[DONE]":
            answer.is_ended = True
        elif text:
            try:
                said = read_piece(text)
            except ValueError:
                said = None
            if not isinstance(said, dict):
                notes[BROKEN] = None
            elif event.name == "error" or said.get("type") == "error" or said.get("error"):
                notes[ERROR] = None
            else:
                answer.take(said)
    if answer.has_failed:
        notes[ERROR] = None
    if not answer.is_ended:
        notes[CUT_OFF] = None
    whole = answer.whole()
    if notes:
        whole[NOTES] = list(notes)
    return _well_formed(whole)


def trimmed(endpoint: str, response: _Json) -> _Json | None:
    """The same of an answer that came at once; None when it has not the shape of one, and nobody could read it."""
    answer = _ANSWERS[endpoint]()
    if not answer.take_whole(response):
        return None
    return _well_formed(answer.whole())


def _well_formed(answer: _Json) -> _Json:
    whole: _Json = well_formed(answer)
    return whole


class _Answer(ABC):
    """Collects one answer; a subclass knows one endpoint's shapes."""

    def __init__(self) -> None:
        self.is_ended = False
        self.has_failed = False
        self._about: _Json = {}

    @abstractmethod
    def take(self, event: _Json) -> None:
        """Adds an event."""

    @abstractmethod
    def take_whole(self, response: _Json) -> bool:
        """Adds an answer that came at once; False when it has another shape than its endpoint documents."""

    @abstractmethod
    def _parts(self) -> _Json:
        """The members that hold what was said."""

    def whole(self) -> _Json:
        return self._parts() | self._about

    def _note(self, said: _Json) -> None:
        """Takes what an object says about the answer."""
        for field in ("model", "system_fingerprint"):
            if isinstance(value := said.get(field), str):
                self._about[field] = value
        usage = said.get("usage")
        if isinstance(usage, dict) and usage:
            counts = ((key, n) for key, n in list(usage.items())[:_MOST_COUNTS] if isinstance(n, int | float))
            self._about["usage"] = {**self._about.get("usage", {}), **dict(counts)}


class _Call:
    """A call of a function, its arguments as they come."""

    def __init__(self) -> None:
        self.name = ""
        self.arguments = StringIO()

    def take(self, function: Any) -> None:
        if not isinstance(function, dict):
            return
        self.name = self.name or _string(function.get("name"))
        given = function.get("arguments", function.get("input"))
        self.arguments.write(_string(given) if given is None or isinstance(given, str) else _json_text(given))

    def whole(self) -> _Json:
        return {"name": self.name, "arguments": self.arguments.getvalue()}


class _Choice:
    """One choice of a chat or a completion."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self._said: dict[str, StringIO] = {}
        self._parts: list[Any] = []
        self._calls: dict[int, _Call] = {}
        self._function: _Call | None = None

    def take(self, message: _Json, *, is_piece: bool) -> None:
        """A message, or what an event adds to one."""
        content = message.get("content")
        if not isinstance(content, list):
            self._write("content", content)
        elif is_piece:
            self._take_pieces(_objects(content))
        else:
            self._parts += [_part(part) for part in content[:MOST_PARTS]]
        self._write("refusal", message.get("refusal"))
        self._write("reasoning_content", message.get("reasoning_content") or message.get("reasoning"))
        if isinstance(message.get("audio"), dict):
            self._write("content", message["audio"].get("transcript"))
        for place, call in enumerate(_objects(message.get("tool_calls"))):
            number = call.get("index")
            one = _entry(self._calls, number if isinstance(number, int) else place, _Call)
            if one is not None:
                one.take(call.get("function") or call.get("custom"))
        if isinstance(message.get("function_call"), dict):
            self._function = self._function or _Call()
            self._function.take(message["function_call"])

    def _take_pieces(self, parts: list[_Json]) -> None:
        for part in parts:
            match part.get("type"):
                case "text":
                    self._write("content", part.get("text"))
                case "refusal":
                    self._write("refusal", part.get("refusal"))
                case str(kind) if len(self._parts) < _MOST_KINDS and {"type": kind} not in self._parts:
                    self._parts.append({"type": kind})

    def write_text(self, text: Any) -> None:
        self._write("text", text)

    def text(self) -> str:
        return self._said["text"].getvalue() if "text" in self._said else ""

    def message(self) -> _Json:
        said: _Json = {"content": None} | {field: text.getvalue() for field, text in self._said.items()}
        if self._parts:
            said["content"] = [*self._parts, *([said["content"]] if said["content"] else [])]
        if self._calls:
            said["tool_calls"] = [{"function": call.whole()} for call in self._calls.values()]
        if self._function is not None:
            said["function_call"] = self._function.whole()
        return said

    def _write(self, field: str, text: Any) -> None:
        if isinstance(text, str):
            if field not in self._said:
                self._said[field] = StringIO()
            self._said[field].write(text)


class _Chat(_Answer):
    def __init__(self) -> None:
        super().__init__()
        self._choices: dict[int, _Choice] = {}

    def take(self, event: _Json) -> None:
        self._note(event)
        for choice in _objects(event.get("choices")):
            self._take_choice(choice, choice.get("delta"), is_piece=True)

    def take_whole(self, response: _Json) -> bool:
        choices = response.get("choices")
        if not isinstance(choices, list) or not all(self._is_whole(choice) for choice in choices):
            return False
        self._note(response)
        for choice in choices:
            self._take_choice(choice, choice.get("message"), is_piece=False)
        return True

    def _is_whole(self, choice: Any) -> bool:
        return isinstance(choice, dict) and isinstance(choice.get("message"), dict)

    def _take_choice(self, choice: _Json, said: Any, *, is_piece: bool) -> None:
        one = self._choice(choice)
        if one is not None and isinstance(said, dict):
            one.take(said, is_piece=is_piece)

    def _choice(self, choice: _Json) -> _Choice | None:
        number = choice.get("index", 0)
        one = _entry(self._choices, number if isinstance(number, int) else 0, _Choice)
        if one is not None and isinstance(choice.get("finish_reason"), str):
            one.finish_reason = choice["finish_reason"]
        return one

    def _parts(self) -> _Json:
        return {"choices": [self._whole_choice(index, choice) for index, choice in self._choices.items()]}

    def _whole_choice(self, index: int, choice: _Choice) -> _Json:
        return {"index": index, "message": choice.message(), "finish_reason": choice.finish_reason}


class _Completion(_Chat):
    def _is_whole(self, choice: Any) -> bool:
        return isinstance(choice, dict) and isinstance(choice.get("text"), str)

    def _take_choice(self, choice: _Json, said: Any, *, is_piece: bool) -> None:
        one = self._choice(choice)
        if one is not None:
            one.write_text(choice.get("text"))

    def _whole_choice(self, index: int, choice: _Choice) -> _Json:
        return {"index": index, "text": choice.text(), "finish_reason": choice.finish_reason}


class _Item:
    """One item of a response, or block of a message."""

    def __init__(self) -> None:
        self.kind = "message"
        self.name = ""
        self.arguments = StringIO()
        self.texts: dict[tuple[str, int], StringIO] = {}
        """By kind of part and its index."""

    def write(self, kind: str, index: Any, text: Any) -> None:
        if isinstance(text, str):
            place = _entry(self.texts, (kind, index if isinstance(index, int) else 0), StringIO)
            if place is not None:
                place.write(text)


class _Response(_Answer):
    def __init__(self) -> None:
        super().__init__()
        self._items: dict[tuple[str, int], _Item] = {}
        """By kind (message, reasoning or anything else: a call) and index."""

    def take(self, event: _Json) -> None:
        place, index = event.get("output_index"), event.get("content_index", event.get("summary_index"))
        match event.get("type"):
            case "response.output_text.delta":
                self._write("message", place, "output_text", index, event.get("delta"))
            case "response.refusal.delta":
                self._write("message", place, "refusal", index, event.get("delta"))
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                self._write("reasoning", place, "summary_text", index, event.get("delta"))
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                if (call := self._item("call", place)) is not None:
                    call.kind = call.kind if call.kind != "message" else "function_call"
                    call.arguments.write(_string(event.get("delta")))
            case "response.output_item.added" if isinstance(event.get("item"), dict):
                self._begin(event["item"], place)
            case "response.created" | "response.in_progress" if isinstance(event.get("response"), dict):
                self._note(event["response"])
            case "response.failed":
                self.has_failed = self.is_ended = True
            case "response.completed" | "response.incomplete" if isinstance(event.get("response"), dict):
                self.is_ended = True
                if not self._items:  # a server that sends no pieces
                    self._take_items(event["response"])
                self._end(event["response"])

    def take_whole(self, response: _Json) -> bool:
        output = response.get("output")
        if not isinstance(output, list) or not all(isinstance(item, dict) and "type" in item for item in output):
            return False
        self._take_items(response)
        self._end(response)
        return True

    def _take_items(self, response: _Json) -> None:
        for place, item in enumerate(_objects(response.get("output"))):
            one = self._begin(item, place)
            if one is None:
                continue
            one.arguments.write(_string(item.get("arguments", item.get("input"))))
            for field, kind in (("content", "output_text"), ("summary", "summary_text")):
                for index, part in enumerate(_objects(item.get(field))):
                    is_refusal = part.get("type") == "refusal"
                    one.write("refusal" if is_refusal else kind, index, part.get("refusal" if is_refusal else "text"))
            if isinstance(item.get("content"), str):
                one.write("output_text", 0, item["content"])

    def _begin(self, item: _Json, place: Any) -> _Item | None:
        kind = _string(item.get("type"))
        one = self._item(kind if kind in ("message", "reasoning") else "call", place)
        if one is not None:
            one.kind, one.name = kind, _string(item.get("name"))
        return one

    def _item(self, kind: str, place: Any) -> _Item | None:
        return _entry(self._items, (kind, place if isinstance(place, int) else 0), _Item)

    def _write(self, kind: str, place: Any, part: str, index: Any, text: Any) -> None:
        one = self._item(kind, place)
        if one is not None:
            one.kind = kind
            one.write(part, index, text)

    def _end(self, response: _Json) -> None:
        self._note(response)
        if isinstance(status := response.get("status"), str):
            self._about["status"] = status
        details = response.get("incomplete_details")
        if isinstance(details, dict) and isinstance(reason := details.get("reason"), str):
            self._about["incomplete_details"] = {"reason": reason}

    def _parts(self) -> _Json:
        return {"output": [self._whole_item(item) for item in self._items.values()]}

    def _whole_item(self, item: _Item) -> _Json:
        said = [
            {"type": kind, "refusal" if kind == "refusal" else "text": text.getvalue()}
            for (kind, _), text in item.texts.items()
        ]
        whole: _Json = {"type": item.kind}
        if item.kind == "message" or said:
            whole["content"] = said
        if item.name:
            whole["name"] = item.name
        if arguments := item.arguments.getvalue():
            whole["arguments"] = arguments
        return whole


class _Message(_Answer):
    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[_Item] = []
        self._open: dict[int, _Item] = {}
        """The block of each index that began last."""

    def take(self, event: _Json) -> None:
        number = event.get("index")
        index = number if isinstance(number, int) else 0
        match event.get("type"):
            case "message_start" if isinstance(event.get("message"), dict):
                self._note(event["message"])
            case "content_block_start" if isinstance(event.get("content_block"), dict):
                self._begin(event["content_block"], index)
            case "content_block_delta" if isinstance(event.get("delta"), dict):
                self._add(event["delta"], index)
            case "message_delta":
                self._note(event)
                self._end(event.get("delta"))
            case "message_stop":
                self.is_ended = True

    def take_whole(self, response: _Json) -> bool:
        content = response.get("content")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            return False
        self._note(response)
        for index, block in enumerate(content):
            self._begin(block, index)
        self._end(response)
        return True

    def _begin(self, block: _Json, index: int) -> _Item | None:
        self._open.pop(index, None)
        if len(self._blocks) >= MOST_PARTS:
            return None
        one = self._open[index] = _Item()
        self._blocks.append(one)
        one.kind, one.name = _string(block.get("type")), _string(block.get("name"))
        one.write("text", 0, block.get("text"))
        one.write("thinking", 0, block.get("thinking"))
        if isinstance(given := block.get("input"), dict) and given:
            one.arguments.write(_json_text(given))
        return one

    def _add(self, delta: _Json, index: int) -> None:
        match delta.get("type"):
            case "text_delta":
                self._write("text", index, delta.get("text"))
            case "thinking_delta":
                self._write("thinking", index, delta.get("thinking"))
            case "input_json_delta":
                one = self._open.get(index) or self._begin({"type": "tool_use"}, index)
                if one is not None:
                    one.arguments.write(_string(delta.get("partial_json")))

    def _write(self, kind: str, index: int, text: Any) -> None:
        one = self._open.get(index) or self._begin({"type": kind}, index)
        if one is not None:
            one.write(kind, 0, text)

    def _end(self, said: Any) -> None:
        if isinstance(said, dict) and isinstance(reason := said.get("stop_reason"), str):
            self._about["stop_reason"] = reason

    def _parts(self) -> _Json:
        return {"content": [self._whole_block(block) for block in self._blocks]}

    def _whole_block(self, block: _Item) -> _Json:
        whole: _Json = {"type": block.kind}
        for (kind, _), text in block.texts.items():
            if (said := text.getvalue()) or kind == block.kind:
                whole[kind] = said
        if block.name:
            whole["name"] = block.name
        if arguments := block.arguments.getvalue():
            whole["input"] = arguments
        return whole


_ANSWERS: dict[str, type[_Answer]] = {
    "/v1/chat/completions": _Chat,
    "/v1/completions": _Completion,
    "/v1/responses": _Response,
    "/v1/messages": _Message,
}


def _entry(entries: dict[_Key, _Entry], key: _Key, make: Callable[[], _Entry]) -> _Entry | None:
    """The entry of this key, made where there is none; None when there are MOST_PARTS others."""
    if key not in entries:
        if len(entries) >= MOST_PARTS:
            return None
        entries[key] = make()
    return entries[key]


def _objects(value: Any) -> list[_Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _part(part: Any) -> str | _Json:
    """A part of a content, with its words only."""
    if not isinstance(part, dict):
        return _string(part)
    return {field: value for field in ("type", "text", "refusal") if isinstance(value := part.get(field), str)}


def _json_text(value: Any) -> str:
    """The value as JSON; empty when it cannot be written, as one nested too deeply or a number too large."""
    try:
        return msgspec.json.encode(well_formed(value)).decode()
    except (RecursionError, OverflowError):
        return ""
