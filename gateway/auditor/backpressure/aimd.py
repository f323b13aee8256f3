"""AIMD limit on the audit requests in flight at a server: fewer while live requests wait there, more when none do.
vLLM's priorities order its queue, but do not stop a running request of low priority to free a slot. So audits are held
back before they are sent. Additive increase, multiplicative decrease, as in TCP (Chiu and Jain, 1989):
- live requests wait: half of the audits in flight, down to 0. Requests wait at the server, and it holds more requests
  than the auditor sent (if it holds audits only, they wait for each other, and the limit stays). Or the gateway reports
  live requests that have waited too long for their first byte: half, or one less for each of them;
- the key-value cache is nearly full, or the server answers 429 or 503: half, down to 1;
- live answers are slower than `audits.live_latency_budget_ratio` allows (`latency_budget`): the number within the
  budget if each audit slowed answers equally, half at most, down to 0; no increase until answers are within it again or
  live traffic ends;
- three polls in a row without any of these: an eighth of the cap more each second, up to the cap.
In the first and the third case, audits above the limit are cut off. At a limit of 0, one request is admitted after each
pause of `audits.max_pause_seconds`. A server without vLLM's metrics is judged by its answers alone.
"""

import math
from typing import Literal, get_args

from gateway.auditor.backpressure.latency_budget import Verdict
from gateway.auditor.backpressure.vllm_load import Load

Reason = Literal["live_waiting", "live_latency"]
"""Reason why audits in flight are cut off."""
REASONS: tuple[Reason, ...] = get_args(Reason)

POLL_SECONDS = 1.0
"""Pause between two polls of a server, while audits are in flight there or are held back."""
CALM_POLLS = 3
"""Polls in a row without overload before the limit rises: gauges show a single moment, and queues come in bursts."""
POLLS_TO_THE_CAP = 8
"""Further such polls in which the limit rises from 0 to the cap."""


def others_wait(load: Load | None, peak: int) -> bool:
    """Return whether requests wait at a server that holds more than `peak`, the largest number of audits in flight."""
    return load is not None and load.waiting > 0 and load.running + load.waiting > peak


class AimdLimit:
    """The rule as arithmetic, without I/O. Times are seconds of any clock."""

    def __init__(self, *, max_kv_usage_ratio: float, max_pause_seconds: float) -> None:
        """Start at a cap of 0: nothing may be sent until `widen` is called."""
        self.cap = 0
        self.allowed = 0.0
        """Requests that may be in flight; a fraction allows none."""
        self._max_kv_usage = max_kv_usage_ratio
        self._max_pause = max_pause_seconds
        self._overloaded_at = -math.inf
        self._calm_polls = CALM_POLLS
        """Polls since the last overload."""
        self._polled_at: float | None = None
        self._is_slow = False
        """True after live answers were too slow, until they are known to be fast again."""

    @property
    def is_open(self) -> bool:
        """Return whether the limit is at the cap."""
        return self.allowed >= self.cap

    @property
    def is_settled(self) -> bool:
        """Return whether further polls without a request change nothing."""
        return self.is_open or self._is_slow

    def widen(self, places: int) -> None:
        """Raise the cap by `places` (lower it, if negative); a limit at the cap stays at the cap."""
        was_open = self.is_open
        self.cap += places
        self.allowed = float(self.cap) if was_open else min(self.allowed, float(self.cap))

    def update(
        self,
        load: Load | None,
        *,
        in_flight: int,
        peak: int,
        now: float,
        latency: Verdict = "unknown",
        affordable: float = 0.5,
    ) -> Reason | None:
        """Take a poll of the server into account; return why audits above the limit are to be cut off, None if they may
        go on. `load`: the server's gauges; None if it has none. `peak`: most audits in flight since the previous poll,
        as the gauges may still count ended requests. `affordable`: share of the audits in flight that remains when
        `latency` is "over".
        """
        reason: Reason | None = None
        self._is_slow = self._is_slow and latency != "within" and load is not None
        since = POLL_SECONDS if self._polled_at is None else now - self._polled_at
        if others_wait(load, peak):
            self._cut(in_flight / 2, at_least=0)
            reason = "live_waiting"
        elif load is not None and load.kv_usage > self._max_kv_usage:
            self._cut(in_flight / 2, at_least=1)
        elif latency == "over":
            self._cut(peak * affordable, at_least=0)
            self._is_slow = True
            reason = "live_latency"
        else:
            self._calm_polls += 1
            if self._calm_polls >= CALM_POLLS and not self._is_slow:
                step = max(1.0, self.cap / POLLS_TO_THE_CAP) * since / POLL_SECONDS
                self.allowed = min(float(self.cap), self.allowed + step)
        self._polled_at = now
        return reason

    def on_live_waiting(self, *, in_flight: int, waiting: int) -> None:
        """Take note that `waiting` live requests have waited too long."""
        self._cut(min(in_flight / 2, in_flight - waiting), at_least=0)

    def on_overload(self, *, in_flight: int, now: float) -> None:
        """Take note that the server answered 429 or 503. Answers within a burst count once."""
        if now - self._overloaded_at >= POLL_SECONDS:
            self._cut(in_flight / 2, at_least=1)
            self._overloaded_at = now

    def may_send(self, *, in_flight: int, idle_seconds: float, is_pausing: bool = False) -> bool:
        """Return whether another request may be sent. `idle_seconds`: time without audits in flight while some wait."""
        if in_flight + 1 <= self.allowed and not is_pausing:
            return True
        return self.cap > 0 and in_flight == 0 and idle_seconds >= self._max_pause

    def _cut(self, target: float, *, at_least: int) -> None:
        self._calm_polls = 0
        self.allowed = float(min(max(int(min(self.allowed / 2, target)), at_least), self.cap))
