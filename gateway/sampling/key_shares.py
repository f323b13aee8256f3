"""Lowers each key's rates so that no key is more than a given share of the sample. Draws are counted by key over the
last WINDOW_DRAWS to 2 * WINDOW_DRAWS, as if without shares; from time to time each key above the largest level that
keeps the share gets the factor level / count. A factor is known before the exchange it holds for is drawn, so inclusion
probability times factor is exact and inverse weights stay unbiased. Other workers count too (`ShareBoard`).
"""

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from gateway.worker_files import WorkerFile, WorkerFiles

WINDOW_DRAWS = 512
SMALLEST_FACTOR = 0.01
"""Least factor: a key is still seen if others send nothing, so that an idle key is not a way out."""
CORRECTION = 0.5
"""A key that had more than its share lately, before the factors knew, is lowered to this much more at most."""
UPDATE_FRACTION = 32
"""Factors are renewed with every 32nd part of what the window holds: the cost of a draw does not grow with its keys."""
FRESH_SECONDS = 10.0
"""Seconds after which the rates that another worker left say nothing about the present."""

_SUFFIX = ".keys"

Rates = Mapping[str, float]
"""Draws a second by key; "" is the anonymous client."""


class KeyShares:
    """The keys of a single worker's sample. Use from a single thread."""

    def __init__(self, largest_share: float) -> None:
        self.largest_share = largest_share
        """In (0, 1]; at 1 nothing is counted or lowered."""
        self.elsewhere: Rates = {}
        """What the other workers draw."""
        self.least = 1.0
        """The smallest factor in force."""
        self.factors: dict[str, float] = {}
        """Of the keys that are lowered."""
        self._now: Counter[str] = Counter()
        self._before: Counter[str] = Counter()
        self._weights: dict[str, float] = {}
        self._weights_before: dict[str, float] = {}
        self._drawn = 0
        self._drawn_before = 0
        self._due = 1
        self._began = self._began_before = time.monotonic()

    def draw(self, key: str) -> float:
        """The factor on the rate of an exchange that its rate alone would have drawn; then counts it."""
        if self.largest_share >= 1.0:
            return 1.0
        factor = self.factors.get(key, 1.0)
        self._now[key] += 1
        self._weights[key] = self._weights.get(key, 0.0) + factor
        self._drawn += 1
        if self._drawn >= self._due:
            self._renew()
        return factor

    def rates(self) -> dict[str, float]:
        """Return the rates that this worker drew lately, for the others."""
        seconds = max(time.monotonic() - self._began_before, 1e-3)
        return {key: count / seconds for key, count in (self._now + self._before).items()}

    def _renew(self) -> None:
        if self._drawn >= WINDOW_DRAWS:
            self._before, self._now = self._now, Counter()
            self._weights_before, self._weights = self._weights, {}
            self._drawn_before, self._drawn = self._drawn, 0
            self._began_before, self._began = self._began, time.monotonic()
        counts: dict[str, float] = dict(self._now + self._before)
        seconds = time.monotonic() - self._began_before
        for key, rate in self.elsewhere.items():
            counts[key] = counts.get(key, 0.0) + rate * seconds
        top = level(list(counts.values()), self.largest_share)
        total = sum(counts.values())
        drawn = self._drawn + self._drawn_before
        self.factors = {}
        for key, count in counts.items():
            if count > top:
                own = self._weights.get(key, 0.0) + self._weights_before.get(key, 0.0)
                allowed = top * drawn / total  # of what this worker draws
                correction = max(CORRECTION, min(1.0, allowed / own)) if own else 1.0
                self.factors[key] = max(SMALLEST_FACTOR, top / count * correction)
        self.least = min(self.factors.values(), default=1.0)
        self._due = self._drawn + max(1, drawn // UPDATE_FRACTION)


def level(counts: list[float], share: float) -> float:
    """Return the largest level such that min(count, level) of no key is above `share`, in (0, 1], of their sum. It is
    the largest count where no key has too much; equal parts where the keys are so few that none can be below.
    """
    counts = sorted(counts, reverse=True)
    share, rest = max(share, 1.0 / len(counts)), sum(counts)
    for above, count in enumerate(counts):  # so many keys are above the level
        if share * above >= 1.0:
            break
        limit = share * rest / (1.0 - share * above) if above else share * rest
        if count <= limit:
            return counts[0] if not above else limit
        rest -= count
    return counts[-1]


class ShareBoard:
    """The place that the workers of a gateway tell each other their rates in: a file of each in a directory."""

    def __init__(self, directory: Path) -> None:
        """Makes the file. Raises OSError when the directory cannot be written."""
        self._own = WorkerFile[Rates](directory, _SUFFIX)
        self._others = WorkerFiles(
            directory, _SUFFIX, dict[str, float], fresh_seconds=FRESH_SECONDS, without=self._own.name
        )

    def exchange(self, own: Rates, now: float) -> dict[str, float]:
        """Leaves these rates for the others at time `now` (time.monotonic()); returns the sum of theirs."""
        self._own.write(own, now)
        rates_by_key: dict[str, float] = {}
        for rates in self._others.read(now):
            for key, rate in rates.items():
                rates_by_key[key] = rates_by_key.get(key, 0.0) + rate
        return rates_by_key

    def close(self) -> None:
        self._own.close()
        self._others.close()
