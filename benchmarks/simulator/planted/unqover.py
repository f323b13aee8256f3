"""UnQover: which subject is named, by its group's weight; questions are recognised by form and lists of words."""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.planted.kinds import Outcome, Planted, Seen, percentage, rate_of, total
from benchmarks.simulator.replies import Failures, Replies
from benchmarks.simulator.sections import NonNegative, Probability, unknown
from benchmarks.simulator.text_request import Asked, normalised
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.protocol import Dataset, Item, ProtocolName
from benchmarks.suites.unqover.data import AXES, Population, Subject, group_of, polarities

_QUESTION = re.compile(r"\bQuestion:\s*“(?P<asked>[^”]+?\?)\s+(?P<first>[^”]+?) or (?P<second>[^”]+?)\?”")


class PlantedUnQover(Failures, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section [unqover]: P(a subject is named | one is) is proportional to the weight of its group and to its place."""

    p_first: Probability = 0.5
    """P(the subject offered first | both have the same weight)."""
    weights: dict[str, dict[str, dict[str, NonNegative]]] = msgspec.field(default_factory=dict)
    """axis -> negative, positive (gender: attributed, denied) -> group -> weight; 1 where none is given."""

    def weight(self, axis: str, polarity: str, group: str) -> float:
        return self.weights.get(axis, {}).get(polarity, {}).get(group, 1.0)

    def faults(self) -> Iterator[str]:
        if self.overflow:
            yield self.overflow
        yield from unknown("axis", self.weights, AXES, "weights")
        for axis, by_polarity in self.weights.items():
            yield from unknown("question", by_polarity, polarities(axis, "corrected"), f"weights.{axis}")


class NamedSubject(msgspec.Struct, frozen=True):
    """The group of a subject, by axis: a word may stand in several lists."""

    groups: Mapping[str, str]


class Predicate(msgspec.Struct, frozen=True):
    """Number of a question in its example, first (0) or second (1), by axis."""

    numbers: Mapping[str, int]


def facts(dataset: Dataset) -> Iterator[tuple[str, NamedSubject | Predicate]]:
    groups: dict[str, dict[str, str]] = {}
    numbers: dict[str, dict[str, int]] = {}
    for axis in AXES:
        population = Population(axis, dataset.records[axis])
        for subject in (
            msgspec.convert(record, Subject) for part in dataset.records[axis]["subjects"] for record in part
        ):
            for form in (subject.name, subject.demonym or subject.name):
                groups.setdefault(normalised(form), {})[axis] = group_of(axis, subject)
        for index in range(population.per_pair):
            for number in (0, 1):
                numbers.setdefault(normalised(population.question(population.key(index), number)), {})[axis] = number
    yield from ((text, NamedSubject(group)) for text, group in groups.items())
    yield from ((text, Predicate(number)) for text, number in numbers.items())


def replies(request: Asked, section: PlantedUnQover, key: AnswerKey, seed: int) -> Replies | None:
    """One of the two subjects as the question writes it; None for another prompt or an unknown question or subject."""
    offer = _offer(request.user, key)
    if offer is None:
        return None
    predicate, names = offer
    subjects = [key.find(NamedSubject, normalised(name)) for name in names]
    if subjects[0] is None or subjects[1] is None:
        return None
    first, second = subjects[0].groups, subjects[1].groups
    axis = next((axis for axis in AXES if axis in first and axis in second and axis in predicate.numbers), None)
    if axis is None:
        return None
    polarity = polarities(axis, "corrected")[predicate.numbers[axis]]
    weights = {
        names[0]: section.p_first * section.weight(axis, polarity, first[axis]),
        names[1]: (1 - section.p_first) * section.weight(axis, polarity, second[axis]),
    }
    if not any(weights.values()):
        weights = dict.fromkeys(names, 1.0)
    return section.around(weights, malformed=f"{names[0]} and {names[1]}")


def _offer(text: str, key: AnswerKey) -> tuple[Predicate, tuple[str, str]] | None:
    """The last question of a prompt, and the names as it writes them, in its order; None for an unknown one."""
    for match in list(_QUESTION.finditer(text))[-1:]:
        predicate = key.find(Predicate, normalised(match["asked"]))
        if predicate is not None:
            return predicate, (match["first"], match["second"])
    return None


def expected(seen: Sequence[Seen], protocol: ProtocolName, key: CellKey) -> float | None:
    """A group's shares and their difference, the share of first choices, and the two rates."""
    chosen = [entry for entry in seen if entry.item.axis == key.axis and key.subset in (None, entry.item.subset)]
    whole = total(chosen)
    if key.metric == "refusal_rate":
        return rate_of(chosen, "refusal")
    named = total(chosen, lambda _, outcome: outcome.status == "ok")
    if key.metric == "unrelated_rate":
        return percentage(whole - named, whole)
    if key.metric == "first_choice_share":
        return percentage(total(chosen, lambda _, outcome: outcome.value == 0), named)
    if key.metric == "pn_difference":
        positive, negative = (_share(chosen, key.group, polarity) for polarity in ("positive", "negative"))
        return None if positive is None or negative is None or not named else positive - negative
    return _share(chosen, key.group, key.metric.removesuffix("_share")) if key.metric.endswith("_share") else None


def _share(seen: Sequence[Seen], group: str | None, polarity: str) -> float | None:
    """Return the percentage of replies to questions of the given polarity that name the group."""
    chosen = [entry for entry in seen if entry.item.subset == polarity]

    def is_named(item: Item, outcome: Outcome) -> bool:
        return outcome.status == "ok" and item.groups[outcome.value] == group

    return percentage(total(chosen, is_named), total(chosen))


PLANTED = Planted(PlantedUnQover, facts, replies, expected)
