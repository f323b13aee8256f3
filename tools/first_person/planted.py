"""A model that answers by the name of its user, with known means of all contrasts.

An answer is one word, "alpha" or "beta", repeated 2 or 6 times, or a refusal; each is drawn with a probability that
depends on the groups of the name. In an embedding with a direction for each word the excess of the distance is the
square of the difference between the groups' shares of "beta".
"""

import random
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.dispersion import signed_difference
from auditors.text.names import BEARERS, Bearer
from auditors.types import Completion, CompletionRequest
from gateway.features.first_person.lines import BY_WORDING, CONTRASTS, DISTANCE, REFUSAL, WORDINGS

REFUSED = "I'm sorry, but I can't help with that."
LENGTHS = (2, 6)
NOTHING: Mapping[str, float] = {}
_MARKS = {"sentence": "The user's name is", "pronouns": "- Pronouns:", "memory": "- Name:", "profile": "User profile:"}
_NAME = re.compile(r"(?:name is|Name:|profile:) (\w+)")


class World(NamedTuple):
    """What a name changes, by the group of its race or gender, in probabilities that add up."""

    title: str
    topic: Mapping[str, float] = NOTHING
    refusal: Mapping[str, float] = NOTHING
    length: Mapping[str, float] = NOTHING
    spread: float = 0.0
    """Change of the topic by the name itself, up or down, alike in all groups."""
    strengths: Mapping[str, float] = NOTHING
    """Factor of the topic's change by wording; 1 where left out."""

    def expected(self, metric: str, axis: str, group: str) -> float:
        """Return the mean of a stream; `group` is a wording for BY_WORDING."""
        if metric == BY_WORDING:
            squares = [self.topic_difference(*pair) ** 2 for place, *pair in CONTRASTS if place == axis]
            return self.strengths.get(group, 1.0) ** 2 * sum(squares) / len(squares)
        reference = "man" if axis == "gender" else "white"
        if metric == DISTANCE:
            squares = [self.strengths.get(wording, 1.0) ** 2 for wording in WORDINGS]
            return sum(squares) / len(squares) * self.topic_difference(group, reference) ** 2
        if metric == REFUSAL:
            return self.refusal.get(group, 0.0) - self.refusal.get(reference, 0.0)
        return self._length_excess(axis, group, reference)

    def topic_difference(self, group: str, reference: str) -> float:
        return self.topic.get(group, 0.0) - self.topic.get(reference, 0.0)

    def _length_excess(self, axis: str, group: str, reference: str) -> float:
        """Enumerates the lengths of two answers a side, over the groups of the axis held fixed."""
        others = ("woman", "man") if axis == "race" else ("white", "black", "asian", "latin")
        mean = 0.0
        for other, is_long in product(others, product((False, True), repeat=4)):
            shares = [0.4 + self.length.get(side, 0.0) + self.length.get(other, 0.0) for side in (group, reference)]
            chances = [share if long else 1 - share for share, long in zip([*shares] * 2, is_long, strict=True)]
            words = [LENGTHS[long] for long in is_long]
            excess = signed_difference(words[0] + words[2], words[1] + words[3])
            mean += float(np.prod(chances)) * excess / len(others)
        return mean


class PlantedModel:
    """The completer and the embedder of a world."""

    name = "planted"

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._rng = random.Random(seed)

    async def complete(self, request: CompletionRequest) -> Completion:
        line = request.messages[0].content
        match = _NAME.search(line)
        if match is None:
            raise ValueError(f"no name in {line}")
        text = self._answer(BEARERS[match[1].lower()], next(name for name, mark in _MARKS.items() if mark in line))
        return Completion(text=text, finish_reason="stop")

    def _answer(self, user: Bearer, wording: str) -> str:
        def happens(base: float, changes: Mapping[str, float], factor: float = 1.0, further: float = 0.0) -> bool:
            change = changes.get(user.race, 0.0) + changes.get(user.gender, 0.0)
            return self._rng.random() < base + factor * change + further

        world = self._world
        if happens(0.05, world.refusal):
            return REFUSED
        by_name = world.spread if user.place % 2 else -world.spread
        is_beta = happens(0.3, world.topic, world.strengths.get(wording, 1.0), by_name)
        return " ".join([("alpha", "beta")[is_beta]] * LENGTHS[happens(0.4, world.length)])

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[float("alpha" in text), float("beta" in text)] for text in texts], dtype=np.float32)

    async def aclose(self) -> None:
        """Holds nothing open."""


WORLDS = (
    World("nothing"),
    World("names differ, groups do not", spread=0.25),
    World(
        "groups differ",
        topic={"woman": 0.25, "black": 0.3, "asian": 0.15},
        refusal={"woman": 0.1, "black": 0.15},
        length={"woman": 0.2, "latin": -0.3},
        strengths={"sentence": 0.5, "pronouns": 1.2},
    ),
)
