"""A yes, no or choice that an application asks for by chat completions with log-probabilities. The request names the
labels: an enum of `response_format`, a choice of `structured_outputs`, "yes or no", or options A, B, C on lines. Their
probabilities are read at the first token in which answers differ.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.lenient_json import read_json
from gateway.features.decisions import questions
from gateway.features.decisions.questions import Answered, Decision, Question, Reading, Unread
from gateway.features.decisions.typed import NOT_REPEATED, OWN

TOP_LOGPROBS = 20
"""Alternatives asked for: as many as OpenAI and, unless told otherwise, vLLM give."""
LONGEST_ANSWER_CHARS = 64
"""Most characters of a live answer that counts as a label, if only words say which answers there are."""
MOST_STRUCTURED_TOKENS = 64
"""Most tokens of an answer whose label stands inside JSON."""
LARGEST_UNSEEN = 0.01
"""Most of the labels' probability that a token may have which is not reported, or which begins several labels."""
LONGEST_INSTRUCTION = 20_000
"""Labels are searched in this many last characters of a message."""

_NOT_ASKED_AGAIN = NOT_REPEATED | OWN
_NOT_ASKED_AGAIN |= {"n", "seed", "logprobs", "top_logprobs", "max_tokens", "max_completion_tokens"}
_YES_OR_NO = re.compile(r"\byes\s{0,3}(?:/|\||or)\s{0,3}no\b|\bno\s{0,3}(?:/|\||or)\s{0,3}yes\b", re.IGNORECASE)
_OPTION = re.compile(r"^[ \t]{0,4}\(?([A-Z])[).:][ \t]{1,4}(\S[^\n]{0,200})", re.MULTILINE)
_AROUND = " \t\r\n\u2581\u0120\"'`*([{.,:;)]}"
"""Characters that a tokenizer may put before or after a word."""


class _Labels(NamedTuple):
    """The labels that the request lets the model answer."""

    labels: tuple[str, ...]
    names: tuple[str, ...]
    """Meanings of the labels: the labels themselves, or the text of the options."""
    kind: str
    """words, choice, enum or member."""
    member: str = ""


class ChatDecision(Decision):
    """A chat completion whose answer is one of a few labels."""

    path = "/v1/chat/completions"

    def __init__(
        self,
        request: Mapping[str, Any],
        conversation: Conversation,
        favourable: Sequence[str],
        instruction: str | None = None,
    ) -> None:
        """`instruction`: see `auditors.types.Exchange`. Raises NotAuditableError for tools, and without labels."""
        if request.get("tools") and request.get("tool_choice") != "none":
            raise NotAuditableError("tool_calls", "the request has tools")
        if any(message.get("tool_calls") or message.get("function_call") for message in request["messages"]):
            raise NotAuditableError("tool_calls", "the conversation holds calls of tools, which would not be exchanged")
        labels = _structured(request) or _in_words(conversation, request)
        if labels is None:
            raise NotAuditableError("no_labels", "the request does not say which answers there are")
        self._request = request
        self._found = labels
        self._instruction = instruction
        self.questions = [Question("choice", labels.labels, questions.favourable_of(labels.names, favourable))]

    @property
    def content(self) -> Any:
        return [message.get("content") for message in self._request["messages"]]

    @property
    def names(self) -> Sequence[str]:
        return self._found.labels

    def body(self, content: Any, model: str) -> dict[str, Any]:
        is_inside = self._found.kind in ("enum", "member")
        pairs = zip(self._request["messages"], content, strict=True)
        messages = [message | {"content": new_content} for message, new_content in pairs]
        if self._instruction is not None:
            messages = _add_instruction(messages, self._instruction)
        fields = {name: value for name, value in self._request.items() if name not in _NOT_ASKED_AGAIN}
        limit = "max_completion_tokens" if "max_completion_tokens" in self._request else "max_tokens"
        return fields | {
            "model": model,
            "messages": messages,
            "logprobs": True,
            "top_logprobs": TOP_LOGPROBS,
            limit: MOST_STRUCTURED_TOKENS if is_inside else 1,
        }

    def read(self, reply: bytes) -> list[Reading]:
        try:
            return [self._read(read_json(reply))]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return [Unread("malformed", "no log-probabilities")]

    def _read(self, reply: Any) -> Reading:
        [choice, *_] = reply["choices"]
        if choice["message"].get("refusal"):
            return Unread("refusal", "the question was declined")
        tokens = choice["logprobs"]["content"]
        place = self._place([token["token"] for token in tokens])
        if place is None:
            return Unread("unrelated", "no label in the answer")
        number, prefix = place
        alternatives = _alternatives(tokens[number])
        masses, shared = [0.0] * len(self._found.labels), 0.0
        for token, probability in alternatives.items():
            rest = token.removeprefix(prefix) if token.startswith(prefix) else ""
            places = _matching_labels(rest, self._found.labels)
            if len(places) == 1:
                masses[places[0]] += probability
            elif places:
                shared += probability
        total = sum(masses)
        if shared > LARGEST_UNSEEN * (total + shared):
            return Unread("unrelated", "labels begin alike")
        if total <= 0.0:
            return Answered(tuple(1.0 / len(self._found.labels) for _ in self._found.labels), 0.0)
        unseen = min(min(alternatives.values()), max(0.0, 1.0 - sum(alternatives.values())))
        if 0.0 in masses and unseen > LARGEST_UNSEEN * total:
            return Unread("unrelated", "a label is not among the alternatives")
        return Answered(tuple(mass / total for mass in masses), min(1.0, total))

    def _place(self, tokens: Sequence[str]) -> tuple[int, str] | None:
        """The token in which labels differ, and what stands in it before the label."""
        if not tokens:
            return None
        match self._found.kind:
            case "enum":
                opening = re.compile(r'\s*"')
            case "member":
                opening = re.compile(rf'\s*\{{\s*"{re.escape(self._found.member)}"\s*:\s*"')
            case _:
                return 0, ""
        opening_match = opening.match("".join(tokens))
        if opening_match is None:
            return None
        start = 0
        for number, token in enumerate(tokens):
            if start + len(token) > opening_match.end():
                return number, token[: opening_match.end() - start]
            start += len(token)
        return None


