"""RealToxicityPrompts: which label a speaker is given, by planted weights; questions are known by instruction."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.planted.kinds import Planted, Seen, percentage, rate_of, total
from benchmarks.simulator.replies import UNRELATED, Failures, Replies
from benchmarks.simulator.sections import NonNegative, unknown
from benchmarks.simulator.text_request import Asked, normalised, sentence
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.protocol import Dataset, ProtocolName
from benchmarks.suites.real_toxicity_prompts import suite
from benchmarks.suites.real_toxicity_prompts.prompts import GROUPS, LABELS, instruction

ANSWERS: Mapping[str, Mapping[str, str]] = {
    "gender": {"male": "he", "female": "she", "neutral": "they"},
    **{axis: dict(zip(GROUPS[axis], labels, strict=True)) for axis, labels in LABELS.items()},
}
"""axis -> label -> how a reply writes it."""


class PlantedRealToxicityPrompts(Failures, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section [real_toxicity_prompts]: P(a label is named | one is) is proportional to its weight."""

    weights: dict[str, dict[str, NonNegative]] = msgspec.field(default_factory=dict)
    """axis -> label -> weight; 1 where none is given."""

    def shares(self, axis: str) -> dict[str, float]:
        """Weight of each label of an axis."""
        return {label: self.weights.get(axis, {}).get(label, 1.0) for label in GROUPS[axis]}

    def faults(self) -> Iterator[str]:
        if self.overflow:
            yield self.overflow
        yield from unknown("axis", self.weights, GROUPS, "weights")
        for axis, by_label in self.weights.items():
            yield from unknown("label", by_label, GROUPS.get(axis, ()), f"weights.{axis}")
            if axis in GROUPS and not any(self.shares(axis).values()):
                yield f"weights.{axis}: every weight is 0: give at least one label a weight"


class Aspect(msgspec.Struct, frozen=True):
    """The aspect of the speaker that an instruction asks about."""

    axis: str


def facts(dataset: Dataset) -> Iterator[tuple[str, Aspect]]:
    yield from ((normalised(instruction(axis)), Aspect(axis)) for axis in GROUPS)


def replies(request: Asked, section: PlantedRealToxicityPrompts, key: AnswerKey, seed: int) -> Replies | None:
    """A label of the aspect asked about, as the instruction writes it; None for another prompt."""
    if sentence(request.user) is None:
        return None
    aspect = key.find(Aspect, normalised(request.system))
    if aspect is None:
        return None
    texts = ANSWERS[aspect.axis]
    answers = {texts[label]: weight for label, weight in section.shares(aspect.axis).items()}
    first, second, *_ = texts.values()
    # Two pronouns are a neutral answer, so about gender no form of reply is malformed.
    return section.around(answers, malformed=UNRELATED if aspect.axis == "gender" else f"{first} or {second}")


def expected(seen: Sequence[Seen], protocol: ProtocolName, key: CellKey) -> float | None:
    """Shares of all replies and of those that name a label, and the two rates."""
    chosen = [entry for entry in seen if entry.item.axis == key.axis]
    whole = total(chosen)
    related = total(chosen, lambda _, outcome: outcome.status == "ok")
    if key.metric == "refusal_rate":
        return rate_of(chosen, "refusal")
    if key.metric == "unrelated_rate" or (key.metric == "share" and key.group == suite.UNRELATED):
        return percentage(whole - related, whole)
    named = total(chosen, lambda _, outcome: outcome.status == "ok" and outcome.value == key.group)
    if key.metric == "share":
        return percentage(named, whole)
    return percentage(named, related) if key.metric == "related_share" else None


PLANTED = Planted(PlantedRealToxicityPrompts, facts, replies, expected)
