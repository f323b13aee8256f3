"""Answers of chat completions and of plain completions."""

from io import StringIO
from typing import Any

from auditors.text.answers.collecting import MOST_PARTS, Answer, Json, entry, json_text, objects, string
from auditors.text.thinking import reasoning_in

_MOST_KINDS = 16
"""Most kinds of parts without text in the pieces of a content."""


class Call:
    """A call of a function, its arguments as they come."""

    def __init__(self) -> None:
        self.name = ""
        self.arguments = StringIO()

    def take(self, function: Any) -> None:
        if not isinstance(function, dict):
            return
        self.name = self.name or string(function.get("name"))
        arguments = function.get("arguments", function.get("input"))
        self.arguments.write(
            string(arguments) if arguments is None or isinstance(arguments, str) else json_text(arguments)
        )

    def whole(self) -> Json:
        return {"name": self.name, "arguments": self.arguments.getvalue()}


class Choice:
    """One choice of a chat or a completion."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self._said: dict[str, StringIO] = {}
        self._parts: list[Any] = []
        self._calls: dict[int, Call] = {}
        self._function: Call | None = None

    def take(self, message: Json, *, is_piece: bool) -> None:
        """A message, or what an event adds to one."""
        content = message.get("content")
        if not isinstance(content, list):
            self._write("content", content)
        elif is_piece:
            for part in objects(content):
                match part.get("type"):
                    case "text":
                        self._write("content", part.get("text"))
                    case "refusal":
                        self._write("refusal", part.get("refusal"))
                    case str(kind) if len(self._parts) < _MOST_KINDS and {"type": kind} not in self._parts:
                        self._parts.append({"type": kind})
        else:
            self._parts += [_part(part) for part in content[:MOST_PARTS]]
        self._write("refusal", message.get("refusal"))
        thoughts = reasoning_in(message)
        self._write("reasoning_content", thoughts and thoughts.text)
        if isinstance(message.get("audio"), dict):
            self._write("content", message["audio"].get("transcript"))
        for place, call in enumerate(objects(message.get("tool_calls"))):
            number = call.get("index")
            collected = entry(self._calls, number if isinstance(number, int) else place, Call)
            if collected is not None:
                collected.take(call.get("function") or call.get("custom"))
        if isinstance(message.get("function_call"), dict):
            self._function = self._function or Call()
            self._function.take(message["function_call"])

    def write_text(self, text: Any) -> None:
        self._write("text", text)

    def text(self) -> str:
        return self._said["text"].getvalue() if "text" in self._said else ""

    def message(self) -> Json:
        whole: Json = {"content": None} | {field: text.getvalue() for field, text in self._said.items()}
        if self._parts:
            whole["content"] = [*self._parts, *([whole["content"]] if whole["content"] else [])]
        if self._calls:
            whole["tool_calls"] = [{"function": call.whole()} for call in self._calls.values()]
        if self._function is not None:
            whole["function_call"] = self._function.whole()
        return whole

    def _write(self, field: str, text: Any) -> None:
        if isinstance(text, str):
            if field not in self._said:
                self._said[field] = StringIO()
            self._said[field].write(text)


class Chat(Answer):
    def __init__(self) -> None:
        super().__init__()
        self._choices: dict[int, Choice] = {}

    def take(self, event: Json) -> None:
        self._note(event)
        for choice in objects(event.get("choices")):
            self._take_choice(choice, choice.get("delta"), is_piece=True)

    def take_whole(self, response: Json) -> bool:
        choices = response.get("choices")
        if not isinstance(choices, list) or not all(self._is_whole(choice) for choice in choices):
            return False
        self._note(response)
        for choice in choices:
            self._take_choice(choice, choice.get("message"), is_piece=False)
        return True

    def _is_whole(self, choice: Any) -> bool:
        return isinstance(choice, dict) and isinstance(choice.get("message"), dict)

    def _take_choice(self, choice: Json, message: Any, *, is_piece: bool) -> None:
        collected = self._choice(choice)
        if collected is not None and isinstance(message, dict):
            collected.take(message, is_piece=is_piece)

    def _choice(self, choice: Json) -> Choice | None:
        number = choice.get("index", 0)
        collected = entry(self._choices, number if isinstance(number, int) else 0, Choice)
        if collected is not None and isinstance(choice.get("finish_reason"), str):
            collected.finish_reason = choice["finish_reason"]
        return collected

    def _parts(self) -> Json:
        return {"choices": [self._whole_choice(index, choice) for index, choice in self._choices.items()]}

    def _whole_choice(self, index: int, choice: Choice) -> Json:
        return {"index": index, "message": choice.message(), "finish_reason": choice.finish_reason}


class Completion(Chat):
    def _is_whole(self, choice: Any) -> bool:
        return isinstance(choice, dict) and isinstance(choice.get("text"), str)

    def _take_choice(self, choice: Json, message: Any, *, is_piece: bool) -> None:
        collected = self._choice(choice)
        if collected is not None:
            collected.write_text(choice.get("text"))

    def _whole_choice(self, index: int, choice: Choice) -> Json:
        return {"index": index, "text": choice.text(), "finish_reason": choice.finish_reason}


def _part(part: Any) -> str | Json:
    if not isinstance(part, dict):
        return string(part)
    return {field: value for field in ("type", "text", "refusal") if isinstance(value := part.get(field), str)}
