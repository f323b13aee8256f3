"""What of a run this process asks: all that is missing, or the ranges that it gets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from benchmarks.run.log import RunLog
from benchmarks.run.plan import Key, Plan
from benchmarks.run.replies import Replies
from benchmarks.run.share import Asked, Range, Share, Taken
from benchmarks.suites.protocol import Item, Reply

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
    """What is missing in the ranges that this process gets."""

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
        while (taken := await self._share.take(self._plan)) is not None:
            part = taken.range
            self._put(taken, is_whole=False)
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
        asked = [Asked(part, came, is_whole=not self._left[part]) for part, came in by_range.items()]
        found = list[Reply]()
        for one, places in zip(asked, await self._share.keep(asked), strict=True):
            if places is not None:
                for reply, place in zip(one.replies, places, strict=True):
                    self._replies.put(reply, place)
                found += one.replies
            if one.is_whole or places is None:
                self._forget(one.range)
        return found

    async def collect(self) -> None:
        while self._on_collected is not None and (found := await self._share.collect(self._plan)) is not None:
            for taken in found:
                self._put(taken, is_whole=True)
                await asyncio.sleep(0)

    def _put(self, taken: Taken, *, is_whole: bool) -> None:
        """Replies of others; where they are not all of the range, what failed is asked again."""
        new = list[Reply]()
        for place, reply in taken.replies:
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
