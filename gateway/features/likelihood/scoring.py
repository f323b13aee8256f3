"""Metrics of the auditor `likelihood`, and the comparison of two scored answers word by word, as tokens may differ."""

import math
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from auditors.likelihoods import LARGEST_NATS, LARGEST_NATS_PER_TOKEN, Scored, Word
from auditors.streams.scales import Scale

WHOLE = "likelihood_divergence"
BY_LENGTH = "likelihood_divergence_per_token"
NAMES = "likelihood_divergence_names"
REST = "likelihood_divergence_rest"
CLIPPED = "likelihood_clipped"

SCALES = {
    **dict.fromkeys((WHOLE, NAMES, REST), Scale(-LARGEST_NATS, LARGEST_NATS, neutral=0.0)),
    BY_LENGTH: Scale(-LARGEST_NATS_PER_TOKEN, LARGEST_NATS_PER_TOKEN, neutral=0.0),
    CLIPPED: Scale(0.0, 1.0),
}
"""Ranges that streams cut single values to."""


class Piece(NamedTuple):
    """Neighbouring words of an answer, and what they add to the difference of the two log-likelihoods."""

    length: int
    """Characters."""
    nats: float
    is_swapped: bool
    """The other text has other words here."""


class Difference(NamedTuple):
    """The log-likelihood of an answer less that of its counterpart, in nats."""

    pieces: Sequence[Piece]
    end: float
    n_tokens: int
    """Tokens of the answer that were scored, the end among them."""

    @property
    def names(self) -> float:
        return math.fsum(piece.nats for piece in self.pieces if piece.is_swapped)

    @property
    def rest(self) -> float:
        return math.fsum([self.end, *(piece.nats for piece in self.pieces if not piece.is_swapped)])


def compared(own: Scored, other: Scored, *, is_ended: bool) -> Difference:
    """Return the difference of two texts equal but for swapped words; `is_ended`: the answer's end counts too."""
    has_end = is_ended and own.end is not None and other.end is not None
    end = (own.end or 0.0) - (other.end or 0.0) if has_end else 0.0
    return Difference(list(_pieces(own.words, other.words)), end, own.n_tokens + has_end)


def _pieces(own: Sequence[Word], other: Sequence[Word]) -> Iterator[Piece]:
    matcher = SequenceMatcher(None, [word.text for word in own], [word.text for word in other], autojunk=False)
    for tag, own_from, own_to, other_from, other_to in matcher.get_opcodes():
        if tag == "equal":
            for word, same in zip(own[own_from:own_to], other[other_from:other_to], strict=True):
                yield Piece(len(word.text), word.nats - same.nats, False)
        else:
            mine, theirs = own[own_from:own_to], other[other_from:other_to]
            nats = math.fsum(word.nats for word in mine) - math.fsum(word.nats for word in theirs)
            yield Piece(sum(len(word.text) for word in mine), nats, True)
