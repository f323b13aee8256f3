"""Reads /v1/messages, Anthropic's endpoint."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from auditors.text import tool_calls
from auditors.text.readers.reader import Reader
from auditors.text.tool_calls import UncarriedError
from auditors.types import Message

_OWN_TOOLS = ("tool_use", "tool_result")
"""Blocks of tools that the application runs itself."""


class MessagesReader(Reader):
    def read_request(self) -> None:
        if self.request.get("system"):
            self.ask("system", self.request["system"])
        for message in self.request["messages"]:
            content = message["content"]
            blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
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
            self.uncarried[tool_calls.SERVER_TOOL] = None
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

    def _finish(self, fields: dict[str, Any]) -> None:
        self.finish_reason = fields.get("stop_reason")
        if self.finish_reason == "refusal":
            self.refusals.append("refusal")
