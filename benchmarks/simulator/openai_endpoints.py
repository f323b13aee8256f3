"""POST /v1/chat/completions, /v1/completions and /v1/embeddings."""

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from benchmarks.simulator import openai_replies as shapes
from benchmarks.simulator import tokens
from benchmarks.simulator.asgi import Call
from benchmarks.simulator.draws import digest
from benchmarks.simulator.embeddings import embed, packed
from benchmarks.simulator.engine import Answer, Engine
from benchmarks.simulator.held_slot import attend
from benchmarks.simulator.openai_replies import Envelope, Json, Reported
from benchmarks.simulator.openai_requests import BadRequestError, ChatRequest, CompletionRequest, EmbeddingRequest
from benchmarks.simulator.text_request import Asked

_chat_decoder = msgspec.json.Decoder(ChatRequest)
_completion_decoder = msgspec.json.Decoder(CompletionRequest)

DONE = b"data: [DONE]\n\n"


async def chat(engine: Engine, call: Call) -> None:
    request = _chat_decoder.decode(await call.body())
    asked = request.to_asked(engine.served(request.model))
    await attend(engine, call, asked, partial(_chat, engine, call, request, asked))


async def completions(engine: Engine, call: Call) -> None:
    request = _completion_decoder.decode(await call.body())
    asked = request.to_asked(engine.served(request.model))
    await attend(engine, call, asked[0], partial(_completions, engine, call, request, asked))


async def embeddings(engine: Engine, call: Call) -> None:
    request = msgspec.json.decode(await call.body(), type=EmbeddingRequest)
    model = engine.served(request.model)
    texts = [request.input] if isinstance(request.input, str) else request.input
    vectors = list(map(_embedded, texts))
    as_text = request.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": packed(vector) if as_text else vector}
        for index, vector in enumerate(vectors)
    ]
    envelope = Envelope(f"embd-{digest(str(texts))}", model, engine.started_at, engine.fingerprint)
    n_tokens = sum(map(tokens.count, texts))
    await call.json(envelope.around("list", data=data, usage=shapes.usage(n_tokens, 0)))


async def _chat(engine: Engine, call: Call, request: ChatRequest, asked: Asked) -> None:
    answer = engine.answer(asked)
    envelope = _envelope(engine, answer, "chatcmpl")
    reported = _reported(engine, request, request.top_logprobs or 0) if request.logprobs else None
    if request.stream:
        await call.events(_chat_events(engine, request, answer, envelope, reported))
    else:
        await engine.wait(answer)
        await call.json(_chat_object(answer, envelope, reported))
    engine.count(answer)


async def _completions(engine: Engine, call: Call, request: CompletionRequest, asked: list[Asked]) -> None:
    answers = [engine.answer(one) for one in asked]
    envelope = _envelope(engine, answers[0], "cmpl")
    reported = _reported(engine, request, request.logprobs) if request.logprobs is not None else None
    if request.stream:
        await call.events(_completion_events(engine, request, answers, envelope, reported))
    else:
        await engine.wait(answers[0])
        await call.json(_completion_object(request, answers, envelope, reported))
    for answer in answers:
        engine.count(answer)


def _embedded(text: str) -> list[float]:
    try:
        return embed(text)
    except ValueError as exc:
        raise BadRequestError(str(exc), "input") from exc


def _envelope(engine: Engine, answer: Answer, prefix: str) -> Envelope:
    return Envelope(f"{prefix}-{answer.id}", answer.asked.model, engine.started_at, engine.fingerprint)


def _reported(engine: Engine, request: ChatRequest | CompletionRequest, top: int) -> Reported:
    return Reported(engine.vocabulary, top, request.logprob_token_ids, bool(request.return_tokens_as_token_ids))


def _usage(answers: Sequence[Answer]) -> Json:
    return shapes.usage(
        sum(answer.asked.prompt_tokens for answer in answers), sum(answer.completion_tokens for answer in answers)
    )


def _chat_object(answer: Answer, envelope: Envelope, reported: Reported | None) -> Json:
    choices = []
    for index, reply in enumerate(answer.generated):
        logprobs = None if reported is None else shapes.chat_logprobs(answer.steps(index), reported)
        choices.append(shapes.chat_choice(index, reply, logprobs))
    return envelope.around("chat.completion", choices=choices, usage=_usage([answer]))


async def _chat_events(
    engine: Engine, request: ChatRequest, answer: Answer, envelope: Envelope, reported: Reported | None
) -> AsyncIterator[bytes]:
    kind = "chat.completion.chunk"
    for index in range(len(answer.generated)):
        yield event(envelope.around(kind, choices=[shapes.chat_opening(index)]))
    deltas = [
        shapes.chat_deltas(index, reply, answer.steps(index) if reported else None, reported)
        for index, reply in enumerate(answer.generated)
    ]
    async for choice in engine.paced(deltas):
        yield event(envelope.around(kind, choices=[choice]))
    if request.include_usage:
        yield event(envelope.around(kind, choices=[], usage=_usage([answer])))
    yield DONE


def _completion_object(
    request: CompletionRequest, answers: list[Answer], envelope: Envelope, reported: Reported | None
) -> Json:
    choices: list[Json] = []
    for answer in answers:
        echoed = answer.asked.user if request.echo else ""
        for index, reply in enumerate(answer.generated):
            logprobs = None
            if reported is not None:
                logprobs = shapes.completion_logprobs(answer.steps(index), reported, len(echoed))
            choices.append(shapes.completion_choice(len(choices), reply, logprobs, echoed))
    return envelope.around("text_completion", choices=choices, usage=_usage(answers))


async def _completion_events(
    engine: Engine, request: CompletionRequest, answers: list[Answer], envelope: Envelope, reported: Reported | None
) -> AsyncIterator[bytes]:
    deltas: list[Iterator[tuple[int, Any]]] = []
    for answer in answers:
        for index, reply in enumerate(answer.generated):
            steps = answer.steps(index) if reported else None
            deltas.append(shapes.completion_deltas(len(deltas), reply, steps, reported))
    async for choice in engine.paced(deltas):
        yield event(envelope.around("text_completion", choices=[choice]))
    if request.include_usage:
        yield event(envelope.around("text_completion", choices=[], usage=_usage(answers)))
    yield DONE


def event(value: Json) -> bytes:
    """One server-sent event as vLLM frames it."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
