"""Detects that audits slow live answers down: inter-token latency with audits in flight, compared to that without. The
signal is the sum and count of vLLM's histogram of inter-token latencies from poll to poll. All requests of a batch step
together, so audits' own tokens hardly matter. Each span between two polls is compared with spans without audits at
about the same number of live requests, since audits come when traffic does. It cannot tell: the wait for the first
token, which vLLM counts without priorities; the tail, for it is a mean over tokens; other auditors' requests. Where the
spans are too few, too empty or too unlike one another, it says "unknown", and nothing is done.
"""

import math
from typing import Literal

from gateway.auditor.backpressure.vllm_load import Load

Verdict = Literal["over", "within", "unknown"]
"""Slower than the budget beyond doubt; within it, or no one there to be slowed; not known."""

LEAST_SPANS = 5.0
"""Spans with audits that are needed before there is a ratio; like all numbers of spans, of faded ones."""
LEAST_BASELINE_SPANS = 3.0
GOOD_BASELINE_SPANS = 6.0
"""Number of spans that a pause is for: then the baseline lasts for a half-life."""
LEAST_TOKENS = 200.0
"""Least number of tokens on each side."""
STANDARD_ERRORS = 2.0
"""Number of standard errors by which the ratio must be above the budget."""
BASELINE_HALF_LIFE_SECONDS = 300.0
"""Half-life of a baseline: the served model changes, so a baseline fades, and is too little after about this time."""
KEPT_PER_SPAN = 0.9
"""Share of the evidence with audits that is kept at each further span: ten spans, for the limiter moves."""
LONGEST_SPAN_SECONDS = 5.0
"""Between two polls; over a longer time the number of live requests says little."""
NOBODY_SECONDS = 10.0
"""Time after which no client counts as slowed down, if no poll saw a live request."""
PAUSE_AFTER_SECONDS = 30.0
"""Audits that never stop for so long, with no baseline to compare with, are made to."""
LONGEST_PAUSE_SECONDS = 60.0
"""Longest pause, mostly the time that audits in flight take to end; also the time from a pause to the next."""


class DecayingMean:
    """Weighted mean of numbers that lose weight."""

    def __init__(self) -> None:
        self.spans = 0.0
        self.tokens = 0.0
        self._wx = self._wxx = self._ww = 0.0

    def fade(self, factor: float) -> None:
        """All of them to this share of their weight."""
        self.spans *= factor
        self.tokens *= factor
        self._wx *= factor
        self._wxx *= factor
        self._ww *= factor * factor

    def add(self, value: float, tokens: float) -> None:
        self.spans += 1
        self.tokens += tokens
        self._wx += tokens * value
        self._wxx += tokens * value * value
        self._ww += tokens * tokens

    def holds(self, spans: float) -> bool:
        """Return whether it has so many spans, with tokens enough."""
        return self.spans >= spans and self.tokens >= LEAST_TOKENS

    @property
    def mean(self) -> float:
        """Only where there is something."""
        return self._wx / self.tokens

    @property
    def standard_error(self) -> float:
        """The standard error of the mean, from the spread over spans; infinite for a single span."""
        effective = self.tokens**2 / self._ww
        variance = max(0.0, self._wxx / self.tokens - self.mean**2)
        return math.sqrt(variance / (effective - 1)) if effective > 1 else math.inf


