"""Tracks which live requests wait for their first byte, audit requests apart, by one dictionary entry a request. A
stream's first byte is its first token; a reply in one piece comes when all of it is generated, so its wait tells of a
queue only beyond what such replies usually take.
"""

from typing import Any, Protocol

import msgspec


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    """The live requests of a single kind that wait at an upstream, and the past waits of those that do no more."""

    count: int = 0
    since: float = 0.0
    """time.perf_counter() since when the oldest has waited; 0 when none waits."""
    answered: int = 0
    """Requests that got their first byte, ever."""
    seconds: float = 0.0
    """The sum of their waits."""
    squares: float = 0.0
    """The sum of the squares of their waits."""

    def plus(self, other: "Waiting") -> "Waiting":
        return Waiting(
            self.count + other.count,
            min(self.since or other.since, other.since or self.since),
            self.answered + other.answered,
            self.seconds + other.seconds,
            self.squares + other.squares,
        )


class Waits(msgspec.Struct, frozen=True, array_like=True):
    """Knowledge about an upstream's live requests."""

    streams: Waiting = Waiting()
    replies: Waiting = Waiting()
    """Requests that are not streamed: the first byte is the whole answer."""
    live: int = 0
    """Requests at the upstream, answered in part or not at all."""

    def plus(self, other: "Waits") -> "Waits":
        return Waits(self.streams.plus(other.streams), self.replies.plus(other.replies), self.live + other.live)


class AuditExchange(Protocol):
    """An audit request in flight."""

    @property
    def content(self) -> bytes:
        """Body of the request."""

    @property
    def sent_at(self) -> float:
        """time.perf_counter() at which the request was sent."""

    def cut_off(self) -> None:
        """End the request at once, at the upstream too; its client is told to ask again later."""


class Kind:
    """One kind of live requests: those that wait, oldest first, with the time since when."""

    __slots__ = ("answered", "seconds", "squares", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Any, float] = {}
        self.answered = 0
        self.seconds = 0.0
        self.squares = 0.0

    def first_byte(self, request: object, now: float) -> None:
        """One of them is answered from `now` (time.perf_counter()) on."""
        since = self.waiting.pop(request, None)
        if since is not None:
            seconds = now - since
            self.answered += 1
            self.seconds += seconds
            self.squares += seconds * seconds

    def snapshot(self) -> Waiting:
        since = next(iter(self.waiting.values()), 0.0)
        return Waiting(len(self.waiting), since, self.answered, self.seconds, self.squares)


class Audits(Kind):
    """Audit requests: counted from beginning to end, whenever their first byte comes."""

    __slots__ = ()

    def first_byte(self, request: object, now: float) -> None:
        """Changes nothing."""


class LiveWaits:
    """The requests of a single worker at a single upstream. Use from the event loop's thread."""

    __slots__ = ("audits", "replies", "streams")

    def __init__(self) -> None:
        self.streams = Kind()
        self.replies = Kind()
        self.audits = Audits()

    def snapshot(self, outstanding: int) -> Waits:
        """The present state; `outstanding` are all requests at the upstream, the audits among them."""
        return Waits(self.streams.snapshot(), self.replies.snapshot(), max(0, outstanding - len(self.audits.waiting)))
