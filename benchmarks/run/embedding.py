"""Texts are embedded while others are still asked for, so that a run does not wait for its embedder at the end."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import msgspec

from auditors.types import Embedder
from benchmarks.run.follow_up import BATCH_SIZE, embedded_parts
from benchmarks.run.log import RunLog
from benchmarks.run.plan import Plan
from benchmarks.run.replies import Replies
from benchmarks.suites.protocol import (
    Item,
    Reply,
)


class EmbeddedBeside:
    """Puts each cluster of a plan to the embedder once all replies to its items are there, and keeps what that changes.

    One batch at a time: of as many whole clusters as wait, up to about BATCH_SIZE texts. A local embedder computes in a
    thread of its own, which leaves the requests alone. What is measured does not depend on the batches but for the
    rounding of single precision.
    """

    def __init__(self, plan: Plan, embedder: Embedder | None, log: RunLog) -> None:
        """Embeds nothing where the suite compares no texts, or there is no embedder."""
        self.is_changed = False
        """Whether a reply was changed; the log has it, the replies that were read before have not."""
        self._plan = plan
        self._embedder = embedder
        self._log = log
        self._replies: Replies | None = None
        self._items: dict[str, list[Item]] = {}
        """Of the clusters that were not put to the embedder yet."""
        if embedder is not None and plan.suite.needs_embedder:
            for item in plan.items:
                self._items.setdefault(item.cluster, []).append(item)
        self._cluster = {item.item_id: name for name, items in self._items.items() for item in items}
        self._missing = Counter[str]()
        self._waiting: asyncio.Queue[list[Item]] = asyncio.Queue()
        self._working: asyncio.Task[None] | None = None

    def note(self, replies: Replies, new: Sequence[Reply]) -> None:
        """Hears of replies that are in the log now; of none when asking begins."""
        if not self._items:
            self._replies = replies
            return
        if replies is not self._replies:
            self._replies = replies
            found = (self._cluster.get(item.item_id) for item, _, _ in replies.missing())
            self._missing = Counter(name for name in found if name is not None)
            self._put([name for name in self._items if not self._missing[name]])
            return
        for reply in new:
            name = self._cluster.get(reply.item_id)
            if name is not None and name in self._items and reply.status != "error":
                self._missing[name] -= 1
                if not self._missing[name]:
                    self._put([name])

    async def finish(self) -> None:
        """Embeds what is left, whether all of its replies came or not, and waits for it.

        Raises: BenchmarkError when a served embedder did not answer.
        """
        self._put(list(self._items))
        if self._working is None:
            return
        drained = asyncio.ensure_future(self._waiting.join())
        try:
            await asyncio.wait({drained, self._working}, return_when=asyncio.FIRST_COMPLETED)
            if self._working.done():
                self._working.result()
        finally:
            drained.cancel()

    def close(self) -> None:
        """Ends it, whatever it is at."""
        if self._working is not None and not self._working.cancel() and not self._working.cancelled():
            self._working.exception()  # noted as seen: `finish` has raised it, or the run ended otherwise

    def _put(self, names: Sequence[str]) -> None:
        for name in names:
            self._waiting.put_nowait(self._items.pop(name))
        if names and self._working is None:
            self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while True:
            clusters = [await self._waiting.get()]
            most = BATCH_SIZE // self._plan.options.samples
            while not self._waiting.empty() and sum(map(len, clusters)) < most:
                clusters.append(self._waiting.get_nowait())
            await self._embed([item for items in clusters for item in items])
            for _ in clusters:
                self._waiting.task_done()

    async def _embed(self, items: list[Item]) -> None:
        if self._replies is None:
            return
        part = msgspec.structs.replace(self._plan, items=items)
        async for changed in embedded_parts(part, self._replies, self._embedder):
            await self._log.append(changed)
            self.is_changed = self.is_changed or bool(changed)
