"""What a fuzz target is."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

MOST_SECONDS = 1.0
"""Of processor time, for an input of `mutation.MAX_BYTES`."""


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


def check_in_time(check: Callable[[bytes], None], data: bytes) -> None:
    """Run the check; raise Broken if it takes over MOST_SECONDS twice (the first use of a pattern compiles it)."""
    for _ in range(2):
        started = time.process_time()
        check(data)
        if (spent := time.process_time() - started) <= MOST_SECONDS:
            return
    raise Broken(f"{spent:.2f} s for {len(data)} bytes")
