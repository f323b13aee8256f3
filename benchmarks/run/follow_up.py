"""What comes after the first questions: items made from the replies, and distances between them."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.types import CompletionError, Embedder
from benchmarks.errors import BenchmarkError
from benchmarks.run.plan import Key, Plan
from benchmarks.suites.common import mitigation
from benchmarks.suites.protocol import Observation, Reply, WithEmbedding, WithFollowUp

BATCH_SIZE = 256
"""Texts put to the embedder at a time."""


def extend_plan(plan: Plan, replies: Mapping[Key, Reply]) -> Plan:
    """The plan with the items that its replies give rise to; itself when there are none."""
    if not isinstance(plan.suite, WithFollowUp):
        return plan
    items = plan.suite.follow_up(observed(plan, replies), protocol=plan.options.protocol)
    more = mitigation.placed(items, plan.options.mitigating)
    known = {item.item_id for item in plan.items}
    new = [item for item in more if item.item_id not in known]
    return msgspec.structs.replace(plan, items=[*plan.items, *new]) if new else plan


def observed(plan: Plan, replies: Mapping[Key, Reply]) -> list[Observation]:
    """Items and replies of a plan, in its order."""
    return [
        Observation(item, replies[item.item_id, sample])
        for item in plan.items
        for sample in range(plan.options.samples)
        if (item.item_id, sample) in replies
    ]


async def embedded(plan: Plan, replies: Mapping[Key, Reply], embedder: Embedder | None) -> list[Reply]:
    """Replies that their vectors change; none when the suite compares no embeddings or there is no embedder.

    Raises: BenchmarkError when a served embedder does not answer.
    """
    if embedder is None or not isinstance(plan.suite, WithEmbedding):
        return []
    chosen = plan.suite.to_embed(observed(plan, replies))
    pairs: list[tuple[Observation, NDArray[np.float32]]] = []
    for start in range(0, len(chosen), BATCH_SIZE):
        pairs += await _vectors(chosen[start : start + BATCH_SIZE], embedder)
    return [observation.reply for observation in plan.suite.measured(pairs, embedder=embedder.name)]


async def _vectors(chosen: Sequence[Observation], embedder: Embedder) -> list[tuple[Observation, NDArray[np.float32]]]:
    """A batch; text by text when the embedder refuses it, so that one bad vector costs one text."""
    try:
        vectors = await embedder.embed([one.reply.text or "" for one in chosen])
    except CompletionError as exc:
        raise BenchmarkError(f"embedder {embedder.name}: {exc}") from exc
    except ValueError:
        if len(chosen) == 1:
            return []
        return [pair for one in chosen for pair in await _vectors([one], embedder)]
    return list(zip(chosen, vectors, strict=True))
