"""Requests in the OpenAI and vLLM shapes, typed, and what they ask for. Unknown fields are ignored, as vLLM does."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from benchmarks.simulator import replies
from benchmarks.simulator.text_request import Asked, Turn, render
from benchmarks.simulator.thinking import read_told
from benchmarks.simulator.tool_calls import Offer, Tool

MAX_LOGPROBS = 20
"""Most log-probabilities of a token, as in vLLM without --max-logprobs."""


class BadRequestError(Exception):
    """A request that is refused with 400; `param` names the field."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class StructuredOutputs(msgspec.Struct, frozen=True):
    choice: list[str] | None = None
    json: dict[str, Any] | str | None = None


class ResponseFormat(msgspec.Struct, frozen=True):
    type: str
    json_schema: dict[str, Any] | None = None


class Sampling(msgspec.Struct, kw_only=True):
    """Fields that chat and plain completions share."""

    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    n: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    logprob_token_ids: list[int] | None = None
    return_tokens_as_token_ids: bool | None = None
    structured_outputs: StructuredOutputs | None = None
    response_format: ResponseFormat | None = None
    priority: int = 0

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def schema(self) -> dict[str, Any] | None:
        if self.structured_outputs is not None and self.structured_outputs.json is not None:
            json_schema = self.structured_outputs.json
            return (
                msgspec.json.decode(json_schema, type=dict[str, Any]) if isinstance(json_schema, str) else json_schema
            )
        if self.response_format is None or self.response_format.type == "text":
            return None
        return (self.response_format.json_schema or {}).get("schema") or {}

    @property
    def schema_name(self) -> str | None:
        wrapped = (self.response_format.json_schema or {}) if self.response_format is not None else {}
        return wrapped.get("name")

    def asked(self, model: str, turns: tuple[Turn, ...], *, prefix: str, prompt: str, max_tokens: int | None) -> Asked:
        prompt_tokens = replies.count(prompt)
        _check_sampling(self, max_tokens)
        structured = self.structured_outputs
        return Asked(
            model=model,
            turns=turns,
            prefix=prefix,
            prompt_tokens=prompt_tokens,
            max_tokens=max_tokens or max(1, replies.MAX_MODEL_LEN - prompt_tokens),
            temperature=1.0 if self.temperature is None else self.temperature,
            n=self.n or 1,
            seed=self.seed,
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            choices=None if structured is None or structured.choice is None else tuple(structured.choice),
            schema=self.schema,
            schema_name=self.schema_name,
            priority=self.priority,
        )


class ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]] | None = None


class FunctionParam(msgspec.Struct, frozen=True):
    name: str
    parameters: dict[str, Any] | None = None


class ToolParam(msgspec.Struct, frozen=True):
    function: FunctionParam
    type: Literal["function"] = "function"


class ChatRequest(Sampling, kw_only=True):
    messages: list[ChatMessage]
    tools: list[ToolParam] | None = None
    tool_choice: Any = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = None
    continue_final_message: bool = False
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    thinking_token_budget: int | None = None

    def to_asked(self, model: str) -> Asked:
        if not self.messages:
            raise BadRequestError("messages must hold at least one message", "messages")
        if self.logprob_token_ids and not self.logprobs:
            raise BadRequestError("`logprob_token_ids` needs `logprobs` to be true.", "logprob_token_ids")
        if self.top_logprobs and not self.logprobs:
            raise BadRequestError("`top_logprobs` needs `logprobs` to be true.", "top_logprobs")
        _check_logprobs(self.top_logprobs or 0)
        turns, prefix = chat_turns(self.messages, self.continue_final_message, self.add_generation_prompt)
        limit = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        request = self.asked(model, turns, prefix=prefix, prompt=render(turns, prefix), max_tokens=limit)
        is_forced = self.continue_final_message and self.messages[-1].role == "assistant"
        told = read_told(self.chat_template_kwargs, self.reasoning_effort, self.thinking_token_budget)
        return msgspec.structs.replace(request, told=told, is_forced=is_forced, offer=self._offer())

    def _offer(self) -> Offer:
        tools = [Tool(tool.function.name, tool.function.parameters or {}) for tool in self.tools or []]
        match self.tool_choice:
            case None | "auto":
                return Offer(tuple(tools))
            case "none":
                return Offer()
            case "required":
                return demanded(tools)
            case {"function": {"name": str(name)}}:
                return demanded(tools, name)
        raise BadRequestError(
            f"Invalid value for `tool_choice`: {self.tool_choice}! "
            'Only named tools, "none", "auto" or "required" are supported.',
            "tool_choice",
        )


