"""Equity Evaluation Corpus: a planted intensity per emotion, moved by a planted shift per group."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated

import msgspec
from msgspec import Meta

from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.planted.kinds import Planted, Seen, rate_of, total
from benchmarks.simulator.replies import Failures, Replies
from benchmarks.simulator.sections import NonNegative, unknown
from benchmarks.simulator.text_request import Asked, normalised, offered, sentence
from benchmarks.suites.common.counting import UNREAD
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.eec.intensity import HIGHEST, LOWEST
from benchmarks.suites.eec.suite import COMPARED, EMOTIONS, NEUTRAL, EquityEvaluationCorpus
from benchmarks.suites.protocol import Dataset, ProtocolName

Intensity = Annotated[float, Meta(ge=LOWEST, le=HIGHEST)]
MALFORMED = "-5"
"""A number outside the scale."""


class PlantedEEC(Failures, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section [eec]: an answer is its sentence's mean, or `spread` below or above it (a quarter of answers each)."""

    default: Intensity = 50.0
    """Mean intensity of every emotion without one of its own."""
    emotions: dict[str, Intensity] = msgspec.field(default_factory=dict)
    """anger, fear, joy, sad, neutral."""
    spread: NonNegative = 10.0
    """Points; the standard deviation of the answers to a sentence is spread / sqrt(2)."""
    shifts: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    """gender, race -> group -> points added to every sentence about a person of the group."""

    def mean(self, emotion: str, groups: Sequence[str]) -> float:
        shift = sum(by_group.get(group, 0.0) for by_group in self.shifts.values() for group in groups)
        return self.emotions.get(emotion, self.default) + shift

    def faults(self) -> Iterator[str]:
        if self.overflow:
            yield self.overflow
        yield from unknown("emotion", self.emotions, EMOTIONS.values(), "emotions")
        yield from unknown("axis", self.shifts, COMPARED, "shifts")
        for axis, by_group in self.shifts.items():
            yield from unknown("group", by_group, COMPARED.get(axis, ()), f"shifts.{axis}")
        for emotion, gender, race in product(EMOTIONS.values(), COMPARED["gender"], COMPARED["race"]):
            mean = self.mean(emotion, (gender, race))
            if mean - self.spread < LOWEST or mean + self.spread > HIGHEST:
                where = f"{emotion}, {gender}, {race}"
                yield f"{where}: {mean:g} +- spread {self.spread:g} leaves {LOWEST:g} to {HIGHEST:g}"
                return


class Described(msgspec.Struct, frozen=True):
    """A sentence's emotion and the groups of its person."""

    emotion: str
    groups: tuple[str, ...]


def facts(dataset: Dataset) -> Iterator[tuple[str, Described]]:
    shared: dict[Described, Described] = {}
    for item in EquityEvaluationCorpus().items(dataset, protocol="paper", seed=0):
        fact = Described(item.subset or NEUTRAL, item.groups)
        yield _signature(item.messages[-1].content), shared.setdefault(fact, fact)


def replies(request: Asked, section: PlantedEEC, key: AnswerKey, seed: int) -> Replies | None:
    """Three intensities around the sentence's mean; None for another prompt or an unknown sentence."""
    if sentence(request.user) is None or offered(request.user):
        return None
    fact = key.find(Described, _signature(request.user))
    if fact is None:
        return None
    mean, spread = section.mean(fact.emotion, fact.groups), section.spread
    answers: dict[str, float] = defaultdict(float)
    for value, p in ((mean - spread, 0.25), (mean, 0.5), (mean + spread, 0.25)):
        answers[f"{value:g}"] += p
    return section.around(answers, malformed=MALFORMED)


def expected(seen: Sequence[Seen], protocol: ProtocolName, key: CellKey) -> float | None:
    """Means of word means, their differences, and the two rates."""
    if key.metric in ("unrelated_rate", "refusal_rate"):
        counted = ("refusal",) if key.metric == "refusal_rate" else UNREAD
        compared = {group for group in COMPARED.get(key.axis or "", ()) if key.group in (None, group)}
        chosen = [entry for entry in seen if entry.item.subset != NEUTRAL and compared & set(entry.item.groups)]
        return rate_of(chosen, *counted)
    emotion, _, word = (key.subset or "").partition("/")
    means = {
        group: _word_means([each for each in seen if each.item.subset == emotion], group)
        for group in (key.group, key.reference)
        if group is not None
    }
    own = means.get(key.group or "", {})
    if key.metric == "mean_intensity":
        values = [mean for name, mean in own.items() if word in ("", name)]
    elif key.metric == "intensity_difference":
        other = means.get(key.reference or "", {})
        values = [mean - other[name] for name, mean in own.items() if name in other]
    else:
        return None
    return sum(values) / len(values) if values else None


def _word_means(seen: Sequence[Seen], group: str) -> Mapping[str, float]:
    """Expected mean intensity of each word over the sentences about the group; words without an answer are left out."""
    by_word: dict[str, list[Seen]] = defaultdict(list)
    for entry in seen:
        if group in entry.item.groups:
            by_word[entry.item.meta["word"]].append(entry)
    means = {}
    for word, chosen in by_word.items():
        n_scored = total(chosen, lambda _, outcome: outcome.status == "ok")
        if n_scored > 0:
            scored = total(chosen, lambda _, outcome: outcome.status == "ok", lambda _, outcome: float(outcome.value))
            means[word] = scored / n_scored
    return means


def _signature(text: str) -> str:
    return normalised(sentence(text) or "")


PLANTED = Planted(PlantedEEC, facts, replies, expected)
