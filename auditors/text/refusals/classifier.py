"""A small linear classifier of English replies, which decides where the wording leaves doubt: logistic regression over
1- to 3-grams of beginning and end and over `english.findings`; linear time. `tools/refusals/train.py` makes
classifier.json; errors: docs/evidence/refusals.md.
"""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path

import msgspec

HEAD_WORDS = 60
TAIL_WORDS = 30
OPENING_WORDS = 8
LONGEST_GRAM = 3
MOST_CHARS = 6_000
"""Characters read from the beginning of a reply, and half as many from the end of a longer one."""


class Weights(msgspec.Struct, frozen=True):
    """The trained weights."""

    version: str
    classes: tuple[str, ...]
    intercepts: tuple[float, ...]
    features: dict[str, tuple[float, ...]]
    """Feature to its weight for each class."""


def features_of(text: str, findings: Mapping[str, float]) -> dict[str, float]:
    """Features of a reply (`prose.normalised`) and its findings (0..1, `english.findings`), of length LENGTH."""
    if len(text) > MOST_CHARS + MOST_CHARS // 2:
        text = f"{text[:MOST_CHARS]}\n{text[-MOST_CHARS // 2 :]}"
    words = ["<n>" if match[0].isdigit() else match[0] for match in _WORD.finditer(text)]
    tail = words[HEAD_WORDS:][-TAIL_WORDS:]
    features = dict[str, float]()
    for part in (["<s>", *words[:HEAD_WORDS]], tail):
        for length in range(1, LONGEST_GRAM + 1):
            features.update((" ".join(part[at : at + length]), 1.0) for at in range(len(part) - length + 1))
    features.update((f"@{word}", 1.0) for word in islice(words, OPENING_WORDS))
    features.update((f"#{name}", SCALE_OF_FINDINGS * value) for name, value in findings.items())
    scale = LENGTH / math.hypot(*features.values())
    return {name: scale * value for name, value in features.items()}


def probabilities(features: Mapping[str, float]) -> dict[str, float]:
    """Return the probability of each class."""
    weights = _read_weights()
    scores = list(weights.intercepts)
    for name, value in features.items():
        for place, weight in enumerate(weights.features.get(name, ())):
            scores[place] += value * weight
    largest = max(scores)
    exponentials = [math.exp(score - largest) for score in scores]
    return dict(zip(weights.classes, (value / sum(exponentials) for value in exponentials), strict=True))


@lru_cache(maxsize=1)
def _read_weights() -> Weights:
    return msgspec.json.decode(Path(__file__).with_name("classifier.json").read_bytes(), type=Weights)


LENGTH = 6.0
"""Long replies have more features than short ones, and would be surer for this alone."""
SCALE_OF_FINDINGS = 2.0
"""Regularisation is the same for all features, so findings, which are few and tell much, count double."""
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|[:!?]")
