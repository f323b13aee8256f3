"""Passive outlier detection, as in Envoy: ejection after consecutive failures, doubled with every relapse, then a slow
start. For a server that lives (health checks) and fails its requests. Times are time.perf_counter() seconds.
"""

from gateway.config.schema import EjectionConfig

MIN_WEIGHT_SHARE = 0.1
"""Least share of its weight for an upstream that has just come back: enough traffic to judge it by."""


class OutlierDetector:
    """Consecutive failures, ejection and slow start of a single upstream."""

    __slots__ = ("_config", "_ejections", "_returned_at", "_until", "failures", "is_ejected", "share")

    def __init__(self, config: EjectionConfig) -> None:
        self._config = config
        self.failures = 0
        """In a row."""
        self.is_ejected = False
        self.share = 1.0
        """Part of its weight that counts at present: below 1 while it comes back."""
        self._ejections = 0
        """Since it last got through a slow start without a failure."""
        self._until = 0.0
        self._returned_at: float | None = None
        """Begin of a slow start that is not over."""

    def failed(self, now: float, *, sent_at: float) -> float | None:
        """Count a failure of a request since the last return; return the seconds of an ejection that follows."""
        if self.is_ejected or (self._returned_at is not None and sent_at < self._returned_at):
            return None
        self.failures += 1
        if self._returned_at is None and self.failures < self._config.consecutive_failures:
            return None
        return self.eject(now)

    def succeeded(self) -> None:
        self.failures = 0

    def eject(self, now: float) -> float:
        """Leaves the upstream out; returns for how many seconds."""
        seconds = min(self._config.base_seconds * 2.0 ** min(self._ejections, 60), self._config.max_seconds)
        self._ejections += 1
        self.is_ejected = True
        self._until = now + seconds
        self._returned_at = None
        return seconds

    def uneject(self, now: float) -> None:
        self.is_ejected = False
        self.failures = 0
        self._returned_at = now
        self.tick(now)

    def tick(self, now: float) -> bool:
        """Lets time pass; whether an ejection has just ended."""
        if self.is_ejected:
            if now < self._until:
                return False
            self.uneject(now)
            return True
        if self._returned_at is not None:
            elapsed, window = now - self._returned_at, self._config.slow_start_seconds
            if elapsed < window:
                self.share = max(MIN_WEIGHT_SHARE, elapsed / window)
            else:
                self.share, self._returned_at, self._ejections = 1.0, None, 0
        return False