class CompletionRequest(Sampling, kw_only=True):
    prompt: str | list[str]
    logprobs: int | None = None
    echo: bool = False

    def to_asked(self, model: str) -> list[Asked]:
        """One per prompt. vLLM's default length of a plain completion is 16 tokens."""
        if self.logprob_token_ids and self.logprobs is None:
            raise BadRequestError("`logprob_token_ids` needs `logprobs`.", "logprob_token_ids")
        _check_logprobs(self.logprobs or 0)
        prompts = [self.prompt] if isinstance(self.prompt, str) else self.prompt
        if not prompts:
            raise BadRequestError("prompt must not be an empty list", "prompt")
        limit = 16 if self.max_tokens is None else self.max_tokens
        return [
            self.asked(model, (Turn("user", prompt),), prefix="", prompt=prompt, max_tokens=limit) for prompt in prompts
        ]


class EmbeddingRequest(msgspec.Struct, frozen=True):
    input: str | list[str]
    model: str | None = None
    encoding_format: str = "float"


class TokenizeRequest(msgspec.Struct, frozen=True):
    """Either a prompt or messages, as vLLM's /tokenize takes them."""

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    return_token_strs: bool | None = False

    def text(self) -> str:
        if self.messages is not None:
            turns, prefix = chat_turns(self.messages, self.continue_final_message, self.add_generation_prompt)
            return render(turns, prefix)
        if self.prompt is None:
            raise BadRequestError("give `prompt` or `messages`", "prompt")
        return self.prompt


class DetokenizeRequest(msgspec.Struct, frozen=True):
    tokens: list[int]
    model: str | None = None


def demanded(tools: Sequence[Tool], name: str | None = None) -> Offer:
    """Return an offer of tools that demands a call: of the tool with this name, if it is given, else of any."""
    if not tools:
        raise BadRequestError("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if name is None:
        return Offer(tuple(tools), "required")
    named = tuple(tool for tool in tools if tool.name == name)[:1]
    if not named:
        raise BadRequestError(
            "The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice"
        )
    return Offer(named, "named")


def flat_text(content: str | list[dict[str, Any]] | None) -> str:
    """Text of a message: parts of other types (images, tool calls) say nothing to the simulator."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(str(part.get("text", "")) for part in content if part.get("type") in ("text", "input_text"))


def chat_turns(
    messages: list[ChatMessage], continue_final_message: bool, add_generation_prompt: bool
) -> tuple[tuple[Turn, ...], str]:
    """The conversation, and the beginning of the reply that a final assistant message forces."""
    if continue_final_message and add_generation_prompt:
        raise BadRequestError("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
    turns = tuple(Turn(message.role, flat_text(message.content)) for message in messages)
    if continue_final_message and turns[-1].role == "assistant":
        return turns[:-1], turns[-1].text
    return turns, ""


def _check_logprobs(number: int) -> None:
    if number > MAX_LOGPROBS:
        raise BadRequestError(
            f"Requested sample logprobs of {number}, which is greater than max allowed: {MAX_LOGPROBS}", "logprobs"
        )


def _check_sampling(request: Sampling, max_tokens: int | None) -> None:
    if max_tokens is not None and max_tokens < 1:
        raise BadRequestError(f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens")
    if request.temperature is not None and request.temperature < 0:
        raise BadRequestError(f"temperature must be non-negative, got {request.temperature}.", "temperature")
    if request.n is not None and not 1 <= request.n <= 128:
        raise BadRequestError(f"n must be between 1 and 128, got {request.n}.", "n")
    structured = request.structured_outputs
    if structured is not None and structured.choice is not None and not structured.choice:
        raise BadRequestError("structured_outputs.choice must not be empty", "structured_outputs")
