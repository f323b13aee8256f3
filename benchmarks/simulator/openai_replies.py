"""Replies in the OpenAI shape, field for field where a client or an auditor looks, as vLLM frames them."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from benchmarks.simulator.replies import Vocabulary
from benchmarks.simulator.text_request import Generated, Step
from benchmarks.simulator.thinking import CLOSING, OPENING
from benchmarks.simulator.tool_calls import Call, Offer, Piece

Json = dict[str, Any]


class Envelope(msgspec.Struct, frozen=True):
    """The fields that every object of a reply repeats."""

    id: str
    model: str
    created: int
    fingerprint: str

    def around(self, kind: str, **fields: Any) -> Json:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            **fields,
        }


class Reported(msgspec.Struct, frozen=True):
    """The log-probabilities that the client asked for."""

    vocabulary: Vocabulary
    top: int = 0
    token_ids: Sequence[int] | None = None
    as_token_id: bool = False

    def name(self, token: str) -> str:
        return f"token_id:{self.vocabulary.id(token)}" if self.as_token_id else token

    def alternatives(self, step: Step) -> list[tuple[str, float]]:
        """(name, log-probability): asked ids or the likeliest, the drawn first, the least likely dropped (vLLM)."""
        if not self.token_ids:
            listed = list(dict.fromkeys((step.token, *step.ranked())))[: self.top]
            return [(self.name(token), step.logprob(token)) for token in listed]
        drawn = self.vocabulary.id(step.token)
        return [self._by_id(step, number) for number in dict.fromkeys((drawn, *self.token_ids))]

    def _by_id(self, step: Step, number: int) -> tuple[str, float]:
        piece = self.vocabulary.piece(number)
        name = f"token_id:{number}" if piece is None or self.as_token_id else piece
        return name, step.logprob(piece or "")


def usage(prompt_tokens: int, completion_tokens: int) -> Json:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def chat_logprobs(steps: Sequence[Step], reported: Reported) -> Json:
    content = [
        {
            **_entry(reported.name(step.token), step.logprob(step.token)),
            "top_logprobs": [_entry(name, logprob) for name, logprob in reported.alternatives(step)],
        }
        for step in steps
    ]
    return {"content": content}


def chat_choice(
    index: int, generated: Generated, logprobs: Json | None, text: str | None, field: str, thoughts: str | None
) -> Json:
    """`text` and `thoughts` as the server tells them apart; `field` is where the thoughts go, if it has any."""
    message: Json = {"role": "assistant", "content": text, "refusal": None, "tool_calls": []}
    return choice(index, generated, logprobs, message=message if thoughts is None else {**message, field: thoughts})


def choice(index: int, generated: Generated, logprobs: Json | None, **content: Any) -> Json:
    ended = {"finish_reason": generated.finish_reason, "stop_reason": generated.stop_reason}
    return {"index": index, **content, "logprobs": logprobs, **ended}


def calling(choice: Json, offer: Offer, words: str, call: Call, call_id: str) -> Json:
    """A choice whose reply ends in a call: a call that was demanded by name ends it as words would."""
    function = {"name": call.name, "arguments": call.arguments}
    content = words if offer.is_demanded else words or None
    called = {"content": content, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}
    return {**choice, "message": choice["message"] | called, "finish_reason": _end(choice["finish_reason"], offer)}


def calling_delta(choice: Json, offer: Offer, piece: Piece, call_id: str) -> Json:
    """A streamed choice for a token of a reply that calls a tool."""
    choice = {**choice, "finish_reason": _end(choice["finish_reason"], offer)}
    match piece.kind:
        case "text":
            return choice
        case "mark":
            return {**choice, "delta": {}}
        case "name":
            begun = {"id": call_id, "type": "function", "index": 0, "function": {"name": piece.text}}
        case "arguments":
            begun = {"index": 0, "function": {"arguments": piece.text}}
    return {**choice, "delta": {"content": None, "tool_calls": [begun]}}


def _end(reason: str | None, offer: Offer) -> str | None:
    return "tool_calls" if reason == "stop" and offer.choice != "named" else reason


def chat_opening(index: int) -> Json:
    return {"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}


def chat_deltas(
    index: int, generated: Generated, steps: Sequence[Step] | None, reported: Reported | None, field: str | None = None
) -> Iterator[tuple[int, Json]]:
    """(tokens so far, choice) of each chunk after the opening; the last has the finish reason. `field`: of thoughts."""
    last = len(generated.tokens)
    places = [""] * last if field is None else _places(generated.tokens)
    for number, token in enumerate(generated.tokens, 1):
        step = None if steps is None else steps[number - 1]
        place = places[number - 1]
        choice: Json = {
            "index": index,
            "delta": {} if place is None else {(place and field) or "content": Step(token, {}).text},
            "logprobs": None if step is None or reported is None else chat_logprobs([step], reported),
            "finish_reason": generated.finish_reason if number == last else None,
        }
        if number == last:
            choice["stop_reason"] = generated.stop_reason
        yield number, choice


def _places(tokens: Sequence[str]) -> list[str | None]:
    """Return the place of each token: "thought", "" for the answer, or None for a part of a mark."""
    at, places = 0, list[str | None]()
    whole = "".join(tokens)
    if not whole.startswith(OPENING):
        return [""] * len(tokens)
    end = whole.find(CLOSING)
    for token in tokens:
        if at < len(OPENING) or (end <= at < end + len(CLOSING) and end >= 0):
            places.append(None)
        else:
            places.append("thought" if end < 0 or at < end else "")
        at += len(token)
    return places


def completion_logprobs(steps: Sequence[Step], reported: Reported, offset: int = 0) -> Json:
    """The older shape: parallel lists. `offset` is the number of characters before the first step."""
    return {
        "text_offset": list(accumulate((len(step.text) for step in steps), initial=offset))[:-1],
        "token_logprobs": [step.logprob(step.token) for step in steps],
        "tokens": [reported.name(step.token) for step in steps],
        "top_logprobs": [
            {reported.name(step.token): step.logprob(step.token), **dict(reported.alternatives(step))} for step in steps
        ],
    }


def completion_deltas(
    index: int, generated: Generated, steps: Sequence[Step] | None, reported: Reported | None
) -> Iterator[tuple[int, Json]]:
    last, offset = len(generated.tokens), 0
    for number, token in enumerate(generated.tokens, 1):
        step = Step(token, {}) if steps is None else steps[number - 1]
        yield (
            number,
            {
                "index": index,
                "text": step.text,
                "logprobs": None if reported is None else completion_logprobs([step], reported, offset),
                "finish_reason": generated.finish_reason if number == last else None,
                "stop_reason": generated.stop_reason if number == last else None,
            },
        )
        offset += len(step.text)


def error(status: int, message: str, kind: str, param: str | None = None) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def _entry(name: str, logprob: float) -> Json:
    return {"token": name, "logprob": logprob, "bytes": list(name.encode("utf-8"))}
