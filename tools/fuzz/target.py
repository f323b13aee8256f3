"""What a fuzz target is."""

from collections.abc import Sequence
from typing import Protocol


class Broken(Exception):
    """An invariant does not hold; the message says which, with the values."""


class Target(Protocol):
    """One entrance for bytes that somebody else chose."""

    @property
    def seeds(self) -> Sequence[bytes]:
        """Inputs to start from: ordinary ones and known bad ones."""
        ...

    @property
    def tokens(self) -> Sequence[bytes]:
        """Words of the format, to be put in anywhere."""
        ...

    def check(self, data: bytes) -> None:
        """Raises when the input breaks an invariant; returns in bounded time otherwise."""
        ...

    def close(self) -> None:
        """Ends what it runs."""
        ...
