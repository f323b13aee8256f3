"""What a gateway on this machine shows of the live requests at one server, judged by how long they usually wait."""

import time
from collections.abc import Callable
from typing import NamedTuple

from gateway.proxy.live_waits import Waiting
from gateway.proxy.patience import Patience
from gateway.proxy.waits_board import LOOK_SECONDS, BoardReader


class Seen(NamedTuple):
    """Live requests without their first byte."""

    waiting: int
    """For longer than a look: the server may be asked whether it has a queue."""
    overdue: int
    """Those of the kinds of which one has waited for too long."""


class LiveView:
    """Looks at one server's part of the board."""

    def __init__(self, board: BoardReader, origin: str, *, clock: Callable[[], float] = time.perf_counter) -> None:
        """`origin` is the server's base URL without /v1, as the gateway's configuration has it."""
        self._board = board
        self._origin = origin
        self._clock = clock
        self._patience = Patience()

    def look(self, *, audits: int) -> Seen | None:
        """What is seen now; None where no living gateway shows this server. `audits`: in flight there."""
        now = self._clock()
        waits = (self._board.read(now) or {}).get(self._origin)
        if waits is None:
            return None
        self._patience.update(waits, audits=audits, now=now)
        waiting = _since(waits.streams, now) + _since(waits.replies, now)
        return Seen(waiting, self._patience.overdue(waits, now))

    def audits_were_cut(self) -> None:
        """Whoever waits now is given time again."""
        self._patience.audits_were_cut(self._clock())


def _since(waiting: Waiting, now: float) -> int:
    return waiting.count if waiting.count and now - waiting.since >= LOOK_SECONDS else 0
