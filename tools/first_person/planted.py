"""A model that answers by the name of its user, with known means of all contrasts, and says how likely answers are.

An answer is one word, "alpha" or "beta", repeated 2 or 6 times, or a refusal; each is drawn with a probability that
depends on the groups of the name. In an embedding with a direction for each word the excess of the distance is the
square of the difference between the groups' shares of "beta". As a judge the model finds "beta" better and long answers
warmer, by four points in the mean, and wavers by a point.
"""

import math
import random
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.dispersion import signed_difference
from auditors.text.names import BEARERS, Bearer
from auditors.types import Completion, CompletionRequest, DecisionRequest
from gateway.features.first_person import lines
from gateway.features.first_person.appraisal import WIDTH
from gateway.features.first_person.lines import (
    BY_WORDING,
    CONTRASTS,
    DISTANCE,
    LENGTH,
    QUALITY,
    REFUSAL,
    SENTIMENT,
    WORDINGS,
)

REFUSED = "I'm sorry, but I can't help with that."
LENGTHS = (2, 6)
ANSWERS = (REFUSED, *(" ".join([topic] * length) for topic in ("alpha", "beta") for length in LENGTHS))
JUDGE = "judge"
"""Name of the model that rates answers."""
RATING_STEP = 4
"""Points by which "beta" is better than "alpha", and a long answer warmer than a short answer."""
OTHERS = {"race": ("woman", "man"), "gender": ("white", "black", "asian", "latin")}
"""Groups of the axis held fixed, by the axis compared."""
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
        if metric == QUALITY:
            strength = sum(self.strengths.get(wording, 1.0) for wording in WORDINGS) / len(WORDINGS)
            return strength * self.topic_difference(group, reference) * RATING_STEP / WIDTH
        if metric == SENTIMENT:
            return (self.length.get(group, 0.0) - self.length.get(reference, 0.0)) * RATING_STEP / WIDTH
        if metric == LENGTH:
            return self._length_excess(axis, group, reference)
        return self._nats(metric, axis, group, reference)

    def topic_difference(self, group: str, reference: str) -> float:
        return self.topic.get(group, 0.0) - self.topic.get(reference, 0.0)

    def _length_excess(self, axis: str, group: str, reference: str) -> float:
        """Enumerates the lengths of two answers a side, over the groups of the axis held fixed."""
        mean = 0.0
        for other, is_long in product(OTHERS[axis], product((False, True), repeat=4)):
            shares = [0.4 + self.length.get(side, 0.0) + self.length.get(other, 0.0) for side in (group, reference)]
            chances = [share if long else 1 - share for share, long in zip([*shares] * 2, is_long, strict=True)]
            words = [LENGTHS[long] for long in is_long]
            excess = signed_difference(words[0] + words[2], words[1] + words[3])
            mean += float(np.prod(chances)) * excess / len(OTHERS[axis])
        return mean

    def _nats(self, metric: str, axis: str, group: str, reference: str) -> float:
        """Enumerates answers, of a token and its end, and four users without a common name; none is clipped."""
        pairs = [pair for place, *pair in CONTRASTS if place == axis and group in (pair[0], *WORDINGS)]
        wordings = [group] if group in WORDINGS else WORDINGS
        total = weights = 0.0
        for pair, other, wording, odd, text in product(
            pairs or [[reference, reference]], OTHERS[axis], wordings, product((0, 1), repeat=4), ANSWERS
        ):
            groups = [(side, other) if axis == "race" else (other, side) for side in pair]
            users = [Bearer(*of, place, 0, 0.0, 0.0) for of, place in zip(groups * 2, odd, strict=True)]
            plain, *named = (math.fsum(self.logprobs(text, user, wording)) for user in (None, *users))
            a, x, b, y = (plain - nats for nats in named)
            value = {
                lines.BY_LENGTH: (a + b) / 4,
                lines.CLIPPED: 0.0,
                lines.DIFFERENCE: (a + b - x - y) / 2,
                lines.DIVERGENCE: (a + b) / 2,
                lines.DIVERGENCE_BY_WORDING: (a + b + x + y) / 4,
            }.get(metric, sum(map(abs, (a - x, a - y, b - x, b - y))) / 4 - (abs(a - b) + abs(x - y)) / 2)
            weight = math.exp(plain) * math.perm(10, sum(odd)) * math.perm(10, 4 - sum(odd))
            total, weights = total + weight * value, weights + weight
        return total / weights

    def chances(self, user: Bearer | None, wording: str) -> tuple[float, float, float]:
        """Return the chances of a refusal, of "beta" and of a long answer; of a user without a name for None."""

        def change(changes: Mapping[str, float]) -> float:
            return changes.get(user.race, 0.0) + changes.get(user.gender, 0.0) if user else 0.0

        by_name = (self.spread if user.place % 2 else -self.spread) if user else 0.0
        is_beta = 0.3 + self.strengths.get(wording, 1.0) * change(self.topic) + by_name
        return 0.05 + change(self.refusal), is_beta, 0.4 + change(self.length)

    def logprobs(self, text: str, user: Bearer | None, wording: str) -> tuple[float, float]:
        """Return the log-probabilities of an answer: what it says, and where it ends."""
        refused, beta, long = self.chances(user, wording)
        if text == REFUSED:
            return math.log(refused), 0.0
        topic, length = beta if "beta" in text else 1 - beta, long if len(text.split()) > LENGTHS[0] else 1 - long
        return math.log1p(-refused) + math.log(topic), math.log(length)


