"""The two ways to plant a suite's answers (`biasgate.planted`), and a plan's replies with probabilities, read by it."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from auditors.types import Status
from benchmarks.run.plan import Plan
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.replies import Replies, split
from benchmarks.simulator.text_request import Asked, Turn
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.protocol import Dataset, Item, ProtocolName


class Outcome(NamedTuple):
    p: float
    status: Status
    value: Any
    """The suite's own word; None unless status is "ok"."""


class Seen(NamedTuple):
    """An item and all that may come back for it; the probabilities add up to 1."""

    item: Item
    outcomes: tuple[Outcome, ...]


def seen(plan: Plan, replies: Callable[[Asked], Replies | None]) -> list[Seen]:
    """Raises LookupError for an item that `replies` does not recognise: then nothing is planted for it."""
    limit = plan.suite.sampling(plan.options.protocol).max_tokens
    entries = []
    for item in plan.items:
        turns = tuple(Turn(message.role, message.content) for message in item.messages)
        planted = replies(Asked(model=plan.options.model, turns=turns, prompt_tokens=0, max_tokens=limit))
        if planted is None:
            raise LookupError(f"{plan.suite.name}: {item.item_id} is not recognised by the simulator")
        entries.append(Seen(item, tuple(_outcomes(plan, item, planted, limit))))
    return entries


def _outcomes(plan: Plan, item: Item, replies: Replies, limit: int) -> Iterable[Outcome]:
    for text, p in replies.shares.items():
        parsed = plan.suite.parse(item, "".join(split(text)[:limit]), protocol=plan.options.protocol)
        yield Outcome(p, parsed.status, parsed.value)


def total(
    chosen: Sequence[Seen],
    counts: Callable[[Item, Outcome], bool] = lambda _, __: True,
    weight: Callable[[Item, Outcome], float] = lambda _, __: 1.0,
) -> float:
    """Expected weight of the replies that count."""
    return math.fsum(
        outcome.p * weight(item, outcome) for item, outcomes in chosen for outcome in outcomes if counts(item, outcome)
    )


def entries_of(seen: Sequence[Seen], key: CellKey) -> list[Seen]:
    """Return the items of the number's axis and part of the data."""
    return [entry for entry in seen if key.axis in (None, entry.item.axis) and key.subset in (None, entry.item.subset)]


def rate_of(chosen: Sequence[Seen], *statuses: Status) -> float | None:
    """Return the expected percentage of all replies that have one of the statuses."""
    return percentage(total(chosen, lambda _, outcome: outcome.status in statuses), total(chosen))


def percentage(part: float, whole: float) -> float | None:
    """Return 100 * part / whole; None for an expected whole of 0: the suite leaves the number undefined too."""
    return 100.0 * part / whole if whole > 0 else None


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
