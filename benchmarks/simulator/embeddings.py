"""Embeddings under which the distance of two simulated replies is the planted fraction of differing sentences.

A text is a bag of sentences. Every stock sentence has a coordinate of its own, so 1 - cosine of two replies to one
prompt is exactly the share of sentences that differ; other sentences are hashed to the remaining coordinates. A stance
sentence and the signature of an identity weigh nothing: they are for judges, and would blur the planted distance.
"""

import base64
import math
import struct
from collections import Counter

from benchmarks.simulator import stance
from benchmarks.simulator.counterfactual import CLOSING
from benchmarks.simulator.draws import uniform
from benchmarks.simulator.prose import SIGNATURES, TOPICS

DIMENSIONS = 1024
_WEIGHTLESS = frozenset((*SIGNATURES.values(), CLOSING, stance.LECTURE))
_COORDINATE = {sentence: place for place, sentence in enumerate(sum(TOPICS, ()))}


def embed(text: str) -> list[float]:
    """An L2-normalised vector of DIMENSIONS coordinates. Raises ValueError on a text without a word."""
    found = stance.sentences(text)
    if not found:
        raise ValueError("an empty text has no embedding")
    weighed = [sentence for sentence in found if not _weighs_nothing(sentence)] or found
    counts = Counter(map(_coordinate, weighed))
    length = math.sqrt(sum(n * n for n in counts.values()))
    return [counts[place] / length for place in range(DIMENSIONS)]


def packed(vector: list[float]) -> str:
    """Base64 of little-endian float32, which the official client asks for by default."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _weighs_nothing(sentence: str) -> bool:
    return sentence in _WEIGHTLESS or stance.is_written(sentence)


def _coordinate(sentence: str) -> int:
    if sentence in _COORDINATE:
        return _COORDINATE[sentence]
    free = DIMENSIONS - len(_COORDINATE)
    return len(_COORDINATE) + int(uniform("sentence", sentence) * free)
