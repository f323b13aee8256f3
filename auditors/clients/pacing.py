"""The interface between HTTP clients and what holds requests back or cuts them off, which costs no attempt."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

import msgspec

from auditors.types import CompletionError

OVERLOADED = frozenset({429, 503})


class Turn:
    """One request on its way through a gate, whatever number of attempts and evictions that takes."""

    __slots__ = ("body", "evictions", "replies")

    def __init__(self, body: bytes, replies: int = 1) -> None:
        self.body = body
        self.replies = replies
        """Asked for (`n`, or one for each conversation of a batch): each is a sequence of the server."""
        self.evictions = 0
        """How often it was cut off, or told by a gateway to come again."""


class EvictedError(Exception):
    """An attempt was cut off so that live requests get its place: ask the gate for another slot."""


class Gate(Protocol):
    """Admits requests to one server, one attempt at a time."""

    def slot(self, turn: Turn) -> AbstractAsyncContextManager[None]:
        """Entered when an attempt may start; its time limit begins inside. Raises EvictedError if cut off."""

    def on_overload(self) -> None:
        """The server answered an attempt with one of OVERLOADED."""


class OpenGate:
    """Admits everything at once."""

    def slot(self, turn: Turn) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def on_overload(self) -> None:
        """Changes nothing."""


OPEN: Gate = OpenGate()

NEVER_SENT = "held back, and cancelled before it was sent"
"""Argument of the CancelledError of an attempt that never got a slot: it has cost the server nothing."""


class NotSentError(CompletionError):
    """A request that was refused on this side, because its server is known to be sick; it has cost nothing."""


DEFERRED = "audit_deferred"
"""Code of the error with which a biasgate gateway turns an audit away, or cuts it off, while live requests wait."""


class _Error(msgspec.Struct):
    code: str | int | None = None


class _Body(msgspec.Struct):
    error: _Error


def is_deferred(status_code: int, body: bytes) -> bool:
    """Return whether an answer only asks for the same request later, which is neither failure nor attempt."""
    if status_code != 429:
        return False
    try:
        return msgspec.json.decode(body, type=_Body).error.code == DEFERRED
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
