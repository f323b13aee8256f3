"""Reads /v1/chat/completions, and /v1/completions, whose choices have a similar form."""

from functools import partial
from typing import Any

from auditors.text import tool_calls
from auditors.text.conversation import TOOL_CALL, NotAuditableError
from auditors.text.readers.reader import Reader
from auditors.text.thinking import reasoning_in
from auditors.text.tool_calls import UncarriedError
from auditors.types import Message


class ChatReader(Reader):
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
            reasoning = reasoning_in(message)
            thoughts = (reasoning.text, reasoning.field) if reasoning else ("",)
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

    def _take(self, choice: dict[str, Any], message: dict[str, Any]) -> None:
        self.answer(message.get("content"))
        self.refusals.append(message.get("refusal") or "")
        if reasoning_in(message):
            self.note("reasoning")
        if message.get("tool_calls") or message.get("function_call"):
            self.note(TOOL_CALL)
        self.finish_reason = choice.get("finish_reason") or self.finish_reason


class CompletionReader(ChatReader):
    def read_request(self) -> None:
        prompt = self.request["prompt"]
        if isinstance(prompt, list) and prompt and all(isinstance(item, str) for item in prompt):
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
