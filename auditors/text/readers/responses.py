"""Reads /v1/responses."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from auditors.text import tool_calls
from auditors.text.conversation import TOOL_CALL
from auditors.text.readers.reader import Reader
from auditors.text.tool_calls import UncarriedError
from auditors.types import Message, ToolCall


class ResponsesReader(Reader):
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
        request_input = self.request["input"]
        for item in [{"role": "user", "content": request_input}] if isinstance(request_input, str) else request_input:
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
            self.uncarried[tool_calls.SERVER_TOOL] = None

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


def _thoughts_of_items(items: Sequence[dict[str, Any]]) -> str:
    """The thoughts in reasoning items: in full where they are there, else their summary. Raises UncarriedError."""
    thoughts = list[str]()
    for item in items:
        parts = [item.get(name) for name in ("content", "summary")]
        texts = [tool_calls.thoughts_of(part) for part in parts if isinstance(part, list)]
        thoughts += [next(filter(None, texts), "")]
        if item.get("encrypted_content") and not thoughts[-1]:
            raise UncarriedError(tool_calls.UNREADABLE_THOUGHTS)
    return "\n".join(filter(None, thoughts))
