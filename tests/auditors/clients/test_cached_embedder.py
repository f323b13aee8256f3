"""Vectors of the texts that were seen last are not computed again, and are the same ones."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.clients.embedders import CachedEmbedder
from tests.support.auditors.word_embedder import WordEmbedder


class Counting(WordEmbedder):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []
        self.is_broken = False

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        if self.is_broken:
            raise ValueError("broken")
        return await super().embed(texts)


async def test_what_is_known_is_not_computed_again() -> None:
    """Each text once, in whichever call and order it comes; the rows are those of the embedder itself."""
    inner = Counting()
    cached = CachedEmbedder(inner)
    texts = ["a doctor", "a nurse", "a doctor", "ein Arzt"]
    rows = [await cached.embed(texts), await cached.embed(["a pilot", *reversed(texts)])]

    assert inner.asked == [["a doctor", "a nurse", "ein Arzt"], ["a pilot"]]
    assert np.array_equal(rows[0], await inner.embed(texts))
    assert np.array_equal(rows[1], await inner.embed(["a pilot", *reversed(texts)]))
    assert cached.name == inner.name


async def test_the_oldest_go_first() -> None:
    """Room is bounded in bytes; what was used last stays."""
    inner = Counting()
    size = (await inner.embed(["a"])).nbytes
    cached = CachedEmbedder(inner, max_bytes=2 * size)
    inner.asked.clear()
    for text in ("a", "b", "a", "c", "a", "b"):
        await cached.embed([text])

    assert inner.asked == [["a"], ["b"], ["c"], ["b"]]


async def test_failures_are_not_kept() -> None:
    """A text that failed is asked for again; an empty one is refused before anything is computed."""
    inner = Counting()
    cached = CachedEmbedder(inner)
    inner.is_broken = True
    with pytest.raises(ValueError, match="broken"):
        await cached.embed(["a"])
    inner.is_broken = False
    await cached.embed(["a"])
    with pytest.raises(ValueError, match="text 1 of 2 is empty"):
        await cached.embed(["b", " "])

    assert inner.asked == [["a"], ["a"]]
