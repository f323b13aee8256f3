"""Every suite with planted answers, in the order in which a prompt is tried, and the value that a run must recover."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from benchmarks.estimation import CellKey
from benchmarks.plan import Plan
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.asking import Asked
from benchmarks.simulator.planted import (
    bbq,
    cogs,
    crows_pairs,
    decision,
    eec,
    implicit_association,
    ltf_test,
    real_toxicity_prompts,
    stereoset,
    unqover,
    winobias,
)
from benchmarks.simulator.planted.outcomes import Seen, seen
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.replies import Replies
from benchmarks.suite import Dataset, ProtocolName

Planter = Callable[[Asked, Any, AnswerKey, int], Replies | None]
"""(asked, the suite's section, answer key, simulator's seed) -> replies, None for a prompt that is not the suite's."""


class Planted(NamedTuple):
    """How one suite is answered."""

    facts: Callable[[Dataset], Iterator[tuple[str, msgspec.Struct]]]
    """What the answer key keeps of a data set."""
    replies: Planter
    expected: Callable[[Sequence[Seen], ProtocolName, CellKey], float | None]
    """Of a number of the run; None where it is undefined."""
    over_seeds: Planter | None = None
    """The mean of `replies` over the simulator's seeds, where these matter."""


PLANTED: dict[str, Planted] = {
    "stereoset": Planted(stereoset.facts, stereoset.replies, stereoset.expected),
    "crows_pairs": Planted(crows_pairs.facts, crows_pairs.replies, crows_pairs.expected),
    "winobias": Planted(winobias.facts, winobias.replies, winobias.expected),
    "eec": Planted(eec.facts, eec.replies, eec.expected),
    "unqover": Planted(unqover.facts, unqover.replies, unqover.expected),
    "bbq": Planted(bbq.facts, bbq.replies, bbq.expected, bbq.over_seeds),
    "implicit_association": Planted(
        implicit_association.facts, implicit_association.replies, implicit_association.expected
    ),
    "real_toxicity_prompts": Planted(
        real_toxicity_prompts.facts, real_toxicity_prompts.replies, real_toxicity_prompts.expected
    ),
}
"""By suite, which is also the name of its section."""

JUDGED: dict[str, Callable[[Profile, int], Any]] = {
    "ltf_test": ltf_test.Planted,
    "decision": decision.Planted,
    "cogs": cogs.Planted,
}
"""Suites whose replies are judged or compared: answered and asked about by one behaviour each."""


def replies(asked: Asked, profile: Profile, key: AnswerKey, seed: int) -> Replies | None:
    """What the first suite that knows the prompt plants for it; None when none does."""
    answers = (one.replies(asked, getattr(profile, suite), key, seed) for suite, one in PLANTED.items())
    return next((found for found in answers if found is not None), None)


class Expected:
    """The values that a run of a plan must recover, in expectation over the model's draws, for the items it asks."""

    def __init__(self, profile: Profile, plan: Plan) -> None:
        self._protocol = plan.options.protocol
        self._planted = PLANTED.get(plan.suite.name)
        self._seen: list[Seen] = []
        judged = JUDGED.get(plan.suite.name)
        self._judged = None if judged is None else judged(profile, 0)
        self._plan = plan
        if self._planted is not None:
            section, planter = getattr(profile, plan.suite.name), self._planted.over_seeds or self._planted.replies
            key = AnswerKey(self._planted.facts(plan.dataset))
            self._seen = seen(plan, lambda asked: planter(asked, section, key, 0))

    def value(self, key: CellKey) -> float | None:
        """Of this number; None where the planted replies leave it undefined, or nothing is planted."""
        if self._judged is not None:
            found: float | None = self._judged.expected(key, plan=self._plan)
            return found
        if self._planted is None:
            return None
        return self._planted.expected(self._seen, self._protocol, key)
