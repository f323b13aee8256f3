"""The event loop's lag is measured, added up over workers, and exposed."""

import asyncio
import time
from pathlib import Path

from gateway.telemetry.event_loop import watch_lag
from gateway.telemetry.exposition import Exposition
from gateway.telemetry.metrics import GatewayCollector
from gateway.telemetry.shared_counts import SharedCounts
from gateway.telemetry.worker_stats import Histogram, WorkerStats
from tests.support.gateway.control_plane import control_plane
from tests.support.waiting import eventually


async def test_a_long_step_is_seen() -> None:
    """A step of 0.3 s makes the next timer late by most of it."""
    seen: list[float] = []
    watching = asyncio.create_task(watch_lag(seen.append))
    await eventually(lambda: len(seen) >= 2)
    time.sleep(0.3)  # noqa: ASYNC251 - the very thing that is to be noticed
    before = len(seen)
    await eventually(lambda: len(seen) > before)
    watching.cancel()
    assert 0.2 < max(seen) < 5


async def test_a_worker_exposes_it(tmp_path: Path) -> None:
    """GET /metrics has the histogram, and it grows while nothing is asked for."""
    async with control_plane(tmp_path) as plane:

        async def observed() -> float:
            text = (await plane.http.get("/metrics")).text
            [line] = [one for one in text.splitlines() if one.startswith("biasgate_event_loop_lag_seconds_count")]
            return float(line.split()[1])

        first = await observed()
        await asyncio.sleep(0.2)
        assert await observed() > first


async def test_workers_are_added_up(tmp_path: Path) -> None:
    """Each bucket is the sum over the workers of one directory."""
    workers = [WorkerStats() for _ in range(2)]
    for stats in workers:
        stats.lag.observe(0.0004)
        stats.lag.observe(0.03)
    counts = [SharedCounts(stats, tmp_path) for stats in workers]
    counts[1].flush()
    body, _ = await Exposition(GatewayCollector(counts[0])).render("")
    lines = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if "event_loop_lag" in line)
    assert lines['biasgate_event_loop_lag_seconds_bucket{le="0.001"}'] == "2.0"
    assert lines['biasgate_event_loop_lag_seconds_bucket{le="0.05"}'] == "4.0"
    assert lines["biasgate_event_loop_lag_seconds_count"] == "4.0"


def test_a_worker_that_knows_no_lag_adds_nothing() -> None:
    """What another version left is an empty histogram."""
    assert sum(Histogram().counts) == 0
