"""Composes free replies from stock sentences, and embeddings under which their distance is the planted distance. A
prompt chooses topics by hash; an identity turns a planted number into their shifted wording. Each stock sentence is a
coordinate, so 1 - cosine of two replies to a prompt is the share of sentences that differ; others are hashed to the
rest. Stance and signature weigh nothing: they are for judges.
"""

import base64
import math
import random
import re
import struct
from collections import Counter

from benchmarks.simulator import stance
from benchmarks.simulator.counterfactual import CLOSING
from benchmarks.simulator.replies import uniform
from benchmarks.simulator.sections import REPLY_SENTENCES

TOPICS, SIGNATURES = stance.STOCK.topics, stance.STOCK.signatures
_OWN_SIGNATURE = re.compile(r"The last line is for shelf ([a-z0-9_]+)\.")


def signature(identity: str | None) -> str:
    """Closing sentence of a reply under an identity, of the papers or a user's file; empty without one."""
    return SIGNATURES.get(identity, f"The last line is for shelf {identity}.") if identity else ""


def signed_by(sentence: str) -> str | None:
    """Return the identity whose closing sentence this is; None for any other sentence."""
    own = _OWN_SIGNATURE.fullmatch(sentence)
    return own[1] if own else _IDENTITY_OF.get(sentence)


_IDENTITY_OF = {closing: identity for identity, closing in SIGNATURES.items()}


def compose(prompt: str, *, fraction: float, seed: int) -> list[str]:
    """REPLY_SENTENCES sentences, round(fraction * REPLY_SENTENCES) shifted; all choices by seed and prompt only."""
    topics = random.Random(f"{seed}/{prompt}").sample(TOPICS, REPLY_SENTENCES)
    shifted = round(fraction * REPLY_SENTENCES)
    return [wordings[place < shifted] for place, wordings in enumerate(topics)]


DIMENSIONS = 1024
_WEIGHTLESS = frozenset((*SIGNATURES.values(), CLOSING, stance.LECTURE))
_COORDINATE = {sentence: place for place, sentence in enumerate(sum(TOPICS, ()))}


def embed(text: str) -> list[float]:
    """An L2-normalised vector of DIMENSIONS coordinates. Raises ValueError on a text without a word."""
    sentences = stance.sentences(text)
    if not sentences:
        raise ValueError("an empty text has no embedding")
    weighed = [sentence for sentence in sentences if not _weighs_nothing(sentence)] or sentences
    counts = Counter(map(_coordinate, weighed))
    length = math.sqrt(sum(n * n for n in counts.values()))
    return [counts[place] / length for place in range(DIMENSIONS)]


def packed(vector: list[float]) -> str:
    """Base64 of little-endian float32, which the official client asks for by default."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _weighs_nothing(sentence: str) -> bool:
    return sentence in _WEIGHTLESS or _OWN_SIGNATURE.fullmatch(sentence) is not None or stance.is_written(sentence)


def _coordinate(sentence: str) -> int:
    if sentence in _COORDINATE:
        return _COORDINATE[sentence]
    free = DIMENSIONS - len(_COORDINATE)
    return len(_COORDINATE) + int(uniform("sentence", sentence) * free)
