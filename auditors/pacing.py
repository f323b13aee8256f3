"""Who else may have a say in when a request leaves: the seam between clients and what watches a server's load."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

TURNED_AWAY = frozenset({429, 503})
"""Statuses by which a server says that it has too much to do."""


class Gate(Protocol):
    """Lets requests to one server through, one attempt at a time."""

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Entered once one more attempt may be in flight, left when it is over. The attempt's time begins inside."""
        ...

    def turned_away(self) -> None:
        """The server answered an attempt with one of TURNED_AWAY."""
        ...


class OpenGate:
    """Lets everything through at once."""

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def turned_away(self) -> None:
        """Changes nothing."""


OPEN: Gate = OpenGate()

NEVER_SENT = "held back, and called off before it was sent"
"""Says so in the CancelledError of an attempt that never had its turn: it has cost the server nothing."""
