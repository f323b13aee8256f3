"""Memory of what is sent to the doors: accounted for as it grows, bounded in all and for each key.

It lies within the memory of all copies (`SamplingTap.reserve`), and stays below the half from which on the tap lowers
the sampling rates of live traffic: no sender to a door can do that.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator

from gateway.errors import BusyError
from gateway.sampling.tap import BUFFER_BYTES, SamplingTap

REQUESTS_AT_ONCE = 64
"""Requests that are being read or wait for the writer; more are told to come again."""
MOST_BYTES = BUFFER_BYTES // 2
"""All requests together."""
MOST_BYTES_OF_A_KEY = MOST_BYTES // 2
"""Bytes of all requests of a single key, so that another key's find room. A request alone is read whatever its size."""
EXCHANGE_BYTES = 1536
"""Bytes that an exchange, or part of an exchange, takes as objects in addition to its texts."""

FULL = "too much that was sent waits to be stored: send it again in a moment"


class Room:
    """Memory of a single request."""

    def __init__(self, rooms: "Rooms", key: str | None) -> None:
        self._rooms = rooms
        self._key = key
        self.held = 0

    def hold(self, n_bytes: int) -> None:
        """Account for more. Raises BusyError where there is not enough memory for it."""
        n_bytes = min(n_bytes, MOST_BYTES_OF_A_KEY - self.held)
        if n_bytes > 0:
            self._rooms.reserve(self._key, n_bytes)
            self.held += n_bytes


class Rooms:
    """Memory of all requests of a worker; copies of live traffic (`tap`) share it."""

    def __init__(self, tap: SamplingTap) -> None:
        self._tap = tap
        self._n_requests = 0
        self._held: Counter[str | None] = Counter()

    @contextlib.contextmanager
    def request(self, key: str | None) -> Iterator[Room]:
        """A request that is being read, with a key of this name. Raises BusyError where there are too many."""
        if self._n_requests >= REQUESTS_AT_ONCE:
            raise BusyError(FULL)
        room = Room(self, key)
        self._n_requests += 1
        try:
            yield room
        finally:
            self._n_requests -= 1
            self._tap.release(room.held)
            self._held[key] -= room.held
            self._held = +self._held

    def reserve(self, key: str | None, n_bytes: int) -> None:
        """Reserve memory. Raises BusyError where there is not enough for so many bytes of this key."""
        if (
            self._held[key] + n_bytes > MOST_BYTES_OF_A_KEY
            or self._held.total() + n_bytes > MOST_BYTES
            or not self._tap.reserve(n_bytes)
        ):
            raise BusyError(FULL)
        self._held[key] += n_bytes
