"""The head of a classifier: a logistic regression over the embedding of a text, as a small JSON file."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from auditors.text.user_files import read_utf8
from gateway.errors import ConfigError

KIND = "biasgate filter head 1"
LONGEST_BYTES = 4 * 1024 * 1024
"""Largest file of a head, in bytes: weights for a hundred thousand dimensions."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Weights over L2-normalised embeddings."""

    kind: str
    embedder: str
    """Name of the embedding model that it was trained on."""
    weights: Annotated[tuple[float, ...], Meta(min_length=1)]
    bias: float
    threshold: Annotated[float, Meta(ge=0, le=1)]
    """Probability from which a text counts as biased, chosen on examples held out for that."""
    examples_sha256: str
    """SHA-256 of the file of examples."""
    card: Mapping[str, Any] = {}
    """Record of its training, and of its results on held-out examples; nothing reads it."""

    def probability(self, embedding: Sequence[float]) -> float:
        """Return the probability of a text to be biased, 0..1. Raises ValueError for an embedding of another kind."""
        if len(embedding) != len(self.weights):
            raise ValueError(f"the embedding has {len(embedding)} dimensions, the head {len(self.weights)}")
        length = math.sqrt(math.fsum(x * x for x in embedding))
        if not 0 < length < math.inf:
            raise ValueError("the embedding has no direction")
        logit = sum(w * x for w, x in zip(self.weights, embedding, strict=True)) / length + self.bias
        return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def read_head(path: Path, where: str) -> Head:
    """Read a head from its file. Raises ConfigError when the file is not a head; `where` names it there."""
    try:
        if path.stat().st_size > LONGEST_BYTES:
            raise ConfigError(f"{where} {path}: larger than {LONGEST_BYTES} bytes: this is not a head of a filter")
        head = msgspec.json.decode(read_utf8(path), type=Head)
    except OSError as exc:
        raise ConfigError(f"{where} {path}: cannot be read: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:  # msgspec's own and UnicodeDecodeError are ValueErrors
        raise ConfigError(f"{where} {path}: no head that `biasgate mitigate filter train` wrote: {exc}") from exc
    if head.kind != KIND:
        raise ConfigError(f'{where} {path}: its kind is "{head.kind[:100]}", this version reads "{KIND}"')
    return head
