"""Looks at the running gateway once a second: counters may never fall, memory may not grow, the rate should hold."""

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from tools.soak.accounts import Samples

POLL_SECONDS = 1.0
_RISING = ("_total", "_bucket", "_count", "_sum")
ROUNDING = 1e-9
"""Of a sum of seconds, relative: workers are added up in the order in which their files are found."""


@dataclass
class Watch:
    """What was seen so far. `urls` are the bases of the processes with /metrics, `pids` are named processes."""

    urls: list[str]
    pids: dict[str, int]
    rate: float
    scrapes: int = 0
    fallen: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    lowest_rate: float = 1.0
    memory: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Process to (time.monotonic(), resident MB)."""
    _last: dict[str, Samples] = field(default_factory=dict)

    async def look_until_cancelled(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            while True:
                for url in self.urls:
                    try:
                        self.compare(url, await scrape(http, url))
                    except httpx.HTTPError as exc:
                        self.failed.append(f"{url}/metrics: {exc!r}")
                for name, pid in self.pids.items():
                    with contextlib.suppress(OSError):
                        self.memory.setdefault(name, []).append((time.monotonic(), resident_mb(pid)))
                await asyncio.sleep(POLL_SECONDS)

    def compare(self, url: str, samples: Samples) -> None:
        """Notes every counter that fell since the last look, and the sampling rate in force."""
        self.scrapes += 1
        before = self._last.get(url, {})
        for key, value in before.items():
            name, labels = key
            if name.endswith(_RISING) and samples.get(key, 0.0) < value * (1 - ROUNDING):
                self.fallen.append(f"{name}{dict(labels)} fell from {value} to {samples.get(key)}")
        rates = [value for (name, _), value in samples.items() if name == "biasgate_sampling_rate"]
        self.lowest_rate = min([self.lowest_rate, *rates])
        self._last[url] = samples

    @property
    def was_pressed(self) -> bool:
        """The tap lowered its rate at some time."""
        return self.lowest_rate < self.rate

    def growth_mb(self, name: str, *, since: float, until: float) -> tuple[float, float]:
        """(MB by which a straight line through the samples of that time rises, MB at its end)."""
        samples = np.array([one for one in self.memory[name] if since <= one[0] <= until])
        if len(samples) < 3:
            return 0.0, float(samples[-1, 1]) if len(samples) else 0.0
        slope = np.polyfit(samples[:, 0] - samples[0, 0], samples[:, 1], 1)[0]
        return float(slope * (samples[-1, 0] - samples[0, 0])), float(samples[-1, 1])

    def quarters_mb(self, name: str) -> list[float]:
        """Resident memory at the start, after each quarter of the samples, and at the end."""
        samples = self.memory[name]
        return [samples[round(quarter * (len(samples) - 1) / 4)][1] for quarter in range(5)]


async def scrape(http: httpx.AsyncClient, url: str) -> Samples:
    """Every sample of one exposition. Each time on a new connection, so that every worker has its turn."""
    answer = await http.get(f"{url}/metrics", headers={"connection": "close"})
    answer.raise_for_status()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def resident_mb(pid: int) -> float:
    """Resident memory of a process. Raises OSError when it is gone."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
