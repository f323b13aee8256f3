"""Computes when something is due: a cron line in UTC, or every so many seconds. Missed times become one."""

import math
import time
from datetime import UTC, datetime

import msgspec

from gateway.errors import RequestError

SHORTEST_SECONDS = 60.0


class Timing(msgspec.Struct, frozen=True):
    """Exactly one of the two is given; make one with `Timing.of`."""

    cron: str | None = None
    every_seconds: float | None = None

    @classmethod
    def of(cls, cron: str | None, every_seconds: float | None) -> "Timing":
        """Raises RequestError in words that fit any caller."""
        if (cron is None) == (every_seconds is None):
            raise RequestError("give either cron or an interval")
        if every_seconds is not None and not SHORTEST_SECONDS <= every_seconds < math.inf:
            raise RequestError(f"the interval is {every_seconds:g} s: the shortest is {SHORTEST_SECONDS:g} s")
        timing = cls(cron, every_seconds)
        timing.next_after(time.time(), since=time.time())
        return timing

    def next_after(self, now: float, *, since: float) -> float:
        """Return the first Unix time after `now`. Raises RequestError for a cron line malformed or never due."""
        if self.every_seconds is not None:
            return since + (math.floor((now - since) / self.every_seconds) + 1) * self.every_seconds
        from croniter import CroniterError, croniter  # loaded only where a cron line is written

        line = self.cron or ""
        if len(line.split()) != 5:
            raise RequestError(f'cron "{line}" has {len(line.split())} fields: minute hour day month weekday are five')
        try:
            return float(croniter(line, datetime.fromtimestamp(now, UTC)).get_next(float))
        except CroniterError as exc:
            raise RequestError(f'cron "{line}": {exc}') from exc
