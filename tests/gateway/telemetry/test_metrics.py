import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.telemetry.exposition import Exposition
from gateway.telemetry.metrics import GatewayCollector
from gateway.telemetry.shared_counts import SharedCounts
from gateway.telemetry.worker_stats import LAG_SECONDS, Snapshot, WorkerStats
from gateway.ticks import every
from tests.support.ended_requests import end_one
from tests.support.gateway.left_counts import leave_counts
from tests.support.waiting import eventually

LABELS = {"upstream": "a", "model": "m", "endpoint": "/v1/chat/completions", "outcome": "complete"}


def sample(exposition: Exposition, name: str, **labels: str) -> float | None:
    return exposition.registry.get_sample_value(name, labels)


def left_by_a_dead_worker(directory: Path) -> Snapshot:
    """A snapshot file whose process has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stats = WorkerStats()
    end_one(stats)
    stats.started("a")
    snapshot = stats.snapshot()
    snapshot.pid = ended.pid
    snapshot.exchanges = {"queued": 3}
    leave_counts(directory / "worker-dead.counts", snapshot)
    return snapshot


def test_counts_and_sums_of_one_worker() -> None:
    """Each ended request adds one to the counter and to each histogram, with its seconds in the sums."""
    stats = WorkerStats()
    end_one(stats, duration=0.02)
    end_one(stats, duration=0.3, first_chunk=None)
    exposition = Exposition(GatewayCollector(SharedCounts(stats, None)))

    assert sample(exposition, "biasgate_requests_total", **LABELS) == 2
    assert sample(exposition, "biasgate_request_duration_seconds_count", **LABELS) == 2
    assert sample(exposition, "biasgate_request_duration_seconds_sum", **LABELS) == pytest.approx(0.32)
    assert sample(exposition, "biasgate_overhead_seconds_count", **LABELS) == 2
    assert sample(exposition, "biasgate_time_to_first_chunk_seconds_count", **LABELS) == 1
    assert sample(exposition, "biasgate_inflight_requests", upstream="a") == 0


def test_buckets_are_cumulative_and_upper_bounds_inclusive() -> None:
    """A duration equal to a bound falls into that bound's bucket, and each bucket includes the smaller ones."""
    stats = WorkerStats()
    for duration in (0.005, 0.0051, 1000.0):
        end_one(stats, duration=duration)
    exposition = Exposition(GatewayCollector(SharedCounts(stats, None)))

    def bucket(bound: str) -> float | None:
        return sample(exposition, "biasgate_request_duration_seconds_bucket", le=bound, **LABELS)

    assert [bucket("0.005"), bucket("0.01"), bucket("300.0"), bucket("+Inf")] == [1, 2, 2, 3]


def test_dead_workers_counters_stay_and_gauges_go(tmp_path: Path) -> None:
    """Counters do not fall when a worker dies, but its requests in flight are gone."""
    left_by_a_dead_worker(tmp_path)
    stats = WorkerStats()
    end_one(stats)
    exposition = Exposition(GatewayCollector(SharedCounts(stats, tmp_path)))

    assert sample(exposition, "biasgate_requests_total", **LABELS) == 2
    assert sample(exposition, "biasgate_exchanges_total", outcome="queued") == 3
    assert sample(exposition, "biasgate_inflight_requests", upstream="a") == 0


def test_gauges_of_a_silent_worker_are_dropped(tmp_path: Path) -> None:
    """A file not rewritten for long is not believed about the present, although its process id is in use."""
    snapshot = left_by_a_dead_worker(tmp_path)
    snapshot.pid, snapshot.written_at = os.getppid(), snapshot.written_at - 60
    leave_counts(tmp_path / "worker-dead.counts", snapshot)
    exposition = Exposition(GatewayCollector(SharedCounts(WorkerStats(), tmp_path)))

    assert sample(exposition, "biasgate_inflight_requests", upstream="a") is None
    assert sample(exposition, "biasgate_requests_total", **LABELS) == 1


async def test_a_long_step_is_seen() -> None:
    """A step of 0.3 s makes the next timer late by most of it."""
    seen: list[float] = []
    watching = asyncio.create_task(every(LAG_SECONDS, seen.append))
    await eventually(lambda: len(seen) >= 2)
    time.sleep(0.3)  # noqa: ASYNC251 - the very thing that is to be noticed
    before = len(seen)
    await eventually(lambda: len(seen) > before)
    watching.cancel()
    assert 0.2 < max(seen) < 5
