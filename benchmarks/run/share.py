"""A run that several processes ask: which ranges of its items there are, and what passes between the processes.

One process has the run. It offers ranges, asks some of them itself, collects what the others have asked, and alone
scores and ends the run. The others see nothing but the terms and their ranges.
"""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import NamedTuple, Protocol

import msgspec

from auditors.types import JudgeForm
from benchmarks.run.log import Placed
from benchmarks.run.plan import Plan, RunOptions
from benchmarks.run.replies import Replies
from benchmarks.run.thinking import ThinkingFound
from benchmarks.suites.protocol import Reply

MOST_IN_RANGE = 256
"""Replies to be asked for in a range: what a process that dies leaves to another, and for which a run may wait at its
end."""
LEAST_IN_RANGE = 32
"""More than runner.ask.GIVE_UP_AFTER, so that a process which reaches no server finishes no range."""
RANGES = 64
"""At least so many, where the run is large enough: the processes then end at about the same time."""


class Range(NamedTuple):
    """Items of a plan from row `first` to before `past`."""

    first: int
    past: int


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What another process needs to ask the same questions in the same way."""

    options: RunOptions
    prompt_sha256: str
    thinking: ThinkingFound
    judge_form: JudgeForm | None
    """In which the run's earlier judgements were given."""
    servers: tuple[str | None, ...] = ()
    """Of the model and the judge, as the process that has the run reaches them."""
    biasgate: str = msgspec.field(default_factory=lambda: version("biasgate"))
    """Another version may read a reply in another way."""


class Taken(NamedTuple):
    """A range, with the replies that were kept in it before."""

    range: Range
    replies: Sequence[Placed]


class Asked(NamedTuple):
    """Replies to a range that have come now."""

    range: Range
    replies: Sequence[Reply]
    is_whole: bool
    """Whether they are the last."""


class Share(Protocol):
    """What one process asks of a run, and keeps."""

    async def offer(self, ranges: Sequence[Range], terms: Terms) -> None:
        """Lets others ask too. Only for the process that has the run, and before anything else."""
        ...

    async def take(self, plan: Plan) -> Taken | None:
        """The next range to ask; None once there is none, which the process that has the run waits for."""
        ...

    def has_lost(self, part: Range) -> bool:
        """Whether somebody else asks it by now: nothing is kept any more."""
        ...

    async def keep(self, asked: Sequence[Asked]) -> Sequence[Sequence[int] | None]:
        """Keeps replies, as `RunLog.append`; of each range the places, or None when it is lost."""
        ...

    async def collect(self, plan: Plan) -> Sequence[Taken] | None:
        """Ranges that others have asked since the last time; None once there will be no more."""
        ...


def ranges_of(replies: Replies, n_items: int) -> list[Range]:
    """All items that lack a reply, in ranges of about the same number of those; none where there are few."""
    missing = replies.n_missing(0, n_items)
    most = min(MOST_IN_RANGE, max(LEAST_IN_RANGE, missing // RANGES))
    return list(_cut(replies, n_items, most)) if missing > 2 * LEAST_IN_RANGE else []


def _cut(replies: Replies, n_items: int, most: int) -> Iterator[Range]:
    first, inside = 0, 0
    for row in range(n_items):
        missing = replies.n_missing(row, row + 1)
        if not inside:
            first = row
        inside += missing
        if inside >= most:
            yield Range(first, row + 1)
            inside = 0
    if inside:
        yield Range(first, n_items)


def why_whole(options: RunOptions) -> str | None:
    """Why a run is asked by one process alone; None where several may."""
    if options.concurrency is not None:
        return "it names its own concurrency, which holds for all of it"
    if options.precision is not None:
        return "after each look its precision decides what is asked next"
    if options.evaluate:
        return "it asks about the texts of other runs"
    return None
