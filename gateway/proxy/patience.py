"""Computes the time a live request may wait for its first byte before the audits in flight along with it are to blame:
mean and two standard deviations of the waits without audits in flight, which fade with later requests. Until enough are
known, a stream is given one look, so that audits make way and the usual wait is learned; replies have no limit.
"""

import math

from gateway.proxy.live_waits import Waiting, Waits
from gateway.proxy.waits_board import LOOK_SECONDS

LEAST_SECONDS = LOOK_SECONDS
STANDARD_DEVIATIONS = 2.0
LEAST_KNOWN = 5.0
"""Requests, before their usual wait is known."""
KEPT_PER_REQUEST = 0.99
"""Share of the knowledge that is kept at each further request: the last hundred."""


class UsualWait:
    """Mean and spread of the waits of a single kind of live requests without audits."""

    def __init__(self) -> None:
        self._n = self._seconds = self._squares = 0.0
        self._before = Waiting()

    @property
    def is_known(self) -> bool:
        return self._n >= LEAST_KNOWN

    @property
    def bound(self) -> float:
        """Seconds that few requests exceed. Only where it is known."""
        mean = self._seconds / self._n
        variance = max(0.0, self._squares / self._n - mean * mean)
        return max(LEAST_SECONDS, mean + STANDARD_DEVIATIONS * math.sqrt(variance))

    def update(self, now_waiting: Waiting, quiet_seconds: float) -> None:
        """One look. `quiet_seconds`: how long no audit has been in flight."""
        before, self._before = self._before, now_waiting
        answered = now_waiting.answered - before.answered
        if answered <= 0:  # none, or a worker went away with its counts
            return
        seconds = max(0.0, now_waiting.seconds - before.seconds)
        if quiet_seconds < seconds / answered + LOOK_SECONDS:  # some of them began beside audits
            return
        decay = KEPT_PER_REQUEST**answered
        self._n = decay * self._n + answered
        self._seconds = decay * self._seconds + seconds
        self._squares = decay * self._squares + max(0.0, now_waiting.squares - before.squares)


class Patience:
    """Tells for a single upstream if its live requests wait for too long. Times are time.perf_counter()."""

    def __init__(self) -> None:
        self._streams = UsualWait()
        self._replies = UsualWait()
        self._busy_at = -math.inf
        self._cut_at = -math.inf

    def update(self, waits: Waits, *, audits: int, now: float) -> None:
        """One look; `audits` are in flight."""
        if audits:
            self._busy_at = now
        self._streams.update(waits.streams, now - self._busy_at)
        self._replies.update(waits.replies, now - self._busy_at)

    def overdue(self, waits: Waits, now: float) -> int:
        """Return the live requests that may wait because of audits; 0 while none has for too long since a cut."""
        bound = self._streams.bound if self._streams.is_known else LEAST_SECONDS
        n_overdue = self._of(waits.streams, bound, now)
        if self._replies.is_known:
            n_overdue += self._of(waits.replies, self._replies.bound, now)
        return n_overdue

    def audits_were_cut(self, now: float) -> None:
        self._cut_at = now

    def _of(self, waiting: Waiting, bound: float, now: float) -> int:
        if not waiting.count or now - max(waiting.since, self._cut_at) < bound:
            return 0
        return waiting.count
