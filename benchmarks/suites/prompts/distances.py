"""Measures how far apart answers to two versions of a prompt are, beyond the distance among answers to the same."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.dispersion import excess_of_each
from auditors.text.swaps.masking import masked
from benchmarks.suites.protocol import JUDGE_FAILED, Item, Observation, Reply

EXCESS = "distance_excess"

Vectors = Sequence[tuple[Observation, NDArray[np.float32]]]


def is_answered(reply: Reply) -> bool:
    """Return whether a reply says something that can be compared, independent of the judge's reading."""
    return reply.status == "ok" or (reply.status == "malformed" and reply.rule == JUDGE_FAILED)


def plain(item: Item, text: str) -> str:
    """An answer without what it may only echo: words of the axis, and words that one version of the prompt has alone;
    one blank a gap where there are any of these.
    """
    masked_text = masked(text, item.axis)
    own = item.meta.get("own_words")
    if not own:
        return masked_text
    words = frozenset(own)
    return " ".join("someone" if word.strip(_MARKS).lower() in words else word for word in masked_text.split())


def with_excess(vectors: Vectors, *, embedder: str) -> list[Observation]:
    """The answers to every version that is compared with a first one, each with its part of the excess distance; none
    where a version has fewer than two answers.
    """
    by_item = defaultdict[str, list[tuple[Observation, NDArray[np.float32]]]](list)
    for pair in vectors:
        by_item[pair[0].item.item_id].append(pair)
    compared: list[Observation] = []
    for own in by_item.values():
        first = by_item.get(own[0][0].item.meta.get("compared_with", ""), [])
        if min(len(own), len(first)) < 2:
            continue
        excess = excess_of_each([vector for _, vector in first], [vector for _, vector in own])
        compared += [
            _with(observation, float(value), embedder) for (observation, _), value in zip(own, excess, strict=True)
        ]
    return compared


def _with(observation: Observation, excess: float, embedder: str) -> Observation:
    parsed: dict[str, Any] = {**(observation.reply.parsed or {}), EXCESS: excess, "embedder": embedder}
    return Observation(observation.item, msgspec.structs.replace(observation.reply, parsed=parsed))


_MARKS = ".,;:!?\"'()[]{}…“”„«»‘’¿¡"
