"""Requests answered by probabilities: System One (POST /v1/systemone) and OpenAI's Decisions (POST /v1/decisions)."""

from collections.abc import Mapping, Sequence
from typing import Any

from auditors.text.conversation import NotAuditableError
from auditors.text.lenient_json import read_json
from gateway.features.decisions.questions import (
    FALSE,
    MOST_LABELS,
    MOST_QUESTIONS,
    TRUE,
    Answered,
    Decision,
    Question,
    Reading,
    Unread,
    favourable_of,
    probabilities_of,
    read_label_mass,
)

NOT_REPEATED = frozenset(
    {"user", "safety_identifier", "prompt_cache_key", "metadata", "cache_salt", "request_id", "store"}
)
"""Members that name the sender or one request, and shape no answer."""
OWN = frozenset({"priority", "stream", "stream_options"})
"""Members that a client sets for its own request."""

_NO_ANSWER = Unread("malformed", "no answer to a question")
_REFUSED = Unread("refusal", "the question was declined")


class SystemOne(Decision):
    """A request with `state` and `questions` by id."""

    def __init__(self, path: str, request: Mapping[str, Any], favourable: Sequence[str]) -> None:
        """Raises NotAuditableError for a request of another form, or with media or more questions than are audited."""
        self.path = path
        self._request = request
        questions = request["questions"]
        if any(request.get(member) for member in ("images", "audio", "videos")):
            raise NotAuditableError("media", "the request has media, which are not kept")
        _check_number(questions)
        self._ids = list(questions)
        self._asked = [_object(question) for question in questions.values()]
        self.questions = [_system_one(question, favourable) for question in self._asked]

    @property
    def content(self) -> Any:
        """State, instructions and what the options of a choice mean."""
        criteria = [question.get("criteria") if question.get("type") != "score" else None for question in self._asked]
        instructions = [question.get("instructions") for question in self._asked]
        return [self._request.get("state"), self._request.get("instructions"), instructions, criteria]

    @property
    def names(self) -> Sequence[str]:
        return [*self._ids, *(label for question in self.questions for label in question.labels)]

    def body(self, content: Any, model: str) -> dict[str, Any]:
        state, instructions, of_questions, criteria = content
        questions = {}
        for name, question, instruction, meant in zip(self._ids, self._asked, of_questions, criteria, strict=True):
            changed = {"instructions": instruction} if "instructions" in question else {}
            changed |= {"criteria": meant} if question.get("type") != "score" and meant else {}
            questions[name] = question | changed
        changed = {"instructions": instructions} if instructions is not None else {}
        return _repeated_fields(self._request) | {"model": model, "state": state, "questions": questions} | changed

    def read(self, reply: bytes) -> list[Reading]:
        answer = _reply(reply)
        answers = answer.get("answers")
        if not isinstance(answers, dict):
            return [_NO_ANSWER] * len(self.questions)
        diagnostics, pairs = answer.get("diagnostics"), zip(self._ids, self.questions, strict=True)
        return [_with_mass(_of_system_one(question, answers.get(name)), diagnostics, name) for name, question in pairs]


class OpenAIDecisions(Decision):
    """A request with `input` and a list of `questions`."""

    def __init__(self, path: str, request: Mapping[str, Any], favourable: Sequence[str]) -> None:
        """Raises NotAuditableError for a request of another form, or with media or more questions than are audited."""
        self.path = path
        self._request = request
        questions = request["questions"]
        _check_number(questions)
        self._asked = [_object(question) for question in questions]
        self.questions = [_open_ai(question, favourable) for question in self._asked]
        self._input = _texts_of(request.get("input"))

    @property
    def content(self) -> Any:
        """Input, instructions and what the options of a choice mean."""
        options = [question.get(_options_of(question), ()) for question in self._asked]
        meant = [[option.get("description") for option in own] for own in options]
        return [self._input, [question.get("instructions") for question in self._asked], meant]

    @property
    def names(self) -> Sequence[str]:
        ids = [question["name"] for question in self._asked if isinstance(question.get("name"), str)]
        return [*ids, *(label for question in self.questions for label in question.labels)]

    def body(self, content: Any, model: str) -> dict[str, Any]:
        input_texts, instructions, meant = content
        questions = []
        for question, instruction, descriptions in zip(self._asked, instructions, meant, strict=True):
            changed: dict[str, Any] = {} if instruction is None else {"instructions": instruction}
            if descriptions:
                member = _options_of(question)
                pairs = zip(question[member], descriptions, strict=True)
                changed[member] = [o | ({} if text is None else {"description": text}) for o, text in pairs]
            questions.append(question | changed)
        texts = _with_texts(self._request.get("input"), input_texts)
        return _repeated_fields(self._request) | {"model": model, "input": texts, "questions": questions}

    def read(self, reply: bytes) -> list[Reading]:
        answers = _reply(reply).get("answers")
        if not isinstance(answers, list) or len(answers) != len(self.questions):
            return [_NO_ANSWER] * len(self.questions)
        return list(map(_of_open_ai, self.questions, self._asked, answers))


def typed_decision(path: str, request: Mapping[str, Any], favourable: Sequence[str]) -> Decision:
    """The decision that a body asks for. Raises NotAuditableError when it is neither form."""
    match request:
        case {"questions": dict(), "state": _}:
            return SystemOne(path, request, favourable)
        case {"questions": list(), "input": _}:
            return OpenAIDecisions(path, request, favourable)
    raise NotAuditableError("unexpected_shape", f"{path}: neither `state` and `questions` by id nor `input` and a list")


