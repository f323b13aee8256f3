"""What comes after the first questions: items made from the replies, and distances between them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.types import CompletionError, Embedder
from benchmarks.errors import BenchmarkError
from benchmarks.run.plan import Key, Plan
from benchmarks.run.replies import Replies
from benchmarks.suites.common import mitigation
from benchmarks.suites.common.observations import Observations, never
from benchmarks.suites.protocol import (
    Item,
    Observation,
    Reply,
    Suite,
)

BATCH_SIZE = 256
"""Texts put to the embedder at a time."""


def extend_plan(plan: Plan, replies: Mapping[Key, Reply], checkpoint: Callable[[], None] = never) -> Plan:
    """The plan with the items that its replies give rise to; itself when there are none. `checkpoint` may end it."""
    if not plan.suite.has_follow_up:
        return plan
    items = plan.suite.follow_up(observed(plan, replies, checkpoint), protocol=plan.options.protocol)
    more = mitigation.placed(items, plan.options.mitigating)
    known = {item.item_id for item in plan.items}
    new = [item for item in more if item.item_id not in known]
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
    """Replies that their vectors change; none when the suite compares no embeddings or there is no embedder.

    Raises: BenchmarkError when a served embedder does not answer.
    """
    return [reply async for changed in embedded_parts(plan, replies, embedder) for reply in changed]


async def embedded_parts(
    plan: Plan, replies: Mapping[Key, Reply], embedder: Embedder | None
) -> AsyncIterator[list[Reply]]:
    """As `embedded`, those of one cluster at a time, so that memory holds the texts and vectors of one."""
    if embedder is None or not plan.suite.needs_embedder:
        return
    by_cluster: dict[str, list[Item]] = {}
    for item in plan.items:
        by_cluster.setdefault(item.cluster, []).append(item)
    ordered = [item for items in by_cluster.values() for item in items]
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
        vectors = await embedder.embed(await _texts(chosen, suite))
    except CompletionError as exc:
        raise BenchmarkError(f"embedder {embedder.name}: {exc}") from exc
    except ValueError:
        if len(chosen) == 1:
            return []
        return [pair for one in chosen for pair in await _vectors([one], embedder, suite)]
    return list(zip(chosen, vectors, strict=True))


async def _texts(chosen: Sequence[Observation], suite: Suite) -> list[str]:
    return await asyncio.to_thread(lambda: [suite.text_to_embed(one) for one in chosen])