class LatencyBudget:
    """Evidence from successive polls of a single server. Times are seconds of any single clock."""

    def __init__(self, budget_ratio: float) -> None:
        """The budget is the largest mean time between tokens, in times of that without audits; 0 decides nothing."""
        self.ratio: float | None = None
        """Time between tokens with audits in flight, in times of that without, as last known; None before that."""
        self.is_pausing = False
        """Whether no audit should start, so that there is a baseline."""
        self._budget = budget_ratio
        self._before: tuple[Load, int, float] | None = None
        self._baselines: dict[int, DecayingMean] = {}
        self._faded_at = -math.inf
        self._evidence = DecayingMean()
        self._live_at = -math.inf
        self._without_at: float | None = None
        """When audits last were in flight at no time of a span."""
        self._paused_at = -math.inf

    @property
    def is_measurable(self) -> bool:
        """Return whether the server counts tokens and someone wants to know."""
        return self._budget > 0 and self._before is not None and self._before[0].tokens > 0

    @property
    def affordable_share(self) -> float:
        """The share of the audits in flight that is within the budget if each slows as much; 0.5 at most."""
        if self.ratio is None or self.ratio <= self._budget:
            return 0.5
        return min(0.5, (self._budget - 1.0) / (self.ratio - 1.0))

    def start_again(self) -> None:
        """Drops the evidence with audits: it was collected under another limit."""
        self._evidence = DecayingMean()

    def update(self, load: Load | None, *, in_flight: int, peak: int, allowed: float, now: float) -> Verdict:
        """Take a poll of the server, None if it shows no such load, and judge. `peak`: most in flight since the last
        poll. `allowed`: how many there should have been; more of them are left over from before, and tell nothing.
        """
        if not self._budget or load is None:
            self._before, self.is_pausing = None, False
            return "unknown"
        before, self._before = self._before, (load, in_flight, now)
        if load.running > peak:  # its gauges may still count ours that have ended
            self._live_at = now
        if before is None or not 0 < now - before[2] <= LONGEST_SPAN_SECONDS:
            self._without_at = now
            return "unknown"
        if load.waiting or before[0].waiting:  # which of ours run is not known
            return "unknown"
        live = (load.running - in_flight + before[0].running - before[1]) / 2
        self._fade(now)
        self._count(load.tokens - before[0].tokens, load.token_seconds - before[0].token_seconds, live, peak, allowed)
        if peak == 0:
            self._without_at = now
        self._pause(live, now)
        if now - self._live_at > NOBODY_SECONDS:
            return "within"
        return self._verdict(live)

    def _fade(self, now: float) -> None:
        if self._faded_at > -math.inf:
            factor = 0.5 ** ((now - self._faded_at) / BASELINE_HALF_LIFE_SECONDS)
            for baseline in self._baselines.values():
                baseline.fade(factor)
        self._faded_at = now

    def _count(self, tokens: float, seconds: float, live: float, peak: int, allowed: float) -> None:
        if tokens <= 0 or seconds <= 0 or live < 1:  # nobody was answered, or the server has started anew
            return
        if peak == 0:
            self._baselines.setdefault(_concurrency_bucket(live), DecayingMean()).add(seconds / tokens, tokens)
        elif (baseline := self._baseline(live)) and peak <= max(1.0, allowed):
            self._evidence.fade(KEPT_PER_SPAN)
            self._evidence.add(seconds / tokens / baseline.mean, tokens)

    def _baseline(self, live: float) -> DecayingMean | None:
        baseline = self._baselines.get(_concurrency_bucket(live)) if live >= 1 else None
        return baseline if baseline is not None and baseline.holds(LEAST_BASELINE_SPANS) else None

    def _verdict(self, live: float) -> Verdict:
        baseline = self._baseline(live)
        if not self._evidence.holds(LEAST_SPANS) or baseline is None:
            return "unknown"
        self.ratio = self._evidence.mean
        unsure = math.hypot(self._evidence.standard_error, baseline.standard_error / baseline.mean)
        if self.ratio - STANDARD_ERRORS * unsure > self._budget:
            return "over"
        return "within" if self.ratio <= self._budget else "unknown"

    def _pause(self, live: float, now: float) -> None:
        """Begins a pause where audits never stop and nothing is known of a server without them; ends it."""
        if self.is_pausing:
            baseline = self._baseline(live)
            is_over = live < 1 or (baseline is not None and baseline.holds(GOOD_BASELINE_SPANS))
            self.is_pausing = not is_over and now - self._paused_at < LONGEST_PAUSE_SECONDS
        elif self._without_at is not None and live >= 1 and self._baseline(live) is None and self.is_measurable:
            is_due = now - self._paused_at >= LONGEST_PAUSE_SECONDS + PAUSE_AFTER_SECONDS
            if is_due and now - self._without_at >= PAUSE_AFTER_SECONDS:
                self.is_pausing, self._paused_at = True, now


def _concurrency_bucket(live: float) -> int:
    """Live requests in steps of a factor 1.4, within which a batch takes about as long."""
    return round(2 * math.log2(live))
