"""The interface between HTTP clients and a concurrency limiter, which may hold a request back before it is sent."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

OVERLOADED = frozenset({429, 503})
"""Statuses of a server that is overloaded."""


class Gate(Protocol):
    """Admits requests to one server, one attempt at a time."""

    def slot(self) -> AbstractAsyncContextManager[None]:
        """Entered once one more attempt may be in flight, left when it ends. The attempt's time limit begins inside."""
        ...

    def on_overload(self) -> None:
        """The server answered an attempt with one of OVERLOADED."""
        ...


class OpenGate:
    """Admits everything at once."""

    def slot(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def on_overload(self) -> None:
        """Changes nothing."""


OPEN: Gate = OpenGate()

NEVER_SENT = "held back, and cancelled before it was sent"
"""Argument of the CancelledError of an attempt that never got a slot: it has cost the server nothing."""
