"""Reads the bodies of an exchange, for every chat-like endpoint; an answer that was not joined is joined here."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from auditors.text import tool_calls
from auditors.text.answers.joined import joined, trimmed
from auditors.text.conversation import TOOL_CALL, Conversation, NotAuditableError
from auditors.text.events import is_event_stream
from auditors.text.lenient_json import read_json
from auditors.text.readers.reader import Reader
from auditors.text.thinking import reasoning_in
from auditors.text.tool_calls import UncarriedError
from auditors.types import Exchange, Message, ToolCall


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
            self.carry_calls(self._calls, self.carry(partial(thoughts_of_items, self._thoughts)) or "")
        self._calls, self._thoughts, self._has_said = [], [], False

    def read_response(self, response: dict[str, Any]) -> None:
        for item in response["output"]:
            if item["type"] == "message":
                self.answer(item["content"])
            else:
                self.note("reasoning" if item["type"] == "reasoning" else TOOL_CALL)
        details = response.get("incomplete_details") or {}
        self.finish_reason = details.get("reason") or response.get("status")


def thoughts_of_items(items: Sequence[dict[str, Any]]) -> str:
    """The thoughts in reasoning items: in full where they are there, else their summary. Raises UncarriedError."""
    thoughts = list[str]()
    for item in items:
        parts = [item.get(name) for name in ("content", "summary")]
        texts = [tool_calls.thoughts_of(part) for part in parts if isinstance(part, list)]
        thoughts += [next(filter(None, texts), "")]
        if item.get("encrypted_content") and not thoughts[-1]:
            raise UncarriedError(tool_calls.UNREADABLE_THOUGHTS)
    return "\n".join(filter(None, thoughts))


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
                message = choice["message"]
                self.answer(message.get("content"))
                self.refusals.append(message.get("refusal") or "")
                if reasoning_in(message):
                    self.note("reasoning")
                if message.get("tool_calls") or message.get("function_call"):
                    self.note(TOOL_CALL)
                self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def _is_first(self, choice: dict[str, Any]) -> bool:
        if choice.get("index", 0) == 0:
            return True
        self.note("further choices")
        return False


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
        self.finish_reason = response.get("stop_reason")
        if self.finish_reason == "refusal":
            self.refusals.append("refusal")


_READERS: dict[str, type[Reader]] = {
    "/v1/chat/completions": ChatReader,
    "/v1/completions": CompletionReader,
    "/v1/responses": ResponsesReader,
    "/v1/messages": MessagesReader,
}


def read_conversation(exchange: Exchange) -> Conversation:
    """Return the conversation of an exchange. Raises NotAuditableError."""
    if exchange.endpoint not in _READERS:
        raise NotAuditableError("no_conversation", f"{exchange.endpoint} is not an endpoint with a conversation")
    reader = _READERS[exchange.endpoint](json_object(exchange.request_body, "request"))
    try:
        reader.read_request()
        reader.end_request()
        if is_event_stream(exchange):
            response = joined(exchange.endpoint, exchange.response_body)
        else:
            response = json_object(exchange.response_body, "response")
        reader.read_notes(response)
        reader.read_usage(response)
        reader.read_response(trimmed(exchange.endpoint, response) or response)
        return reader.conversation()
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError) as exc:
        message = f"{exchange.endpoint}: unexpected shape: {type(exc).__name__}: {exc}"
        raise NotAuditableError("unexpected_shape", message) from exc


def json_object(body: bytes, what: str) -> dict[str, Any]:
    """The JSON object of a stored body. Raises NotAuditableError, in which `what` names the body."""
    if not body:
        raise NotAuditableError("no_text", f"the {what} has no text: it was not JSON, or its text was dropped")
    try:
        data = read_json(body)
    except ValueError as exc:
        raise NotAuditableError("not_json", f"the {what} is not JSON: {exc}") from exc
    if not isinstance(data, dict):
        raise NotAuditableError("not_json", f"the {what} is not a JSON object")
    return data
