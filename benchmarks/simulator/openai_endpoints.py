"""POST /v1/chat/completions, /v1/completions and /v1/embeddings."""

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from benchmarks.simulator import openai_replies as shapes
from benchmarks.simulator import replies, tool_calls
from benchmarks.simulator.asgi import Call, attend
from benchmarks.simulator.engine import Answer, Engine
from benchmarks.simulator.openai_replies import Envelope, Json, Reported
from benchmarks.simulator.openai_requests import BadRequestError, ChatRequest, CompletionRequest, EmbeddingRequest
from benchmarks.simulator.prose import embed, packed
from benchmarks.simulator.replies import digest
from benchmarks.simulator.text_request import Asked
from benchmarks.simulator.thinking import told_apart
from benchmarks.simulator.tool_calls import Piece

DONE = b"data: [DONE]\n\n"


async def chat(engine: Engine, call: Call) -> None:
    request = msgspec.json.decode(await call.body(), type=ChatRequest)
    text_request = request.to_asked(engine.served(request.model))
    engine.refuse(text_request)
    await attend(engine, call, text_request, partial(_chat, engine, call, request, text_request))


async def chat_batch(engine: Engine, call: Call) -> None:
    """Several conversations under the same fields; the reply has a choice for each, in order."""
    body = msgspec.json.decode(await call.body(), type=dict[str, Any])
    conversations = body.get("messages")
    if not isinstance(conversations, list) or not all(isinstance(conversation, list) for conversation in conversations):
        raise BadRequestError("messages must be a list of conversations", "messages")
    requests = [msgspec.convert({**body, "messages": conversation}, ChatRequest) for conversation in conversations]
    if not requests:
        raise BadRequestError("messages must hold at least one conversation", "messages")
    first = requests[0]
    if first.stream or first.tools or (first.n or 1) > 1:
        raise BadRequestError("Batch chat completions support no streaming, no tools and n=1 only.")
    text_requests = [request.to_asked(engine.served(request.model)) for request in requests]
    for text_request in text_requests:
        engine.refuse(text_request)
    await attend(engine, call, text_requests[0], partial(_chat_batch, engine, call, first, text_requests))


async def completions(engine: Engine, call: Call) -> None:
    request = msgspec.json.decode(await call.body(), type=CompletionRequest)
    text_requests = request.to_asked(engine.served(request.model))
    await attend(engine, call, text_requests[0], partial(_completions, engine, call, request, text_requests))


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
    n_tokens = sum(map(replies.count, texts))
    await call.json(envelope.around("list", data=data, usage=shapes.usage(n_tokens, 0)))


async def _chat(engine: Engine, call: Call, request: ChatRequest, text_request: Asked) -> None:
    answer = engine.answer(text_request)
    envelope = _envelope(engine, answer, "chatcmpl")
    reported = _reported(engine, request, request.top_logprobs or 0) if request.logprobs else None
    if request.stream:
        await call.events(_chat_events(engine, request, answer, envelope, reported))
    else:
        await engine.wait(answer)
        await call.json(_chat_object(engine, answer, envelope, reported))
    engine.count(answer)


async def _chat_batch(engine: Engine, call: Call, request: ChatRequest, text_requests: list[Asked]) -> None:
    answers = [engine.answer(text_request) for text_request in text_requests]
    envelope = _envelope(engine, answers[0], "chatcmpl")
    reported = _reported(engine, request, request.top_logprobs or 0) if request.logprobs else None
    await engine.wait(max(answers, key=lambda answer: answer.completion_tokens))
    objects = [_chat_object(engine, answer, envelope, reported) for answer in answers]
    choices = [{**chat_object["choices"][0], "index": place} for place, chat_object in enumerate(objects)]
    await call.json(envelope.around("chat.completion", choices=choices, usage=_usage(answers)))
    for answer in answers:
        engine.count(answer)


async def _completions(engine: Engine, call: Call, request: CompletionRequest, text_requests: list[Asked]) -> None:
    answers = [engine.answer(text_request) for text_request in text_requests]
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


def _chat_object(engine: Engine, answer: Answer, envelope: Envelope, reported: Reported | None) -> Json:
    choices, thinking, n_thoughts, offer = [], engine.profile.thinking, 0, answer.asked.offer
    for index, reply in enumerate(answer.generated):
        logprobs = None if reported is None else shapes.chat_logprobs(answer.steps(index), reported)
        thoughts, text = told_apart(thinking, reply.text)
        choice = shapes.chat_choice(index, reply, logprobs, text, thinking.place, thoughts)
        if offer.tools and text:
            words, call = tool_calls.read(text)
            if call is not None:
                choice = shapes.calling(choice, offer, words, call, tool_calls.call_id(answer.id, index))
        choices.append(choice)
        n_thoughts += 0 if thoughts is None else replies.count(thoughts)
    usage = _usage([answer])
    if thinking.switch != "none" and thinking.has_parser:
        usage["completion_tokens_details"] = {"reasoning_tokens": n_thoughts}
    return envelope.around("chat.completion", choices=choices, usage=usage)


async def _chat_events(
    engine: Engine, request: ChatRequest, answer: Answer, envelope: Envelope, reported: Reported | None
) -> AsyncIterator[bytes]:
    kind = "chat.completion.chunk"
    thinking = engine.profile.thinking
    parsed = thinking.switch != "none" and thinking.has_parser
    for index in range(len(answer.generated)):
        yield event(envelope.around(kind, choices=[shapes.chat_opening(index)]))
    deltas = []
    for index, reply in enumerate(answer.generated):
        steps, place = answer.steps(index) if reported else None, thinking.place if parsed else None
        choices = shapes.chat_deltas(index, reply, steps, reported, place)
        begun = tool_calls.pieces(reply.tokens) if answer.asked.offer.tools else None
        deltas.append(choices if begun is None else _calling(answer, index, choices, begun))
    async for choice in engine.paced(deltas):
        yield event(envelope.around(kind, choices=[choice]))
    if request.include_usage:
        yield event(envelope.around(kind, choices=[], usage=_usage([answer])))
    yield DONE


def _calling(
    answer: Answer, index: int, choices: Iterator[tuple[int, Json]], pieces: Sequence[Piece]
) -> Iterator[tuple[int, Json]]:
    call_id = tool_calls.call_id(answer.id, index)
    for (number, choice), piece in zip(choices, pieces, strict=True):
        yield number, shapes.calling_delta(choice, answer.asked.offer, piece, call_id)


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
            choices.append(shapes.choice(len(choices), reply, logprobs, text=echoed + reply.text))
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
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
