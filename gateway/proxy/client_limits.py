"""Limits heads, the time to send a request, and the bytes of all bodies. Sizes are checked where that is cheap: exactly
once an unusual head is complete, roughly while it comes. Time is looked at once a second for every connection.
"""

from collections.abc import Iterable
from typing import Protocol

from gateway.config.schema import ServerConfig
from gateway.proxy.headers import Header
from gateway.proxy.refusals import BUFFERS_FULL, Refusal, head_too_large, too_many_headers

CLIENT_TICK_SECONDS = 1.0
"""Seconds by which the notice of a slow client may be late."""


class BadHead(Exception):
    """Raised inside a parser callback: nothing after this request head can be trusted. The connection ends with it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class ClientConnection(Protocol):
    """A client's connection."""

    def check_client(self, now: float) -> None:
        """End the connection when its next bytes are late; `now` is time.perf_counter()."""


class Wait:
    """The time for which the same thing has been waited for, as seen by an observer who looks now and then."""

    __slots__ = ("_awaited", "_since")

    def __init__(self) -> None:
        self._awaited: object = None
        self._since = 0.0

    def seconds(self, awaited: object, now: float) -> float:
        """Since `awaited` was first given here, without another in between; what is the same is told by identity."""
        if awaited is not self._awaited:
            self._awaited, self._since = awaited, now
        return now - self._since


def require_small_head(url: bytes, headers: Iterable[Header], limits: ServerConfig) -> None:
    """Raises BadHead for a complete head that is longer than `max_header_bytes` or has more than `max_headers`."""
    size, count = len(url), 0
    for name, value in headers:
        size += len(name) + len(value) + 4  # colon, space and line end
        count += 1
    if size > limits.max_header_bytes:
        raise BadHead(head_too_large(limits.max_header_bytes))
    if count > limits.max_headers:
        raise BadHead(too_many_headers(limits.max_headers))


class Buffered(Protocol):
    """An exchange that holds (part of) its request's body."""

    held_bytes: int

    def refuse(self, refusal: Refusal) -> None:
        """Answer, forget the body and call `BufferedBodies.release`."""


class BufferedBodies:
    """The sum, and the bodies still coming: without room the largest goes, so no slow sender keeps others out."""

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
            largest = max(self._growing, key=lambda body: body.held_bytes)
            self._growing.discard(largest)
            largest.refuse(BUFFERS_FULL)
        return self.held <= self.most

    def completed(self, body: Buffered) -> None:
        self._growing.discard(body)

    def release(self, body: Buffered) -> None:
        self.held -= body.held_bytes
        body.held_bytes = 0
        self._growing.discard(body)
