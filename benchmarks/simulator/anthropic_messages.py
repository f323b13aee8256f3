"""Serves POST /v1/messages in Anthropic's shape, streamed and whole, as vLLM serves it next to the OpenAI endpoints."""

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from benchmarks.simulator import replies, tool_calls
from benchmarks.simulator.asgi import Call, attend
from benchmarks.simulator.engine import Answer, Engine
from benchmarks.simulator.openai_requests import BadRequestError, demanded, flat_text
from benchmarks.simulator.text_request import Asked, Generated, Step, Turn, render
from benchmarks.simulator.tool_calls import Offer, Piece, Tool

Json = dict[str, Any]


class MessageParam(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]]


class ToolDefinition(msgspec.Struct, frozen=True):
    name: str
    input_schema: dict[str, Any] = {}


class ToolChoice(msgspec.Struct, frozen=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None


class MessagesRequest(msgspec.Struct, kw_only=True):
    messages: list[MessageParam]
    model: str | None = None
    max_tokens: int = replies.MAX_MODEL_LEN
    system: str | list[dict[str, Any]] | None = None
    temperature: float | None = None
    stop_sequences: list[str] = []
    stream: bool = False
    tools: list[ToolDefinition] | None = None
    tool_choice: ToolChoice | None = None
    priority: int = 0

    def turns(self) -> tuple[Turn, ...]:
        said = tuple(Turn(message.role, flat_text(message.content)) for message in self.messages)
        return (Turn("system", flat_text(self.system)), *said) if self.system else said

    def to_asked(self, model: str) -> Asked:
        """A final assistant message is the beginning of the reply, as Anthropic documents."""
        turns, prefix = self.turns(), ""
        if not self.messages:
            raise BadRequestError("messages must hold at least one message", "messages")
        if self.max_tokens < 1:
            raise BadRequestError(f"max_tokens must be at least 1, got {self.max_tokens}.", "max_tokens")
        if turns[-1].role == "assistant":
            turns, prefix = turns[:-1], turns[-1].text
        return Asked(
            model=model,
            turns=turns,
            prefix=prefix,
            prompt_tokens=replies.count(render(turns, prefix)),
            max_tokens=self.max_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            stop=tuple(self.stop_sequences),
            offer=self._offer(),
            priority=self.priority,
        )

    def _offer(self) -> Offer:
        tools = [Tool(tool.name, tool.input_schema) for tool in self.tools or []]
        match self.tool_choice:
            case None | ToolChoice("auto"):
                return Offer(tuple(tools))
            case ToolChoice("any"):
                return demanded(tools)
            case ToolChoice("tool", name):
                return demanded(tools, name or "")
        return Offer()


_decoder = msgspec.json.Decoder(MessagesRequest)


async def messages(engine: Engine, call: Call) -> None:
    request = _decoder.decode(await call.body())
    text_request = request.to_asked(engine.served(request.model))
    await attend(engine, call, text_request, partial(_say, engine, call, request, text_request))


async def count_tokens(engine: Engine, call: Call) -> None:
    request = _decoder.decode(await call.body())
    await call.json({"input_tokens": replies.count(render(request.turns()))})


async def _say(engine: Engine, call: Call, request: MessagesRequest, text_request: Asked) -> None:
    answer = engine.answer(text_request)
    if request.stream:
        await call.events(_events(engine, answer))
    else:
        await engine.wait(answer)
        await call.json(_message(engine, answer))
    engine.count(answer)


def _message(engine: Engine, answer: Answer) -> Json:
    reply = answer.generated[0]
    text, call = tool_calls.read(reply.text) if answer.asked.offer.tools else (reply.text, None)
    content: list[Json] = [{"type": "text", "text": text}] if text or call is None else []
    if call is not None:
        content.append(_block(answer, call.name, msgspec.json.decode(call.arguments)))
    return {
        **_opening(engine, answer),
        "content": content,
        **_ending(reply, calls=call is not None),
        "usage": {"input_tokens": answer.asked.prompt_tokens, "output_tokens": len(reply.tokens)},
    }


def _opening(engine: Engine, answer: Answer) -> Json:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": answer.asked.model,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": answer.asked.prompt_tokens, "output_tokens": 0},
        "system_fingerprint": engine.fingerprint,
    }


def _block(answer: Answer, name: str, arguments: Any) -> Json:
    return {"type": "tool_use", "id": tool_calls.call_id(answer.id, 0), "name": name, "input": arguments}


def _ending(reply: Generated, *, calls: bool = False) -> Json:
    if reply.finish_reason == "length":
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if reply.stop_reason is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": reply.stop_reason}
    return {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}


async def _events(engine: Engine, answer: Answer) -> AsyncIterator[bytes]:
    reply = answer.generated[0]
    pieces = tool_calls.pieces(reply.tokens) if answer.asked.offer.tools else None
    yield _event("message_start", message=_opening(engine, answer))
    if pieces is None:
        yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        async for delta in engine.paced([_deltas(reply)]):
            yield _event("content_block_delta", index=0, delta=delta)
        yield _event("content_block_stop", index=0)
    else:
        async for events in engine.paced([_calling(answer, pieces)]):
            yield events
    usage = {"input_tokens": answer.asked.prompt_tokens, "output_tokens": len(reply.tokens)}
    calls = any(piece.kind == "name" for piece in pieces or ())
    yield _event("message_delta", delta=_ending(reply, calls=calls), usage=usage)
    yield _event("message_stop")


def _deltas(reply: Generated) -> Iterator[tuple[int, Json]]:
    for number, token in enumerate(reply.tokens, 1):
        text = Step(token, {}).text
        if text:
            yield number, {"type": "text_delta", "text": text}


def _calling(answer: Answer, pieces: Sequence[Piece]) -> Iterator[tuple[int, bytes]]:
    """A block of the text before the call, if there is any, and one of the call; the last event ends it."""
    index, is_open = -1, False
    for number, piece in enumerate(pieces, 1):
        events = b""
        if piece.kind == "name" or (piece.kind == "text" and not is_open):
            events = _event("content_block_stop", index=index) if is_open else b""
            index, is_open = index + 1, True
            block = _block(answer, piece.text, {}) if piece.kind == "name" else {"type": "text", "text": ""}
            events += _event("content_block_start", index=index, content_block=block)
        match piece.kind:
            case "text":
                events += _event("content_block_delta", index=index, delta={"type": "text_delta", "text": piece.text})
            case "arguments":
                delta = {"type": "input_json_delta", "partial_json": piece.text}
                events += _event("content_block_delta", index=index, delta=delta)
        if number == len(pieces) and is_open:
            events += _event("content_block_stop", index=index)
        if events:
            yield number, events


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode({"type": kind, **fields}) + b"\n\n"
