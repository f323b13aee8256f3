"""The follow-up of the first questions: items made from the replies, embeddings, and their distances."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.types import CompletionError, Embedder
from benchmarks.errors import BenchmarkError
from benchmarks.run.log import Replies, RunLog
from benchmarks.run.plan import Key, Plan
from benchmarks.suites.common import mitigation
from benchmarks.suites.common.observations import Observations, never
from benchmarks.suites.protocol import Item, Observation, Reply, Suite

BATCH_SIZE = 256


def extend_plan(plan: Plan, replies: Mapping[Key, Reply], checkpoint: Callable[[], None] = never) -> Plan:
    """The plan with the items that its replies give rise to; itself when there are none. `checkpoint` may end it."""
    if not plan.suite.has_follow_up:
        return plan
    items = plan.suite.follow_up(observed(plan, replies, checkpoint), protocol=plan.options.protocol)
    more = mitigation.placed(items, plan.options.mitigating)
    known_ids = {item.item_id for item in plan.items}
    new = [item for item in more if item.item_id not in known_ids]
    return msgspec.structs.replace(plan, items=[*plan.items, *new]) if new else plan


def observed(plan: Plan, replies: Mapping[Key, Reply], checkpoint: Callable[[], None] = never) -> Observations:
    """Items and replies of a plan, in its order. `checkpoint` is called before each reply, and may raise."""
    if isinstance(replies, Replies):
        return Observations(plan.items, replies.to, replies.n_to, checkpoint)

    def replies_to(item: Item) -> Iterator[Reply]:
        keys = ((item.item_id, sample) for sample in range(plan.options.samples))
        return (replies[key] for key in keys if key in replies)

    return Observations(plan.items, replies_to, lambda item: sum(1 for _ in replies_to(item)), checkpoint)


async def embedded(plan: Plan, replies: Mapping[Key, Reply], embedder: Embedder | None) -> list[Reply]:
    """Return the replies that their vectors change. Raises BenchmarkError when a served embedder does not answer."""
    return [reply async for changed in embedded_parts(plan, replies, embedder) for reply in changed]


async def embedded_parts(
    plan: Plan, replies: Mapping[Key, Reply], embedder: Embedder | None
) -> AsyncIterator[list[Reply]]:
    """Yield the replies of `embedded` cluster by cluster, so that memory holds a single cluster's vectors."""
    if embedder is None or not plan.suite.needs_embedder:
        return
    order = {name: place for place, name in enumerate(dict.fromkeys(item.cluster for item in plan.items))}
    ordered = sorted(plan.items, key=lambda item: order[item.cluster])
    chosen = _to_embed(plan.suite, observed(msgspec.structs.replace(plan, items=ordered), replies))
    pairs: list[tuple[Observation, NDArray[np.float32]]] = []
    while batch := list(islice(chosen, BATCH_SIZE)):
        pairs += await _vectors(batch, embedder, plan.suite)
        is_of_last = [pair[0].item.cluster == batch[-1].item.cluster for pair in pairs]
        whole = is_of_last.index(True) if True in is_of_last else len(pairs)
        if whole:
            yield await asyncio.to_thread(_measured, plan.suite, pairs[:whole], embedder)
            del pairs[:whole]
    if pairs:
        yield await asyncio.to_thread(_measured, plan.suite, pairs, embedder)


def _to_embed(suite: Suite, observations: Observations) -> Iterator[Observation]:
    rest = iter(observations)
    while part := list(islice(rest, BATCH_SIZE)):
        yield from suite.to_embed(part)


def _measured(
    suite: Suite, pairs: Sequence[tuple[Observation, NDArray[np.float32]]], embedder: Embedder
) -> list[Reply]:
    return [observation.reply for observation in suite.measured(pairs, embedder=embedder.name)]


async def _vectors(
    chosen: Sequence[Observation], embedder: Embedder, suite: Suite
) -> list[tuple[Observation, NDArray[np.float32]]]:
    """A batch; text by text when the embedder refuses it, so that one bad vector costs one text."""
    try:
        vectors = await embedder.embed(
            await asyncio.to_thread(lambda: [suite.text_to_embed(observation) for observation in chosen])
        )
    except CompletionError as exc:
        raise BenchmarkError(f"embedder {embedder.name}: {exc}") from exc
    except ValueError:
        if len(chosen) == 1:
            return []
        return [pair for observation in chosen for pair in await _vectors([observation], embedder, suite)]
    return list(zip(chosen, vectors, strict=True))


class EmbeddedBeside:
    """Embeds each cluster once its replies are there, about BATCH_SIZE texts of whole clusters at a time."""

    def __init__(self, plan: Plan, embedder: Embedder | None, log: RunLog) -> None:
        """Embed nothing if the suite compares no texts, or the embedder is None."""
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
            clusters = (self._cluster.get(item.item_id) for item, _, _ in replies.missing())
            self._missing = Counter(name for name in clusters if name is not None)
            self._put([name for name in self._items if not self._missing[name]])
            return
        for reply in new:
            name = self._cluster.get(reply.item_id)
            if name is not None and name in self._items and reply.status != "error":
                self._missing[name] -= 1
                if not self._missing[name]:
                    self._put([name])

    async def finish(self) -> None:
        """Embeds what is left, replies or not, and waits. Raises BenchmarkError if the embedder did not answer."""
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
