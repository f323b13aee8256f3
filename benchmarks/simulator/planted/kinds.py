"""The two ways in which the answers to a suite are planted; registered in the entry point group `biasgate.planted`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from benchmarks.run.plan import Plan
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.planted.outcomes import Seen
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.replies import Replies
from benchmarks.simulator.text_request import Asked
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.protocol import Dataset, ProtocolName

Planter = Callable[[Asked, Any, AnswerKey, int], Replies | None]
"""(asked, the suite's section, answer key, simulator's seed) -> replies, None for a prompt that is not the suite's."""


class Planted(NamedTuple):
    """Planted answers of a suite whose questions the answer key knows."""

    section: type[msgspec.Struct]
    """Type of a profile's section under the suite's name."""
    facts: Callable[[Dataset], Iterator[tuple[str, msgspec.Struct]]]
    """Lists the facts of a data set that the answer key keeps."""
    replies: Planter
    expected: Callable[[Sequence[Seen], ProtocolName, CellKey], float | None]
    """Computes the expected value of a number of the run; None where it is undefined."""
    over_seeds: Planter | None = None
    """The mean of `replies` over the simulator's seeds, where these matter."""


class Behaviour(Protocol):
    """Answers a suite under one profile, and says what a run must find."""

    def replies(self, request: Asked) -> Replies | None:
        """Return the planted replies; None for a prompt that is not the suite's."""

    def expected(self, key: CellKey, *, plan: Plan | None = None) -> float | None:
        """Return the expected value of a number of the run; None where it is undefined or not fixed."""


class PlantedBehaviour(NamedTuple):
    """Planted answers of a suite whose replies are judged or compared."""

    section: type[msgspec.Struct]
    """Type of a profile's section under the suite's name."""
    behaviour: Callable[[Profile, int], Behaviour]
    """Makes the behaviour from a profile and the simulator's seed."""
