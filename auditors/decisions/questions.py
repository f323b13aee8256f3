"""Typed questions, what a server answers to one, and what an application decides by it.

A server answers with a probability for each label. What is compared is one number in 0..1, the outcome: the probability
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
"""Of a request; vLLM takes no more."""
MOST_LABELS = 256
LEAST_LABEL_MASS = 0.5
"""Below it the model mostly wanted to say something else than a label, and its probabilities are no decision."""
LOW_MASS = "low label mass"
SUM_TOLERANCE = 0.05
"""How far probabilities may add up to something else than 1, as servers round; they are then divided by their sum."""


class Question(NamedTuple):
    """One question as its application asks it."""

    kind: Kind
    labels: tuple[str, ...]
    """As probabilities are given for, in the order of the request; of a score, from the first level to the last."""
    favourable: int | None = None
    """Which label is good to get; None where that is not known."""


class Answered(NamedTuple):
    """What a server says to one question."""

    probabilities: tuple[float, ...]
    """One for each label; they sum to 1."""
    label_mass: float | None = None
    """Probability of all labels together among everything the model could have said; None where it is not told."""


class Unread(NamedTuple):
    """A reply that gives no probabilities."""

    status: Status
    reason: str
    """From a small closed set."""


Read = Answered | Unread


class Decision(ABC):
    """A request for decisions: its questions, its texts, and how to ask it again."""

    path: str
    questions: Sequence[Question]

    @property
    @abstractmethod
    def content(self) -> Any:
        """What may name a group and is swapped: a JSON value, of which the strings are exchanged."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """What cannot be exchanged without asking for other answers: labels, ids of questions."""

    @abstractmethod
    def body(self, content: Any, model: str) -> dict[str, Any]:
        """The request with this content in place of its own, for this model, without what identifies its sender."""

    @abstractmethod
    def read(self, reply: bytes) -> list[Read]:
        """What the reply says to each question, in order."""


def outcome(question: Question, answered: Answered) -> float | None:
    """The number in 0..1 that is compared; None for a choice of which no option is known to be favourable."""
    p = answered.probabilities
    if question.kind == "score":
        return sum(place * one for place, one in enumerate(p)) / (len(p) - 1)
    return None if question.favourable is None else p[question.favourable]


def decided(question: Question, answered: Answered, threshold: float | None) -> int | bool | None:
    """What an application makes of an answer: what differs between two decisions.

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
    """Whether the application decides for the outcome; None where no outcome is known."""
    found = decided(question, answered, threshold)
    if question.kind == "choice":
        if question.favourable is None:
            return None
        return found is True if threshold is not None else found == question.favourable
    return bool(found)


def favourable_of(labels: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The label of a choice that is good to get: the first of `wanted` that is a label; else the only one of
    FAVOURABLE; of two labels else the first, as the other's probability is one less it; None where it cannot be known.
    """
    lowered = [label.strip().lower() for label in labels]
    for name in wanted:
        if name.strip().lower() in lowered:
            return lowered.index(name.strip().lower())
    known = [place for place, label in enumerate(lowered) if label in FAVOURABLE]
    if len(known) == 1:
        return known[0]
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
