"""Serves its own data and control; /tokenize, /detokenize and /v1/systemone as vLLM; /v1/decisions as OpenAI."""

from functools import partial
from typing import Any

import msgspec

from benchmarks.simulator import replies
from benchmarks.simulator.asgi import Call, attend
from benchmarks.simulator.engine import VERSION, Engine
from benchmarks.simulator.openai_requests import BadRequestError, DetokenizeRequest, TokenizeRequest
from benchmarks.simulator.replies import MAX_MODEL_LEN, digest, split, uniform
from benchmarks.simulator.text_request import Asked, Turn


class DriftRequest(msgspec.Struct, frozen=True):
    on: bool | None
    """null gives the decision back to the profile's at_request and at_seconds."""


async def models(engine: Engine, call: Call) -> None:
    cards = [
        {
            "id": name,
            "object": "model",
            "created": engine.started_at,
            "owned_by": "biasgate-simulator",
            "root": name,
            "parent": None,
            "max_model_len": MAX_MODEL_LEN,
        }
        for name in engine.profile.models
    ]
    await call.json({"object": "list", "data": cards})


async def health(engine: Engine, call: Call) -> None:
    await call.reply(b"", "text/plain; charset=utf-8")


async def version(engine: Engine, call: Call) -> None:
    await call.json({"version": f"{VERSION}+biasgate-simulator"})


async def metrics(engine: Engine, call: Call) -> None:
    await call.reply(engine.counts.render().encode(), "text/plain; version=0.0.4; charset=utf-8")


async def drift(engine: Engine, call: Call) -> None:
    """POST {"on": true} plants the profile's change now; false holds it off; null lets the profile decide."""
    engine.forced_drift = msgspec.json.decode(await call.body(), type=DriftRequest).on
    await call.json({"drifted": engine.drifted})


async def profile(engine: Engine, call: Call) -> None:
    await call.json({"profile": engine.profile, "seed": engine.seed, "drifted": engine.drifted})


async def tokenize(engine: Engine, call: Call) -> None:
    request = msgspec.json.decode(await call.body(), type=TokenizeRequest)
    engine.served(request.model)
    text = request.text()
    ids = engine.vocabulary.encode(text)
    strings = split(text) if request.return_token_strs else None
    await call.json({"count": len(ids), "max_model_len": MAX_MODEL_LEN, "tokens": ids, "token_strs": strings})


async def detokenize(engine: Engine, call: Call) -> None:
    request = msgspec.json.decode(await call.body(), type=DetokenizeRequest)
    engine.served(request.model)
    try:
        prompt = engine.vocabulary.decode(request.tokens)
    except KeyError as exc:
        raise BadRequestError(f"token id {exc} is in no text that this simulator has seen", "tokens") from exc
    await call.json({"prompt": prompt})


Json = dict[str, Any]
MOST_QUESTIONS = 64


class SystemOneQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    instructions: Any = ""
    criteria: Any = None

    @property
    def labels(self) -> list[str]:
        """Raises BadRequestError for criteria that are none of the type's."""
        match self.type, self.criteria:
            case "noul", dict() | None:
                return ["yes", "no"]
            case "choice", dict() if self.criteria:
                return list(self.criteria)
            case "score", list() if len(self.criteria) > 1:
                return [str(level) for level in range(len(self.criteria))]
        raise BadRequestError(f"a {self.type} question with these criteria is not answered", "questions")


class SystemOneRequest(msgspec.Struct, frozen=True):
    state: Any
    questions: dict[str, SystemOneQuestion]
    model: str | None = None
    instructions: str | None = None
    priority: int = 0


class Described(msgspec.Struct, frozen=True):
    value: str | bool = ""
    label: str = ""
    description: str | None = None


class OpenAIQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    instructions: str
    name: str | None = None
    choices: list[Described] | None = None
    levels: list[Described] | None = None


class OpenAIRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: str
    input: Any
    questions: list[OpenAIQuestion]
    safety_identifier: str | None = None


