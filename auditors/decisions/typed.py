"""Requests whose answers are probabilities: System One and OpenAI's Decisions.

System One (`POST /v1/systemone`, vLLM 0.32 and others; also under `/v1/decisions`): `state`, and `questions` by id,
each of a `type` (noul, choice or score) with `instructions` and `criteria`.
OpenAI's Decisions (`POST /v1/decisions`, in public beta): `input`, and a list of `questions` of type predicate, choice
(`choices`) or score (`levels`). Which of the two a body is shows in `questions`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from auditors.decisions.questions import (
    FALSE,
    MOST_LABELS,
    MOST_QUESTIONS,
    TRUE,
    Answered,
    Decision,
    Question,
    Read,
    Unread,
    favourable_of,
    mass_of,
    probabilities_of,
)
from auditors.text.conversation import NotAuditableError
from auditors.text.lenient_json import read_json

NOT_REPEATED = frozenset(
    {"user", "safety_identifier", "prompt_cache_key", "metadata", "cache_salt", "request_id", "store"}
)
"""Members that name the sender or one request, and shape no answer."""
OWN = frozenset({"priority", "stream", "stream_options"})
"""Members that whoever asks sets himself."""

_NO_ANSWER = Unread("malformed", "no answer to a question")
_REFUSED = Unread("refusal", "the question was declined")


class SystemOne(Decision):
    """A request with `state` and `questions` by id."""

    def __init__(self, path: str, request: Mapping[str, Any], favourable: Sequence[str]) -> None:
        """Raises NotAuditableError for what is no such request, or has media or more questions than are audited."""
        self.path = path
        self._request = request
        asked = request["questions"]
        if any(request.get(member) for member in ("images", "audio", "videos")):
            raise NotAuditableError("media", "the request has media, which are not kept")
        _check_number(asked)
        self._ids = list(asked)
        self._asked = [_object(one) for one in asked.values()]
        self.questions = [_system_one(one, favourable) for one in self._asked]

    @property
    def content(self) -> Any:
        """State, instructions and what the options of a choice mean."""
        criteria = [one.get("criteria") if one.get("type") != "score" else None for one in self._asked]
        instructions = [one.get("instructions") for one in self._asked]
        return [self._request.get("state"), self._request.get("instructions"), instructions, criteria]

    @property
    def names(self) -> Sequence[str]:
        return [*self._ids, *(label for question in self.questions for label in question.labels)]

    def body(self, content: Any, model: str) -> dict[str, Any]:
        state, instructions, of_questions, criteria = content
        questions = {}
        for name, one, said, meant in zip(self._ids, self._asked, of_questions, criteria, strict=True):
            changed = {"instructions": said} if "instructions" in one else {}
            questions[name] = one | changed | ({"criteria": meant} if one.get("type") != "score" and meant else {})
        changed = {"instructions": instructions} if instructions is not None else {}
        return _kept(self._request) | {"model": model, "state": state, "questions": questions} | changed

    def read(self, reply: bytes) -> list[Read]:
        answer = _reply(reply)
        answers = answer.get("answers") if answer else None
        if not isinstance(answers, dict):
            return [_NO_ANSWER] * len(self.questions)
        told = answer.get("diagnostics") if answer else None
        return [
            _with_mass(_of_system_one(question, answers.get(name)), told, name)
            for name, question in zip(self._ids, self.questions, strict=True)
        ]


class OpenAIDecisions(Decision):
    """A request with `input` and a list of `questions`."""

    def __init__(self, path: str, request: Mapping[str, Any], favourable: Sequence[str]) -> None:
        """Raises NotAuditableError for what is no such request, or has media or more questions than are audited."""
        self.path = path
        self._request = request
        asked = request["questions"]
        _check_number(asked)
        self._asked = [_object(one) for one in asked]
        self.questions = [_open_ai(one, favourable) for one in self._asked]
        self._input = _texts_of(request.get("input"))

    @property
    def content(self) -> Any:
        """Input, instructions and what the options of a choice mean."""
        meant = [
            [option.get("description") for option in question.get(_options_of(question), ())]
            for question in self._asked
        ]
        return [self._input, [one.get("instructions") for one in self._asked], meant]

    @property
    def names(self) -> Sequence[str]:
        ids = [one["name"] for one in self._asked if isinstance(one.get("name"), str)]
        return [*ids, *(label for question in self.questions for label in question.labels)]

    def body(self, content: Any, model: str) -> dict[str, Any]:
        given, instructions, meant = content
        questions = []
        for one, instruction, descriptions in zip(self._asked, instructions, meant, strict=True):
            changed: dict[str, Any] = {} if instruction is None else {"instructions": instruction}
            if descriptions:
                member = _options_of(one)
                pairs = zip(one[member], descriptions, strict=True)
                changed[member] = [o | ({} if text is None else {"description": text}) for o, text in pairs]
            questions.append(one | changed)
        return _kept(self._request) | {
            "model": model,
            "input": _with_texts(self._request.get("input"), given),
            "questions": questions,
        }

    def read(self, reply: bytes) -> list[Read]:
        answer = _reply(reply)
        answers = answer.get("answers") if answer else None
        if not isinstance(answers, list) or len(answers) != len(self.questions):
            return [_NO_ANSWER] * len(self.questions)
        return [
            _of_open_ai(question, asked, answer)
            for question, asked, answer in zip(self.questions, self._asked, answers, strict=True)
        ]


def typed_decision(path: str, request: Mapping[str, Any], favourable: Sequence[str]) -> Decision:
    """The decision that a body asks for. Raises NotAuditableError when it is neither form."""
    match request:
        case {"questions": dict(), "state": _}:
            return SystemOne(path, request, favourable)
        case {"questions": list(), "input": _}:
            return OpenAIDecisions(path, request, favourable)
    raise NotAuditableError("unexpected_shape", f"{path}: neither `state` and `questions` by id nor `input` and a list")


def _system_one(asked: Mapping[str, Any], favourable: Sequence[str]) -> Question:
    criteria = asked.get("criteria")
    match asked.get("type"):
        case "noul":
            return Question("boolean", (TRUE, FALSE), 0)
        case "choice" if isinstance(criteria, dict) and 0 < len(criteria) <= MOST_LABELS:
            return Question("choice", tuple(criteria), favourable_of(list(criteria), favourable))
        case "score" if isinstance(criteria, list) and 1 < len(criteria) <= MOST_LABELS:
            return Question("score", tuple(map(str, criteria)))
    raise NotAuditableError("unexpected_shape", "a question of another type than noul, choice and score")


def _open_ai(asked: Mapping[str, Any], favourable: Sequence[str]) -> Question:
    choices, levels = asked.get("choices"), asked.get("levels")
    match asked.get("type"):
        case "predicate":
            return Question("boolean", (TRUE, FALSE), 0)
        case "choice" if isinstance(choices, list) and 0 < len(choices) <= MOST_LABELS:
            labels = [_label(_object(choice).get("value")) for choice in choices]
            return Question("choice", tuple(labels), favourable_of(labels, favourable))
        case "score" if isinstance(levels, list) and 1 < len(levels) <= MOST_LABELS:
            return Question("score", tuple(str(_object(level).get("label")) for level in levels))
    raise NotAuditableError("unexpected_shape", "a question of another type than predicate, choice and score")


def _options_of(asked: Mapping[str, Any]) -> str:
    """The member with the options of a question; of a predicate none, whatever else it has."""
    return {"choice": "choices", "score": "levels"}.get(asked["type"], "")


def _of_system_one(question: Question, answer: Any) -> Read:
    if not isinstance(answer, dict):
        return _NO_ANSWER
    if answer.get("type") == "refusal":
        return _REFUSED
    given = answer.get("probabilities")
    if question.kind == "boolean":
        return _yes(answer.get("noul"))
    if not isinstance(given, dict):
        return Unread("malformed", "no probabilities")
    keys: Sequence[str] = question.labels
    if question.kind == "score" and set(given) != set(keys):
        keys = [str(level) for level in range(len(question.labels))]
    return _answered(given, keys)


def _of_open_ai(question: Question, asked: Mapping[str, Any], answer: Any) -> Read:
    if not isinstance(answer, dict):
        return _NO_ANSWER
    if answer.get("type") == "refusal":
        return _REFUSED
    if answer.get("name") != asked.get("name") or answer.get("type") != asked.get("type"):
        return _NO_ANSWER
    if question.kind == "boolean":
        return _yes(answer.get("probability"))
    listed = answer.get("probabilities")
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        return Unread("malformed", "no probabilities")
    given = {_label(one.get("value")): one.get("probability") for one in listed}
    is_score = question.kind == "score"
    return _answered(given, [str(level) for level in range(len(question.labels))] if is_score else question.labels)


def _answered(given: Mapping[str, Any], keys: Sequence[str]) -> Read:
    if set(given) != set(keys) or len(set(keys)) != len(keys):
        return Unread("malformed", "probabilities of other labels")
    found = probabilities_of([given[key] for key in keys])
    return found if isinstance(found, Unread) else Answered(found)


def _yes(value: Any) -> Read:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return Unread("malformed", "a probability is no number")
    found = probabilities_of([value, 1.0 - value])
    return found if isinstance(found, Unread) else Answered(found)


def _with_mass(read: Read, told: Any, name: str) -> Read:
    about = told.get(name) if isinstance(told, dict) else None
    if isinstance(read, Unread) or not isinstance(about, dict):
        return read
    mass = mass_of(about.get("label_mass"))
    return mass if isinstance(mass, Unread) else read._replace(label_mass=mass)


def _texts_of(given: Any) -> list[str]:
    """The texts of an input. Raises NotAuditableError for media, and for what is neither text nor messages."""
    if isinstance(given, str):
        return [given]
    found = []
    for message in _list(given):
        content = _object(message).get("content")
        for part in [content] if isinstance(content, str) else _list(content or []):
            if not isinstance(part, str):
                if _object(part).get("type") not in ("input_text", "text"):
                    raise NotAuditableError("media", "the input has parts that are no text")
                part = str(part.get("text"))
            found.append(part)
    return found


def _with_texts(given: Any, texts: Sequence[str]) -> Any:
    rest = iter(texts)
    if isinstance(given, str):
        return next(rest)
    messages = []
    for message in given:
        content = message.get("content")
        if isinstance(content, str):
            messages.append(message | {"content": next(rest)})
        else:
            parts = [next(rest) if isinstance(part, str) else part | {"text": next(rest)} for part in content or ()]
            messages.append(message | {"content": parts})
    return messages


def _kept(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in request.items() if name not in NOT_REPEATED | OWN}


def _check_number(asked: Any) -> None:
    if not asked:
        raise NotAuditableError("unexpected_shape", "the request asks no question")
    if len(asked) > MOST_QUESTIONS:
        raise NotAuditableError(
            "too_long", f"{len(asked)} questions, and more than {MOST_QUESTIONS} are not asked again"
        )


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NotAuditableError("unexpected_shape", "a part of the request is no object")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise NotAuditableError("unexpected_shape", "a part of the request is no list")
    return value


def _label(value: Any) -> str:
    """A choice's value, a string or a boolean, as a label."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reply(body: bytes) -> dict[str, Any] | None:
    try:
        answer = read_json(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
