"""Facts about questions (a suite's own struct) by a hash of the question without choice order, shots, mitigation."""

import hashlib
from collections.abc import Iterable
from typing import TypeVar

import msgspec

Fact = TypeVar("Fact", bound=msgspec.Struct)


class AnswerKey:
    """Facts by their type and signature."""

    def __init__(self, facts: Iterable[tuple[str, msgspec.Struct]]) -> None:
        self._facts: dict[type[msgspec.Struct], dict[bytes, msgspec.Struct]] = {}
        for signature, fact in facts:
            self._facts.setdefault(type(fact), {})[_digest(signature)] = fact

    def find(self, kind: type[Fact], signature: str) -> Fact | None:
        """The fact of this kind with this signature; None when there is none."""
        fact = self._facts.get(kind, {}).get(_digest(signature))
        return fact if isinstance(fact, kind) else None


def _digest(signature: str) -> bytes:
    return hashlib.blake2b(signature.encode("utf-8", "surrogatepass"), digest_size=12).digest()