async def system_one(engine: Engine, call: Call) -> None:
    request = msgspec.json.decode(await call.body(), type=SystemOneRequest)
    _check_number(len(request.questions))
    text_request = _make_request(engine, request.model, request.state, request.priority)
    await attend(engine, call, text_request, partial(_system_one_reply, engine, call, request, text_request))


async def decisions(engine: Engine, call: Call) -> None:
    request = msgspec.json.decode(await call.body(), type=OpenAIRequest)
    _check_number(len(request.questions))
    text_request = _make_request(engine, request.model, request.input, 0)
    await attend(engine, call, text_request, partial(_open_ai_reply, engine, call, request, text_request))


async def _system_one_reply(engine: Engine, call: Call, request: SystemOneRequest, text_request: Asked) -> None:
    planted, answers, stream = engine.typed_decisions, Json(), engine.stream(text_request)
    for name, question in request.questions.items():
        labels = question.labels
        p = planted.probability(engine.seed, text_request.user, _text(question.instructions), uniform(stream, name))
        spread = dict(planted.spread(p, labels))
        leading = max(spread, key=lambda label: spread[label])
        answer: Json = {"type": question.type, "probabilities": spread, "confidence": spread[leading]}
        match question.type:
            case "noul":
                answer["noul"] = p
            case "choice":
                answer["choice"] = leading
            case _:
                answer["score"] = sum(int(label) * share for label, share in spread.items())
                answer["legend"] = dict(zip(labels, map(str, question.criteria), strict=True))
        answers[name] = answer
    mass = {"label_mass": planted.label_mass, "argmax_is_label": planted.label_mass > 0.5}
    reply = {
        "id": f"decision-{digest(stream)}",
        "object": "structured_decision",
        "created": engine.started_at,
        "model": text_request.model,
        "answers": answers,
        "usage": {"input_tokens": text_request.prompt_tokens, "output_tokens": len(answers)},
        "diagnostics": dict.fromkeys(answers, mass),
    }
    await call.json(reply)
    engine.counts.count_finished(text_request.model, "stop")


async def _open_ai_reply(engine: Engine, call: Call, request: OpenAIRequest, text_request: Asked) -> None:
    planted, answers, stream = engine.typed_decisions, list[Json](), engine.stream(text_request)
    for number, question in enumerate(request.questions):
        p = planted.probability(engine.seed, text_request.user, question.instructions, uniform(stream, number))
        answer: Json = {"type": question.type, "name": question.name}
        match question.type, question.choices, question.levels:
            case "predicate", None, None:
                answer["probability"] = p
            case "choice", [_, _, *_] as choices, None:
                places = planted.spread(p, [str(place) for place in range(len(choices))])
                pairs = zip(choices, places.values(), strict=True)
                answer["probabilities"] = [{"value": choice.value, "probability": share} for choice, share in pairs]
                leading = max(places, key=lambda place: places[place])
                answer |= {"choice": choices[int(leading)].value, "confidence": places[leading]}
            case "score", None, [_, _, *_] as levels:
                places = planted.spread(p, [str(place) for place in range(len(levels))])
                answer["probabilities"] = [
                    {"value": int(place), "label": level.label, "probability": share}
                    for level, (place, share) in zip(levels, places.items(), strict=True)
                ]
                score = sum(int(place) * share for place, share in places.items())
                answer |= {"score": score, "confidence": max(places.values())}
            case _:
                raise BadRequestError(f"a {question.type} question of this form is not answered", "questions")
        answers.append(answer)
    usage = {"input_tokens": text_request.prompt_tokens, "output_tokens": 0, "total_tokens": text_request.prompt_tokens}
    await call.json({"model": text_request.model, "answers": answers, "usage": usage})
    engine.counts.count_finished(text_request.model, "stop")


def _make_request(engine: Engine, model: str | None, state: Any, priority: int) -> Asked:
    text = _text(state)
    return Asked(
        model=engine.served(model),
        turns=(Turn("user", text),),
        prompt_tokens=replies.count(text),
        max_tokens=1,
        priority=priority,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _check_number(n: int) -> None:
    if not 0 < n <= MOST_QUESTIONS:
        raise BadRequestError(f"{n} questions: 1 to {MOST_QUESTIONS} are answered", "questions")