class PlantedModel:
    """The completer, the decider and the embedder of a world."""

    name = "planted"

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._rng = random.Random(seed)
        self._judge_rng = random.Random(f"judge/{seed}")

    async def complete(self, request: CompletionRequest) -> Completion:
        if request.model == JUDGE:
            return Completion(text=self.rating(request.messages[-1].content), finish_reason="stop")
        return Completion(text=self.answer(*_user(request.messages[0].content)), finish_reason="stop")

    def rating(self, question: str) -> str:
        """Return the ratings of the answer in a question to the judge, within a point."""
        quality = 4 + RATING_STEP * ("beta" in question) + self._judge_rng.choice((-1, 0, 1))
        sentiment = -1 + RATING_STEP * (question.count("alpha") + question.count("beta") == LENGTHS[1])
        return f'{{"quality": {quality}, "sentiment": {sentiment + self._judge_rng.choice((-1, 0, 1))}}}'

    def answer(self, user: Bearer | None, wording: str) -> str:
        """Return a drawn answer."""
        refused, beta, long = self._world.chances(user, wording)
        if self._rng.random() < refused:
            return REFUSED
        return " ".join([("alpha", "beta")[self._rng.random() < beta]] * LENGTHS[self._rng.random() < long])

    async def decide(self, request: DecisionRequest) -> bytes:
        return self.scored(request.body)

    def scored(self, body: Mapping[str, Any]) -> bytes:
        """Return what a server says of the last message of a request."""
        first, *_, last = (turn["content"] for turn in body["messages"])
        values = zip((last, "</s>"), self._world.logprobs(last, *_user(first)), strict=True)
        tokens = [{"1": {"logprob": nats, "decoded_token": token}} for token, nats in (("<s>", 0.0), *values)]
        return msgspec.json.encode({"prompt_logprobs": [None, *tokens]})

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[float("alpha" in text), float("beta" in text)] for text in texts], dtype=np.float32)

    async def aclose(self) -> None:
        """Holds nothing open."""


def _user(line: str) -> tuple[Bearer | None, str]:
    """Return the user whom a line names, and its wording; nobody for another text."""
    name = _NAME.search(line)
    return BEARERS[name[1].lower()] if name else None, next((key for key, mark in _MARKS.items() if mark in line), "")


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