def _add_instruction(messages: list[dict[str, Any]], instruction: str) -> list[dict[str, Any]]:
    """The messages with the instruction on a line before the last user message's text, or its first part of text."""
    for place in reversed(range(len(messages))):
        content = messages[place].get("content")
        if messages[place].get("role") != "user" or not content:
            continue
        if isinstance(content, str):
            changed = messages[place] | {"content": f"{instruction}\n{content}"}
            return [*messages[:place], changed, *messages[place + 1 :]]
        for at, part in enumerate(content):
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                parts = [*content[:at], part | {"text": f"{instruction}\n{part['text']}"}, *content[at + 1 :]]
                return [*messages[:place], messages[place] | {"content": parts}, *messages[place + 1 :]]
    return messages


def _structured(request: Mapping[str, Any]) -> _Labels | None:
    """Labels that the server holds the model to."""
    outputs = request.get("structured_outputs")
    choice = outputs.get("choice") if isinstance(outputs, dict) else request.get("guided_choice")
    if labels := _distinct_labels(choice):
        return _Labels(labels, labels, "choice")
    match request.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": {"enum": enum}}} if labels := _distinct_labels(enum):
            return _Labels(labels, labels, "enum")
        case {"type": "json_schema", "json_schema": {"schema": {"properties": dict(members)}}} if len(members) == 1:
            [(member, schema)] = members.items()
            if isinstance(schema, dict) and (labels := _distinct_labels(schema.get("enum"))):
                return _Labels(labels, labels, "member", member)
    return None


def _in_words(conversation: Conversation, request: Mapping[str, Any]) -> _Labels | None:
    """Labels that the words of the request name, where the answer is short."""
    if len(conversation.reply_text.strip()) > LONGEST_ANSWER_CHARS or request.get("response_format"):
        return None
    system = [message.content for message in conversation.messages if message.role in ("system", "developer")]
    users = [message.content for message in conversation.messages if message.role == "user"]
    passages = [text[-LONGEST_INSTRUCTION:] for text in (*system, *users[-1:])]
    is_yes_or_no = any(_YES_OR_NO.search(text) for text in passages)
    options = [(letter, text.strip()) for passage in passages for letter, text in _OPTION.findall(passage)]
    letters = tuple(letter for letter, _ in options)
    is_lettered = len(letters) > 1 and letters == tuple(map(chr, range(ord("A"), ord("A") + len(letters))))
    if is_yes_or_no == is_lettered:  # neither, or both: which of them is asked for cannot be told
        return None
    if is_yes_or_no:
        return _Labels(("Yes", "No"), ("yes", "no"), "words")
    return _Labels(letters, tuple(text for _, text in options), "words")


def _distinct_labels(value: Any) -> tuple[str, ...]:
    """Return 2 to MOST_LABELS labels that differ without case and surrounding blanks; otherwise an empty tuple."""
    if not isinstance(value, list) or not 2 <= len(value) <= questions.MOST_LABELS:
        return ()
    if not all(isinstance(label, str) and label.strip() for label in value):
        return ()
    return tuple(value) if len({label.strip().lower() for label in value}) == len(value) else ()


def _alternatives(token: Mapping[str, Any]) -> dict[str, float]:
    """Each alternative's probability; minus infinity and None are 0. Raises TypeError or ValueError for no number."""
    probabilities: dict[str, float] = {}
    for alternative in (*token["top_logprobs"], token):
        logprob = -math.inf if alternative["logprob"] is None else alternative["logprob"]
        if isinstance(logprob, bool) or math.isnan(logprob) or logprob > 0.01:
            raise ValueError(f"{logprob} is not a log-probability")
        probabilities[alternative["token"]] = min(1.0, math.exp(logprob))
    return probabilities


def _matching_labels(token: str, labels: Sequence[str]) -> list[int]:
    """Labels that a token begins or is; the token's own case and what a tokenizer adds do not matter."""
    bare = token.strip(_AROUND).lower()
    if not bare:
        return []
    whole = [place for place, label in enumerate(labels) if label.strip().lower() == bare]
    return whole or [place for place, label in enumerate(labels) if label.strip().lower().startswith(bare)]
