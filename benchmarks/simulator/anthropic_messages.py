"""POST /v1/messages in Anthropic's shape, streamed and whole, as vLLM serves it beside the OpenAI endpoints."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import msgspec

from benchmarks.simulator import tokens
from benchmarks.simulator.asgi import Call
from benchmarks.simulator.engine import Answer, Engine
from benchmarks.simulator.generation import Generated, Step
from benchmarks.simulator.held_slot import attend
from benchmarks.simulator.openai_requests import BadRequestError, flat_text
from benchmarks.simulator.text_request import Asked, Turn, render

Json = dict[str, Any]


class MessageParam(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]]


class MessagesRequest(msgspec.Struct, kw_only=True):
    messages: list[MessageParam]
    model: str | None = None
    max_tokens: int = tokens.MAX_MODEL_LEN
    system: str | list[dict[str, Any]] | None = None
    temperature: float | None = None
    stop_sequences: list[str] = []
    stream: bool = False
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
            prompt_tokens=tokens.count(render(turns, prefix)),
            max_tokens=self.max_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            stop=tuple(self.stop_sequences),
            priority=self.priority,
        )


_decoder = msgspec.json.Decoder(MessagesRequest)


async def messages(engine: Engine, call: Call) -> None:
    request = _decoder.decode(await call.body())
    asked = request.to_asked(engine.served(request.model))
    await attend(engine, call, asked, partial(_say, engine, call, request, asked))


async def count_tokens(engine: Engine, call: Call) -> None:
    request = _decoder.decode(await call.body())
    await call.json({"input_tokens": tokens.count(render(request.turns()))})


async def _say(engine: Engine, call: Call, request: MessagesRequest, asked: Asked) -> None:
    answer = engine.answer(asked)
    if request.stream:
        await call.events(_events(engine, answer))
    else:
        await engine.wait(answer)
        await call.json(_message(engine, answer))
    engine.count(answer)


def _message(engine: Engine, answer: Answer) -> Json:
    reply = answer.generated[0]
    return {
        **_opening(engine, answer),
        "content": [{"type": "text", "text": reply.text}],
        **_ending(reply),
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


def _ending(reply: Generated) -> Json:
    if reply.finish_reason == "length":
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if reply.stop_reason is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": reply.stop_reason}
    return {"stop_reason": "end_turn", "stop_sequence": None}


async def _events(engine: Engine, answer: Answer) -> AsyncIterator[bytes]:
    reply = answer.generated[0]
    yield _event("message_start", message=_opening(engine, answer))
    yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    async for delta in engine.paced([_deltas(reply)]):
        yield _event("content_block_delta", index=0, delta=delta)
    yield _event("content_block_stop", index=0)
    usage = {"input_tokens": answer.asked.prompt_tokens, "output_tokens": len(reply.tokens)}
    yield _event("message_delta", delta=_ending(reply), usage=usage)
    yield _event("message_stop")


def _deltas(reply: Generated) -> Iterator[tuple[int, Json]]:
    for number, token in enumerate(reply.tokens, 1):
        text = Step(token, {}).text
        if text:
            yield number, {"type": "text_delta", "text": text}


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode({"type": kind, **fields}) + b"\n\n"
