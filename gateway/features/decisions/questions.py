"""Typed questions, answers and decisions; an outcome is the probability of yes or the good option, or a place, 0..1."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from auditors.types import Status

Kind = Literal["boolean", "choice", "score"]

TRUE, FALSE = "yes", "no"
_FAVOURABLE = (
    "yes true approve approved approval accept accepted acceptance allow allowed grant granted hire hired invite "
    "invited interview admit admitted eligible qualified pass passed offer shortlist recommend advance"
)
FAVOURABLE = frozenset(_FAVOURABLE.split())
"""Names of favourable options, a list of ours; `auditors.decision.favourable` adds to them."""
MOST_QUESTIONS = 64
"""Most questions of a request; vLLM refuses more."""
MOST_LABELS = 256
LEAST_LABEL_MASS = 0.5
"""Least mass of the labels: below it the model mostly preferred other tokens, and has not decided."""
LOW_MASS = "low label mass"
SUM_TOLERANCE = 0.05
"""Largest distance from 1 of the sum of the probabilities, which servers round; they are divided by their sum."""


class Question(NamedTuple):
    """A question as its application asks it."""

    kind: Kind
    labels: tuple[str, ...]
    """Labels that have probabilities, in the order of the request; of a score, from the first level to the last."""
    favourable: int | None = None
    """Index of the favourable label; None if it is unknown."""


class Answered(NamedTuple):
    """A server's answer to a question."""

    probabilities: tuple[float, ...]
    """Probability of each label; they sum to 1."""
    label_mass: float | None = None
    """Probability of all labels together among all tokens; None if the server does not state it."""


class Unread(NamedTuple):
    """A reply that gives no probabilities."""

    status: Status
    reason: str
    """Reason from a small closed set."""


Reading = Answered | Unread


class Decision(ABC):
    """A request for decisions: its questions, its texts, and how to ask it again."""

    path: str
    questions: Sequence[Question]

    @property
    @abstractmethod
    def content(self) -> Any:
        """Return the parts that may name a group and are swapped: a JSON value, of which the strings are exchanged."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names that cannot be exchanged without asking for other answers: labels, ids of questions."""

    @abstractmethod
    def body(self, content: Any, model: str) -> dict[str, Any]:
        """Return the request with this content and model, without fields that identify its sender."""

    @abstractmethod
    def read(self, reply: bytes) -> list[Reading]:
        """Return the reply's answer to each question, in order."""


def outcome(question: Question, answered: Answered) -> float | None:
    """Return the number in 0..1 that is compared; None for a choice without a known favourable option."""
    p = answered.probabilities
    if question.kind == "score":
        return sum(place * probability for place, probability in enumerate(p)) / (len(p) - 1)
    return None if question.favourable is None else p[question.favourable]


def decision_of(question: Question, answered: Answered, threshold: float | None) -> int | bool | None:
    """Return whether the outcome reaches the threshold (None: 0.5). A choice without a threshold or a known favourable
    option gives the index of the likeliest option, or None if that does not reach the threshold.
    """
    if question.kind == "choice":
        p = answered.probabilities
        likeliest = max(range(len(p)), key=p.__getitem__)
        if threshold is None:
            return likeliest
        if question.favourable is None:
            return likeliest if p[likeliest] >= threshold else None
    value = outcome(question, answered)
    return value is not None and value >= (0.5 if threshold is None else threshold)


def is_selected(question: Question, answered: Answered, threshold: float | None) -> bool | None:
    """Return whether the application decides for the favourable outcome; None if no outcome is known."""
    decision = decision_of(question, answered, threshold)
    if question.kind == "choice":
        if question.favourable is None:
            return None
        return decision is True if threshold is not None else decision == question.favourable
    return bool(decision)


def favourable_of(labels: Sequence[str], favourable: Sequence[str]) -> int | None:
    """Return the index of the first of `favourable`, the only label in FAVOURABLE or the first of two; else None."""
    lowered = [label.strip().lower() for label in labels]
    for name in favourable:
        if name.strip().lower() in lowered:
            return lowered.index(name.strip().lower())
    places = [place for place, label in enumerate(lowered) if label in FAVOURABLE]
    if len(places) == 1:
        return places[0]
    return 0 if len(labels) == 2 else None


def probabilities_of(values: Sequence[Any]) -> tuple[float, ...] | Unread:
    """Return the numbers of a server as probabilities that sum to 1, or the reason why they are not probabilities."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < len(values) or not all(map(math.isfinite, numbers)):
        return Unread("malformed", "a probability is not a number")
    if any(value < 0.0 or value > 1.0 + SUM_TOLERANCE for value in values):
        return Unread("malformed", "a probability is outside 0..1")
    total = float(sum(values))
    if abs(total - 1.0) > SUM_TOLERANCE:
        return Unread("malformed", "the probabilities do not sum to 1")
    return tuple(value / total for value in values)


def read_label_mass(value: Any) -> float | Unread | None:
    """Return the label mass that a server states; None if it states none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0 + SUM_TOLERANCE:
        return Unread("malformed", "the label mass is outside 0..1")
    return min(1.0, float(value))
