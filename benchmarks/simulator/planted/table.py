"""Every suite with planted answers, in the order in which a prompt is tried, and the value that a run must recover."""

from collections.abc import Mapping
from functools import cache

from auditors.plugins import Registered
from benchmarks.run.plan import Plan
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.planted.kinds import Behaviour, Planted, PlantedBehaviour, Seen, seen
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.replies import Replies
from benchmarks.simulator.text_request import Asked
from benchmarks.suites.common.estimation import CellKey


def _usable(name: str, registered: object) -> Planted | PlantedBehaviour:
    """Return the planted answers of the suite of this name. Raises ValueError for what cannot be planted."""
    if not isinstance(registered, Planted | PlantedBehaviour) or name in Profile.__struct_fields__:
        raise ValueError(f"it is nothing that a section [{name}] could plant")
    registered.section()  # what a profile without the section has
    return registered


PLANTED: Mapping[str, Planted | PlantedBehaviour] = Registered("biasgate.planted", _usable)
"""Planted answers by name of the suite, which is also the name of its section of a profile."""


@cache
def by_questions() -> Mapping[str, Planted]:
    """Return the planted answers of suites whose questions the answer key knows."""
    return {name: planted for name, planted in PLANTED.items() if isinstance(planted, Planted)}


def behaviours(profile: Profile, seed: int) -> list[Behaviour]:
    """Return the behaviours of suites whose replies are judged or compared."""
    return [planted.behaviour(profile, seed) for planted in PLANTED.values() if isinstance(planted, PlantedBehaviour)]


def replies(request: Asked, profile: Profile, key: AnswerKey, seed: int) -> Replies | None:
    """Return the replies planted by the first suite that knows the prompt; None for an unknown prompt."""
    answers = (
        planted.replies(request, getattr(profile, suite), key, seed) for suite, planted in by_questions().items()
    )
    return next((answer for answer in answers if answer is not None), None)


class Expected:
    """The values that a run of a plan must recover, in expectation over the model's draws, for the items it asks."""

    def __init__(self, profile: Profile, plan: Plan) -> None:
        self._plan = plan
        self._planted = PLANTED.get(plan.suite.name)
        self._seen: list[Seen] = []
        self._behaviour: Behaviour | None = None
        if isinstance(self._planted, Planted):
            section, planter = getattr(profile, plan.suite.name), self._planted.over_seeds or self._planted.replies
            key = AnswerKey(self._planted.facts(plan.dataset))
            self._seen = seen(plan, lambda request: planter(request, section, key, 0))
        elif self._planted is not None:
            self._behaviour = self._planted.behaviour(profile, 0)

    def value(self, key: CellKey) -> float | None:
        """Return the expected value of this number; None if it is undefined, or nothing is planted."""
        if self._behaviour is not None:
            return self._behaviour.expected(key, plan=self._plan)
        if isinstance(self._planted, Planted):
            return self._planted.expected(self._seen, self._plan.options.protocol, key)
        return None
