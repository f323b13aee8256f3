"""An embedder whose cosines are those of words in common: the same on every machine, without a model."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from auditors.clients.embedders import normalised

DIMENSIONS = 256


@cache
def _direction(word: str) -> NDArray[np.float64]:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal(DIMENSIONS)


class WordEmbedder:
    """A direction of its own for each word; a text is the sum of its words."""

    name = "words"

    def __init__(self) -> None:
        self.n_texts = 0
        """How many were embedded so far."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.n_texts += len(texts)
        rows = []
        for text in texts:
            words = Counter(re.findall(r"\w+", text.lower())) or Counter([text])
            rows.append(np.sum([n * _direction(word) for word, n in words.items()], axis=0))
        return normalised(np.array(rows))
