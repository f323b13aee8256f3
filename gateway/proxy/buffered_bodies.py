"""Counts the bytes of request bodies that a worker holds in all, and chooses the body to give up when they are too
many.
"""

from typing import Protocol

from gateway.proxy.refusals import BUFFERS_FULL, Refusal


class Buffered(Protocol):
    """An exchange that holds (part of) its request's body."""

    held_bytes: int
    """Kept by BufferedBodies."""

    def refuse(self, refusal: Refusal) -> None:
        """Answers, forgets its body and calls `BufferedBodies.release`."""


class BufferedBodies:
    """The sum, and the bodies that are still coming.

    When there is no room the largest of those is given up: whoever sends much and slowly keeps no one else out.
    """

    __slots__ = ("_growing", "held", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        """Bytes; `server.max_buffered_bytes`."""
        self.held = 0
        """Bytes, until their exchange ends or its answer begins."""
        self._growing: set[Buffered] = set()

    def add(self, body: Buffered, size: int) -> None:
        self.held += size
        body.held_bytes += size
        self._growing.add(body)
        if self.held > self.most:
            self.make_room()

    def make_room(self) -> bool:
        """Gives up bodies that are still coming, the largest first; whether what is held is within the limit then."""
        while self.held > self.most and self._growing:
            largest = max(self._growing, key=_held)
            self._growing.discard(largest)
            largest.refuse(BUFFERS_FULL)
        return self.held <= self.most

    def completed(self, body: Buffered) -> None:
        self._growing.discard(body)

    def release(self, body: Buffered) -> None:
        self.held -= body.held_bytes
        body.held_bytes = 0
        self._growing.discard(body)


def _held(body: Buffered) -> int:
    return body.held_bytes
