"""What a door makes of a body, where that takes long: beside the event loop, and in bounded memory."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from gateway.ingest.bodies import TooLargeError

LARGE_BYTES = 32 * 1024
"""A larger body is read in a thread."""

MOST_CONTAINERS = 400_000
"""Objects and lists in one body, those in its texts included; an export of 8 MB has up to 250,000."""

T = TypeVar("T")


def require_few_containers(body: bytes) -> None:
    """Raises TooLargeError for a body in JSON that is little but brackets: as objects it would take fifty times its
    bytes, and the collection of garbage would stop live traffic for half a second.
    """
    if body.count(b"{") + body.count(b"[") > MOST_CONTAINERS:
        raise TooLargeError(f"the body has more than {MOST_CONTAINERS} objects and lists: send smaller batches")


class Reading:
    """Reads large bodies one after the other: as objects one may take fifty times its bytes, and two threads that read
    are no faster than one.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def read(self, read: Callable[[bytes], T], body: bytes) -> T:
        """`read` of the body."""
        if len(body) <= LARGE_BYTES:
            return read(body)
        async with self._lock:
            return await asyncio.to_thread(read, body)
