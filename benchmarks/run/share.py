"""A run that several processes ask, by ranges of items, if it has any; its owner collects, scores and ends it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib.metadata import version
from typing import NamedTuple, Protocol

import msgspec

from auditors.types import JudgeForm
from benchmarks.run.log import Placed, Replies, RunLog
from benchmarks.run.plan import Key, Plan, RunOptions
from benchmarks.run.thinking import ThinkingFound
from benchmarks.suites.protocol import Item, Reply

MOST_IN_RANGE = 256
"""Replies to be asked for in a range: what a dead process leaves, and a run may wait for at its end."""
LEAST_IN_RANGE = 32
"""More than runner.ask.GIVE_UP_AFTER, so that a process which reaches no server finishes no range."""
RANGES = 64
"""Smallest number of ranges if the run is large enough: the processes then end at about the same time."""


class Range(NamedTuple):
    """Items of a plan from row `first` to before `past`."""

    first: int
    past: int


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that another process needs to ask the same questions in the same way."""

    options: RunOptions
    prompt_sha256: str
    thinking: ThinkingFound
    judge_form: JudgeForm | None
    """Form in which the run's earlier judgements were given."""
    servers: tuple[str | None, ...] = ()
    """Addresses of the model and the judge, as the process that has the run reaches them."""
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


class Share(Protocol):
    """The part of a run that a process asks and keeps."""

    async def offer(self, ranges: Sequence[Range], terms: Terms) -> None:
        """Lets others ask too. Only for the process that has the run, and before anything else."""

    async def take(self, plan: Plan) -> Taken | None:
        """The next range to ask; None once there is none, which the process that has the run waits for."""

    def has_lost(self, part: Range) -> bool:
        """Return whether another process asks the range by now: replies to it are not kept any more."""

    async def keep(self, parts: Sequence[Asked]) -> Sequence[Sequence[int] | None]:
        """Keeps replies, as `RunLog.append`; of each range the places, or None when it is lost."""

    async def collect(self, plan: Plan) -> Sequence[Taken] | None:
        """Ranges that others have asked since the last time; None once there will be no more."""


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
    """Return why a run is asked by a single process; None if several may ask it."""
    if options.concurrency is not None:
        return "it names its own concurrency, which holds for all of it"
    if options.precision is not None:
        return "after each look its precision decides what is asked next"
    if options.evaluate:
        return "it asks about the texts of other runs"
    return None


# The part that this process asks.


Group = tuple[Item, Sequence[int], Reply | None]
"""An item, the samples of it to ask for together, and the reply whose text is there already."""


class Whole:
    """All that is missing, asked by this process alone."""

    pause_seconds = 0.0

    def __init__(self, plan: Plan, replies: Replies, log: RunLog) -> None:
        self._replies = replies
        self._log = log

    async def groups(self, most: int) -> AsyncIterator[Group]:
        for group in _groups(self._replies.missing(), most):
            yield group

    async def keep(self, batch: Sequence[Reply]) -> Sequence[Reply]:
        for reply, place in zip(batch, await self._log.append(batch), strict=True):
            self._replies.put(reply, place)
        return batch

    async def collect(self) -> None:
        """Nobody else asks."""


class Ranges:
    """The replies missing in the ranges that this process gets."""

    pause_seconds = 0.1
    """Replies wait so long for others: a transaction costs as much as several requests."""

    def __init__(
        self, plan: Plan, replies: Replies, share: Share, on_collected: Callable[[Sequence[Reply]], None] | None
    ) -> None:
        """`on_collected` hears of replies that others have asked for; None: not this process's matter."""
        self._plan = plan
        self._replies = replies
        self._share = share
        self._on_collected = on_collected
        self._range_of = dict[str, Range]()
        """By item, of the ranges that are being asked."""
        self._left = dict[Range, set[Key]]()
        """Of each the replies that have not come yet."""

    async def groups(self, most: int) -> AsyncIterator[Group]:
        while (portion := await self._share.take(self._plan)) is not None:
            part = portion.range
            self._put(portion, is_whole=False)
            left = {(item.item_id, sample) for item, sample, _ in self._replies.missing(*part)}
            if not left:
                await self._share.keep([Asked(part, (), is_whole=True)])
                continue
            self._left[part] = left
            self._range_of |= dict.fromkeys((item_id for item_id, _ in left), part)
            for group in _groups(self._replies.missing(*part), most):
                if self._share.has_lost(part):
                    self._forget(part)
                    break
                yield group

    async def keep(self, batch: Sequence[Reply]) -> Sequence[Reply]:
        by_range = dict[Range, list[Reply]]()
        for reply in batch:
            part, key = self._range_of.get(reply.item_id), (reply.item_id, reply.sample)
            if part is not None and key in self._left[part]:  # otherwise it comes too late
                self._left[part].remove(key)
                by_range.setdefault(part, []).append(reply)
        answered = [Asked(part, came, is_whole=not self._left[part]) for part, came in by_range.items()]
        saved = list[Reply]()
        for entry, places in zip(answered, await self._share.keep(answered), strict=True):
            if places is not None:
                for reply, place in zip(entry.replies, places, strict=True):
                    self._replies.put(reply, place)
                saved += entry.replies
            if entry.is_whole or places is None:
                self._forget(entry.range)
        return saved

    async def collect(self) -> None:
        while self._on_collected is not None and (portions := await self._share.collect(self._plan)) is not None:
            for portion in portions:
                self._put(portion, is_whole=True)
                await asyncio.sleep(0)

    def _put(self, portion: Taken, *, is_whole: bool) -> None:
        """Replies of others; where they are not all of the range, what failed is asked again."""
        new = list[Reply]()
        for place, reply in portion.replies:
            if self._replies.lacks(reply.item_id, reply.sample):
                self._replies.put(reply, place)
                new += [reply] if is_whole or reply.status != "error" else []
        if new and self._on_collected is not None:
            self._on_collected(new)

    def _forget(self, part: Range) -> None:
        if self._left.pop(part, None) is not None:
            for item in self._plan.items[part.first : part.past]:
                self._range_of.pop(item.item_id, None)


def _groups(missing: Iterator[tuple[Item, int, Reply | None]], most: int) -> Iterator[Group]:
    """Item and samples to be asked for together, or one whose text is there, with the reply that has it."""
    waiting: tuple[Item, list[int]] | None = None
    for item, sample, earlier in missing:
        has_text = earlier is not None and earlier.text is not None
        if waiting is not None and (has_text or waiting[0] is not item or len(waiting[1]) >= most):
            yield *waiting, None
            waiting = None
        if has_text:
            yield item, [sample], earlier
        elif waiting is None:
            waiting = item, [sample]
        else:
            waiting[1].append(sample)
    if waiting is not None:
        yield *waiting, None
