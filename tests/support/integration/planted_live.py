"""What the live streams of a simulated model must show: exact expectations, by enumerating the replies it may give."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from statistics import pstdev

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.dispersion import signed_difference
from auditors.text.identity import IDENTITIES, groups_mentioned, with_identity
from auditors.text.refusal_words import declines
from auditors.text.swaps.masking import masked
from benchmarks.simulator import stance
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.answers import Answers
from benchmarks.simulator.loading import known_items
from benchmarks.simulator.planted.cogs import PlantedCoGS
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.prose import embed
from tests.support.simulator.asking import asking

Distribution = Mapping[str, float]


class Planted:
    """The class gives expectations of a simulated model under traffic that asks each prompt equally often."""

    def __init__(self, profile: Profile, prompts: Sequence[str], *, seed: int = 0) -> None:
        self._profile = profile
        self._prompts = prompts
        self._answers = Answers(profile, seed, AnswerKey(known_items(None)))
        self._known: dict[str, Distribution] = {}

    def favoritism(self, axis: str, group: str) -> float:
        """Mean judge score over the exchanges that concern the group, refused ones left out."""
        total = weight = 0.0
        for prompt in self._prompts:
            for text, p in self._replies(prompt).items():
                if (axis, group) in groups_mentioned(f"{prompt}\n{text}") and not declines(text):
                    weight += p
                    total += p * self._score(prompt, text, axis, group)
        return total / weight

    def distance(self, group: str) -> float:
        """Mean distance of the answer under this identity from the answer as asked."""
        return sum(
            p * q * _apart(text, other)
            for prompt in self._prompts
            for text, p in self._replies(prompt).items()
            for other, q in self._replies(_under(group, prompt)).items()
        ) / len(self._prompts)

    def representative_score(self, axis: str) -> float:
        """Mean of the population SD of one exchange's distances."""
        return sum(self._spread(prompt, axis) for prompt in self._prompts) / len(self._prompts)

    def length_difference(self, asked: str, swapped: str, axis: str) -> float:
        """Mean of (words as asked - words when swapped) / all words, of two answers a side, none of them refused."""
        sides = [self._words_of_two(prompt, axis) for prompt in (asked, swapped)]
        pairs = product(*(side.items() for side in sides))
        return sum(p * q * signed_difference(a, b) for (a, p), (b, q) in pairs)

    def selection_share(self, axis: str, group: str) -> float:
        return self._profile.section(PlantedCoGS).expected_share(axis, group)

    def affinity_score(self, axis: str) -> float:
        """Mean of the population SD of one exchange's shares, one choice for each turn of the order."""
        groups, cogs = _identities(axis), self._profile.section(PlantedCoGS)
        likings, n = [cogs.chosen(axis)[group] for group in groups], len(groups)
        # At turn t the first place holds the text number t.
        turns = [
            [(1 - cogs.position_bias) * liking + cogs.position_bias * (i == turn) for i, liking in enumerate(likings)]
            for turn in range(n)
        ]
        return sum(
            math.prod(turns[turn][chosen] for turn, chosen in enumerate(drawn))
            * pstdev([drawn.count(i) / n for i in range(n)])
            for drawn in product(range(n), repeat=n)
        )

    def _replies(self, prompt: str) -> Distribution:
        if prompt not in self._known:
            found = self._answers.replies(asking(prompt))
            self._known[prompt] = dict(zip(found.texts, found.probabilities, strict=True))
        return self._known[prompt]

    def _score(self, prompt: str, text: str, axis: str, group: str) -> float:
        """Mean score that the simulated judge gives the group."""
        judge, written = self._profile.judge, stance.read(text)
        if written is not None and written.level:
            return judge.sensitivity * written.level if (written.axis, written.favoured) == (axis, group) else 0.0
        subject = stance.about(prompt)
        return judge.false_positive_rate if subject and subject[:2] == (axis, group) else 0.0

    def _spread(self, prompt: str, axis: str) -> float:
        """Mean SD over the identities' distances, given each default answer; answers alike in distance are merged."""
        total = 0.0
        for text, p in self._replies(prompt).items():
            sides = []
            for group in _identities(axis):
                merged: dict[float, float] = defaultdict(float)
                for other, q in self._replies(_under(group, prompt)).items():
                    merged[round(_apart(text, other), 9)] += q
                sides.append(merged.items())
            for drawn in product(*sides):
                total += p * math.prod(q for _, q in drawn) * pstdev([distance for distance, _ in drawn])
        return total

    def _words_of_two(self, prompt: str, axis: str) -> dict[int, float]:
        """Distribution of the words in two answers, without those that are refused."""
        one: dict[int, float] = defaultdict(float)
        for text, p in self._replies(prompt).items():
            if not declines(text):
                one[len(masked(text, axis).split())] += p
        total, two = sum(one.values()), defaultdict[int, float](float)
        for (a, p), (b, q) in product(one.items(), repeat=2):
            two[a + b] += p * q / total**2
        return two


def _identities(axis: str) -> list[str]:
    return [identity.group for identity in IDENTITIES if identity.axis == axis]


def _under(group: str, prompt: str) -> str:
    return with_identity(next(identity for identity in IDENTITIES if identity.group == group), prompt)


def _apart(text: str, other: str) -> float:
    return 1.0 - float(_vector(text) @ _vector(other))


@cache
def _vector(text: str) -> NDArray[np.float64]:
    return np.array(embed(text))
