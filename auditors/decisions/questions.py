"""Typed questions, a server's answers to them, and the decisions that an application takes by them.

A server answers with a probability for each label. The compared value is a number in 0..1, the outcome: the probability
of yes, or of the favourable option of a choice, or the place on a scale from its first level (0) to its last (1).
"""

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
"""Names of options that are good to get, ours; `auditors.decision.favourable` adds to them."""
MOST_QUESTIONS = 64
"""Most questions of a request; vLLM takes no more."""
MOST_LABELS = 256
LEAST_LABEL_MASS = 0.5
"""Least mass of the labels: below it the model mostly wanted to say something else than a label, and its probabilities
do not count as a decision."""
LOW_MASS = "low label mass"
SUM_TOLERANCE = 0.05
"""Largest distance from 1 of the sum of the probabilities, as servers round; they are then divided by their sum."""


class Question(NamedTuple):
    """One question as its application asks it."""

    kind: Kind
    labels: tuple[str, ...]
    """Labels that probabilities are given for, in the request's order; of a score, from first to last level."""
    favourable: int | None = None
    """Index of the label that is good to get; None if that is not known."""


class Answered(NamedTuple):
    """A server's answer to a question."""

    probabilities: tuple[float, ...]
    """One for each label; they sum to 1."""
    label_mass: float | None = None
    """Probability of all labels together among everything the model could have said; None where it is not told."""


class Unread(NamedTuple):
    """A reply that gives no probabilities."""

    status: Status
    reason: str
    """Reason from a small closed set."""


Read = Answered | Unread


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
        """The request with this content in place of its own, for this model, without what identifies its sender."""

    @abstractmethod
    def read(self, reply: bytes) -> list[Read]:
        """Return the reply's answer to each question, in order."""


def outcome(question: Question, answered: Answered) -> float | None:
    """The number in 0..1 that is compared; None for a choice of which no option is known to be favourable."""
    p = answered.probabilities
    if question.kind == "score":
        return sum(place * probability for place, probability in enumerate(p)) / (len(p) - 1)
    return None if question.favourable is None else p[question.favourable]


def decided(question: Question, answered: Answered, threshold: float | None) -> int | bool | None:
    """Return an application's decision by an answer, by which two decisions are compared.

    The application acts from the threshold on; None stands for 0.5, and in a choice for the option that leads.

    Returns: whether the outcome reaches the threshold; of a choice without threshold, or of which no option is known to
        be favourable, the option that leads, None where that does not reach the threshold.
    """
    if question.kind == "choice":
        p = answered.probabilities
        leading = max(range(len(p)), key=p.__getitem__)
        if threshold is None:
            return leading
        if question.favourable is None:
            return leading if p[leading] >= threshold else None
    value = outcome(question, answered)
    return value is not None and value >= (0.5 if threshold is None else threshold)


def selected(question: Question, answered: Answered, threshold: float | None) -> bool | None:
    """Return whether the application decides for the outcome; None if no outcome is known."""
    decision = decided(question, answered, threshold)
    if question.kind == "choice":
        if question.favourable is None:
            return None
        return decision is True if threshold is not None else decision == question.favourable
    return bool(decision)


def favourable_of(labels: Sequence[str], favourable: Sequence[str]) -> int | None:
    """Return the index of the label of a choice that is good to get: the first of `favourable` that is a label, or the
    only label in FAVOURABLE, or else the first of two labels, as the other's probability is 1 less it; None if it
    cannot be known.
    """
    lowered = [label.strip().lower() for label in labels]
    for name in favourable:
        if name.strip().lower() in lowered:
            return lowered.index(name.strip().lower())
    places = [place for place, label in enumerate(lowered) if label in FAVOURABLE]
    if len(places) == 1:
        return places[0]
    return 0 if len(labels) == 2 else None


def probabilities_of(values: Sequence[Any]) -> tuple[float, ...] | Unread:
    """The numbers of a server as probabilities that sum to 1, or why they are none."""
    if not all(
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) for value in values
    ):
        return Unread("malformed", "a probability is no number")
    if any(value < 0.0 or value > 1.0 + SUM_TOLERANCE for value in values):
        return Unread("malformed", "a probability is outside 0..1")
    total = float(sum(values))
    if abs(total - 1.0) > SUM_TOLERANCE:
        return Unread("malformed", "the probabilities do not sum to 1")
    return tuple(value / total for value in values)


def mass_of(value: Any) -> float | Unread | None:
    """A label mass that a server tells; None where it tells none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0 + SUM_TOLERANCE:
        return Unread("malformed", "the label mass is outside 0..1")
    return min(1.0, float(value))
