"""Every suite with planted answers, in the order in which a prompt is tried, and the value that a run must recover."""

import logging
import pkgutil
from collections.abc import Mapping
from functools import cache

from benchmarks.run.plan import Plan
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.planted.kinds import Behaviour, Planted, PlantedBehaviour
from benchmarks.simulator.planted.outcomes import Seen, seen
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.replies import Replies
from benchmarks.simulator.text_request import Asked
from benchmarks.suites.capabilities import WithPlanted
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.registry import SUITES

logger = logging.getLogger(__name__)


@cache
def by_suite() -> Mapping[str, Planted | PlantedBehaviour]:
    """By name of the suite, which is also the name of its section; one that cannot be imported is left out."""
    found: dict[str, Planted | PlantedBehaviour] = {}
    for name, suite in SUITES.items():
        if not isinstance(suite, WithPlanted):
            continue
        try:
            planted = pkgutil.resolve_name(suite.planted)
            planted.section()  # what a profile without the section has
        except Exception as exc:  # whatever somebody else's module raises
            logger.warning("suite %s: its planted answers %s cannot be loaded: %s", name, suite.planted, exc)
            continue
        if not isinstance(planted, Planted | PlantedBehaviour) or name in Profile.__struct_fields__:
            logger.warning("suite %s: %s is nothing that a section [%s] could plant", name, suite.planted, name)
            continue
        found[name] = planted
    return found


@cache
def by_questions() -> Mapping[str, Planted]:
    """Of the suites whose questions the answer key knows."""
    return {name: planted for name, planted in by_suite().items() if isinstance(planted, Planted)}


def behaviours(profile: Profile, seed: int) -> list[Behaviour]:
    """Of the suites whose replies are judged or compared."""
    return [one.behaviour(profile, seed) for one in by_suite().values() if isinstance(one, PlantedBehaviour)]


def replies(asked: Asked, profile: Profile, key: AnswerKey, seed: int) -> Replies | None:
    """What the first suite that knows the prompt plants for it; None when none does."""
    answers = (one.replies(asked, getattr(profile, suite), key, seed) for suite, one in by_questions().items())
    return next((found for found in answers if found is not None), None)


class Expected:
    """The values that a run of a plan must recover, in expectation over the model's draws, for the items it asks."""

    def __init__(self, profile: Profile, plan: Plan) -> None:
        self._plan = plan
        self._planted = by_suite().get(plan.suite.name)
        self._seen: list[Seen] = []
        self._behaviour: Behaviour | None = None
        if isinstance(self._planted, Planted):
            section, planter = getattr(profile, plan.suite.name), self._planted.over_seeds or self._planted.replies
            key = AnswerKey(self._planted.facts(plan.dataset))
            self._seen = seen(plan, lambda asked: planter(asked, section, key, 0))
        elif self._planted is not None:
            self._behaviour = self._planted.behaviour(profile, 0)

    def value(self, key: CellKey) -> float | None:
        """Of this number; None where the planted replies leave it undefined, or nothing is planted."""
        if self._behaviour is not None:
            return self._behaviour.expected(key, plan=self._plan)
        if isinstance(self._planted, Planted):
            return self._planted.expected(self._seen, self._plan.options.protocol, key)
        return None
