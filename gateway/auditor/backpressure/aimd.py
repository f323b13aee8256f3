"""AIMD limit on the audit requests in flight at a server: fewer while live requests wait there, more when none do.

vLLM's priorities order its queue, but it does not stop a running request of low priority to free a slot. So audits are
held back here, before they are sent. Additive increase, multiplicative decrease, as TCP does (Chiu and Jain, 1989):

- others wait: half of what is in flight, down to none. Requests wait at the server, and it holds more than ours; which
  of the waiting ones are ours it does not say. Where all that it holds is ours, ours wait for each other: no reason.
  Or the gateway knows that live requests have waited for their first byte for too long: half, or one less for each;
- the key-value cache is nearly full, or the server answers 429 or 503: half, down to one;
- live answers are slower than `audits.live_latency_budget_ratio` allows (`latency_budget`): as many as
  would be within it if each audit slowed answers by as much, half at most and down to none, and no more until answers
  are known to be within it or no one is there;
- nothing of the kind at three polls in a row: an eighth of the cap more each second, up to the cap.

In the first and the third case those above the limit are cut off. Held back entirely, one request is admitted after
each pause of `audits.max_pause_seconds`: audits become rare and never stop. A server without vLLM's metrics is watched
by its answers alone.
"""

import math
from typing import Literal, get_args

from gateway.auditor.backpressure.latency_budget import Verdict
from gateway.auditor.backpressure.vllm_load import Load

Reason = Literal["live_waiting", "live_latency"]
"""Why audits in flight are cut off."""
REASONS: tuple[Reason, ...] = get_args(Reason)

POLL_SECONDS = 1.0
"""Between two polls of a server, while audits are in flight there or are held back."""
CALM_POLLS = 3
"""Polls in a row that find nothing amiss, before more are allowed: gauges show a single moment, and queues come in
bursts."""
POLLS_TO_THE_CAP = 8
"""Further such polls, from none allowed to all."""


def others_wait(load: Load | None, peak: int) -> bool:
    """Return whether requests wait at a server that holds more than `peak`, the most of ours."""
    return load is not None and load.waiting > 0 and load.running + load.waiting > peak


class AimdLimit:
    """The rule alone: numbers in, a number of requests out. Times are seconds of any one clock."""

    def __init__(self, *, max_kv_usage_ratio: float, max_pause_seconds: float) -> None:
        """No one may send until `widen` is called."""
        self.cap = 0
        self.allowed = 0.0
        """Requests that may be in flight; a fraction allows none."""
        self._max_kv_usage = max_kv_usage_ratio
        self._max_pause = max_pause_seconds
        self._overloaded_at = -math.inf
        self._calm_polls = CALM_POLLS
        """Since something was amiss."""
        self._polled_at: float | None = None
        self._is_slow = False
        """Whether live answers were too slow, and are not known to be faster now."""

    @property
    def is_open(self) -> bool:
        """Return whether the number allowed in flight is at its highest."""
        return self.allowed >= self.cap

    @property
    def is_settled(self) -> bool:
        """Return whether polls alone, without a request, change nothing any more."""
        return self.is_open or self._is_slow

    def widen(self, places: int) -> None:
        """The cap rises by so many (falls, if negative); what was at the cap stays there."""
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
        """Take a poll of the server into account.

        `load`: what it says; None when it says nothing of the kind. `peak`: the most of them since the poll before: its
        gauges may still count those that have ended. `affordable`: share of the audits in flight to which one that is
        "over" cuts them.

        Returns: why what is in flight above the limit is to be cut off; None when it may end by itself.
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
        """Take note that so many live requests are known to wait for too long."""
        self._cut(min(in_flight / 2, in_flight - waiting), at_least=0)

    def on_overload(self, *, in_flight: int, now: float) -> None:
        """Take note that the server answered 429 or 503. Answers of the same burst count once."""
        if now - self._overloaded_at >= POLL_SECONDS:
            self._cut(in_flight / 2, at_least=1)
            self._overloaded_at = now

    def may_send(self, *, in_flight: int, idle_seconds: float, is_pausing: bool = False) -> bool:
        """Return whether another request may go, after none of ours was in flight for so long though some waited."""
        if in_flight + 1 <= self.allowed and not is_pausing:
            return True
        return self.cap > 0 and in_flight == 0 and idle_seconds >= self._max_pause

    def _cut(self, target: float, *, at_least: int) -> None:
        self._calm_polls = 0
        self.allowed = float(min(max(int(min(self.allowed / 2, target)), at_least), self.cap))
