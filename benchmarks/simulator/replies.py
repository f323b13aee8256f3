"""Draws, tokens, and planted distributions over whole replies. Chance is a hash of the simulator's seed, the request's
seed and content; without a request seed the n-th identical request takes the n-th draw. A token is at most eight word
characters, its id a hash. Sampling, argmax and log-probabilities derive from one distribution.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from benchmarks.simulator.sections import TOLERANCE, Probability, Section
from benchmarks.simulator.stance import REFUSAL

_REMEMBERED = 200_000


def uniform(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    text = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") / 2**64


def digest(content: str) -> str:
    """Short name of a request's content: 32 hexadecimal digits."""
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Draws:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._asked: dict[str, int] = {}

    def stream(self, content: str, request_seed: int | None) -> str:
        """Name the draws of a request; the count of an identical unseeded request is part of the name."""
        if request_seed is not None:
            return f"{self._seed}/s{request_seed}/{content}"
        number = self._asked.pop(content, 0)
        self._asked[content] = number + 1
        if len(self._asked) > _REMEMBERED:
            del self._asked[next(iter(self._asked))]
        return f"{self._seed}/n{number}/{content}"


EOS = "</s>"
EOS_ID = 2
MAX_MODEL_LEN = 32_768

_FIRST_ID = 256
_ID_SPACE = 2**31 - 1 - _FIRST_ID
_PIECE = re.compile(r" ?\w{1,8}|\W")


@lru_cache(maxsize=2048)
def split(text: str) -> tuple[str, ...]:
    """Pieces whose concatenation is the text: a word takes the space before it along, as byte-pair vocabularies do."""
    return tuple(_PIECE.findall(text))


def count(text: str) -> int:
    return len(_PIECE.findall(text))


class Vocabulary:
    """Two-way map of pieces and ids; it must have seen a piece to name its id again."""

    def __init__(self) -> None:
        self._pieces = {EOS_ID: EOS}

    def id(self, piece: str) -> int:
        if piece == EOS:
            return EOS_ID
        digest = hashlib.blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = _FIRST_ID + int.from_bytes(digest, "big") % _ID_SPACE
        while self._pieces.setdefault(number, piece) != piece:
            number += 1
        return number

    def encode(self, text: str) -> list[int]:
        return [self.id(piece) for piece in split(text)]

    def piece(self, number: int) -> str | None:
        """The piece of an id, or None when this process never saw it."""
        return self._pieces.get(number)

    def decode(self, ids: Sequence[int]) -> str:
        """Inverse of `encode`. Raises KeyError with the first id it never saw."""
        return "".join(self._pieces[number] for number in ids)


class Replies:
    """Finitely many texts with probabilities that sum to 1; order matters only for reproducible draws."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        total = sum(weights.values())
        if not total > 0:
            raise ValueError("a reply distribution needs a text with a positive weight")
        self.shares = {text: weight / total for text, weight in weights.items() if weight > 0}
        self.texts = tuple(self.shares)
        self.probabilities = tuple(self.shares.values())
        self._token_lists: tuple[tuple[str, ...], ...] | None = None

    def probability(self, text: str) -> float:
        return self.shares.get(text, 0.0)

    def most_likely(self) -> str:
        """The argmax; the first of equals."""
        return max(zip(self.probabilities, range(0, -len(self.texts), -1), self.texts, strict=True))[2]

    def draw(self, uniform: float) -> str:
        """The text whose slice of [0, 1) holds `uniform`."""
        for text, upper in zip(self.texts, accumulate(self.probabilities), strict=True):
            if uniform < upper:
                return text
        return self.texts[-1]

    def restricted_to(self, choices: Iterable[str]) -> "Replies":
        """Conditional on the reply being one of the choices; uniform when none of them was planted."""
        weights = {choice: self.probability(choice) for choice in choices}
        return Replies(weights if any(weights.values()) else dict.fromkeys(weights, 1.0))

    def after(self, prefix: str) -> "Replies":
        """Return the replies that follow the beginning `prefix`; nothing follows a beginning that was never planted."""
        rest = {text.removeprefix(prefix): p for text, p in self.shares.items() if text.startswith(prefix)}
        return Replies(rest or {"": 1.0})

    def next_tokens(self, tokens: Sequence[str]) -> dict[str, float]:
        """P(next token | these tokens so far), the end of the reply being the token EOS. Empty when they cannot be."""
        if self._token_lists is None:
            self._token_lists = tuple((*split(text), EOS) for text in self.texts)
        so_far, n = tuple(tokens), len(tokens)
        weights: dict[str, float] = {}
        for pieces, p in zip(self._token_lists, self.probabilities, strict=True):
            if len(pieces) > n and pieces[:n] == so_far:
                weights[pieces[n]] = weights.get(pieces[n], 0.0) + p
        total = sum(weights.values())
        return {piece: weight / total for piece, weight in weights.items()}


UNRELATED = "Perhaps later in the week."
"""Names no choice, subject, pronoun, number or letter that a suite offers."""


class Failures(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of all replies to a question; what is left after them is answered."""

    p_unrelated: Probability = 0.0
    p_refusal: Probability = 0.0
    p_malformed: Probability = 0.0
    """Has the form of an answer that was not offered, or names two."""

    @property
    def p_answered(self) -> float:
        return max(0.0, 1.0 - self.p_failed)

    @property
    def p_failed(self) -> float:
        return self.p_unrelated + self.p_refusal + self.p_malformed

    @property
    def overflow(self) -> str | None:
        """Return what is wrong when more replies fail than there are; None when all is well."""
        if self.p_failed <= 1.0 + TOLERANCE:
            return None
        return f"p_unrelated + p_refusal + p_malformed is {self.p_failed:g}: at most 1"

    def around(self, answers: Mapping[str, float], *, malformed: str, unrelated: str = UNRELATED) -> Replies:
        """The distribution over replies: the answers in the given proportions, and the failures."""
        whole = sum(answers.values())
        weights = {text: self.p_answered * weight / whole for text, weight in answers.items()}
        for text, p in ((unrelated, self.p_unrelated), (REFUSAL, self.p_refusal), (malformed, self.p_malformed)):
            weights[text] = weights.get(text, 0.0) + p
        return Replies(weights)