def _system_one(definition: Mapping[str, Any], favourable: Sequence[str]) -> Question:
    criteria = definition.get("criteria")
    match definition.get("type"):
        case "noul":
            return Question("boolean", (TRUE, FALSE), 0)
        case "choice" if isinstance(criteria, dict) and 0 < len(criteria) <= MOST_LABELS:
            return Question("choice", tuple(criteria), favourable_of(list(criteria), favourable))
        case "score" if isinstance(criteria, list) and 1 < len(criteria) <= MOST_LABELS:
            return Question("score", tuple(map(str, criteria)))
    raise NotAuditableError("unexpected_shape", "a question of another type than noul, choice and score")


def _open_ai(definition: Mapping[str, Any], favourable: Sequence[str]) -> Question:
    choices, levels = definition.get("choices"), definition.get("levels")
    match definition.get("type"):
        case "predicate":
            return Question("boolean", (TRUE, FALSE), 0)
        case "choice" if isinstance(choices, list) and 0 < len(choices) <= MOST_LABELS:
            labels = [_label(_object(choice).get("value")) for choice in choices]
            return Question("choice", tuple(labels), favourable_of(labels, favourable))
        case "score" if isinstance(levels, list) and 1 < len(levels) <= MOST_LABELS:
            return Question("score", tuple(str(_object(level).get("label")) for level in levels))
    raise NotAuditableError("unexpected_shape", "a question of another type than predicate, choice and score")


def _options_of(definition: Mapping[str, Any]) -> str:
    """The member with the options of a question; of a predicate none, whatever else it has."""
    return {"choice": "choices", "score": "levels"}.get(definition["type"], "")


def _of_system_one(question: Question, answer: Any) -> Reading:
    if not isinstance(answer, dict):
        return _NO_ANSWER
    if answer.get("type") == "refusal":
        return _REFUSED
    by_label = answer.get("probabilities")
    if question.kind == "boolean":
        return _yes(answer.get("noul"))
    if not isinstance(by_label, dict):
        return Unread("malformed", "no probabilities")
    keys: Sequence[str] = question.labels
    if question.kind == "score" and set(by_label) != set(keys):
        keys = [str(level) for level in range(len(question.labels))]
    return _answered(by_label, keys)


def _of_open_ai(question: Question, definition: Mapping[str, Any], answer: Any) -> Reading:
    if not isinstance(answer, dict):
        return _NO_ANSWER
    if answer.get("type") == "refusal":
        return _REFUSED
    if answer.get("name") != definition.get("name") or answer.get("type") != definition.get("type"):
        return _NO_ANSWER
    if question.kind == "boolean":
        return _yes(answer.get("probability"))
    listed = answer.get("probabilities")
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        return Unread("malformed", "no probabilities")
    by_label = {_label(entry.get("value")): entry.get("probability") for entry in listed}
    is_score = question.kind == "score"
    return _answered(by_label, [str(level) for level in range(len(question.labels))] if is_score else question.labels)


def _answered(by_label: Mapping[str, Any], keys: Sequence[str]) -> Reading:
    if set(by_label) != set(keys) or len(set(keys)) != len(keys):
        return Unread("malformed", "probabilities of other labels")
    probabilities = probabilities_of([by_label[key] for key in keys])
    return probabilities if isinstance(probabilities, Unread) else Answered(probabilities)


def _yes(value: Any) -> Reading:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return Unread("malformed", "a probability is not a number")
    probabilities = probabilities_of([value, 1.0 - value])
    return probabilities if isinstance(probabilities, Unread) else Answered(probabilities)


def _with_mass(read: Reading, diagnostics: Any, name: str) -> Reading:
    about = diagnostics.get(name) if isinstance(diagnostics, dict) else None
    if isinstance(read, Unread) or not isinstance(about, dict):
        return read
    mass = read_label_mass(about.get("label_mass"))
    return mass if isinstance(mass, Unread) else read._replace(label_mass=mass)


def _texts_of(request_input: Any) -> list[str]:
    """The texts of an input. Raises NotAuditableError for media, and for what is neither text nor messages."""
    if isinstance(request_input, str):
        return [request_input]
    texts = []
    for message in _list(request_input):
        content = _object(message).get("content")
        for part in [content] if isinstance(content, str) else _list(content or []):
            if not isinstance(part, str):
                if _object(part).get("type") not in ("input_text", "text"):
                    raise NotAuditableError("media", "the input has parts other than text")
                part = str(part.get("text"))
            texts.append(part)
    return texts


def _with_texts(request_input: Any, texts: Sequence[str]) -> Any:
    rest = iter(texts)
    if isinstance(request_input, str):
        return next(rest)
    messages = []
    for message in request_input:
        content = message.get("content")
        if isinstance(content, str):
            messages.append(message | {"content": next(rest)})
        else:
            parts = [next(rest) if isinstance(part, str) else part | {"text": next(rest)} for part in content or ()]
            messages.append(message | {"content": parts})
    return messages


def _repeated_fields(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name not in NOT_REPEATED | OWN}


def _check_number(questions: Any) -> None:
    if not questions:
        raise NotAuditableError("unexpected_shape", "the request asks no question")
    if len(questions) > MOST_QUESTIONS:
        reason = f"{len(questions)} questions, and more than {MOST_QUESTIONS} are not asked again"
        raise NotAuditableError("too_long", reason)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NotAuditableError("unexpected_shape", "a part of the request is not an object")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise NotAuditableError("unexpected_shape", "a part of the request is not a list")
    return value


def _label(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reply(body: bytes) -> dict[str, Any]:
    try:
        answer = read_json(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
