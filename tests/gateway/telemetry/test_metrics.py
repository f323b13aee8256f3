import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.proxy.types import EndedRequest
from gateway.telemetry.exposition import Exposition
from gateway.telemetry.metrics import GatewayCollector
from gateway.telemetry.shared_counts import SharedCounts
from gateway.telemetry.worker_stats import Gauges, Snapshot, WorkerStats
from tests.support.ended_requests import end_one

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
    (directory / "worker-dead.msgpack").write_bytes(msgspec.msgpack.encode(snapshot))
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


def test_why_requests_were_filtered() -> None:
    """By reason, summed over workers."""
    stats = WorkerStats()
    stats.filtered["content_encoding"] += 2
    exposition = Exposition(GatewayCollector(SharedCounts(stats, None)))

    assert sample(exposition, "biasgate_filtered_total", reason="content_encoding") == 2


def test_buckets_are_cumulative_and_upper_bounds_inclusive() -> None:
    """A duration equal to a bound falls into that bound's bucket, and each bucket includes the smaller ones."""
    stats = WorkerStats()
    for duration in (0.005, 0.0051, 1000.0):
        end_one(stats, duration=duration)
    exposition = Exposition(GatewayCollector(SharedCounts(stats, None)))

    def bucket(bound: str) -> float | None:
        return sample(exposition, "biasgate_request_duration_seconds_bucket", le=bound, **LABELS)

    assert [bucket("0.005"), bucket("0.01"), bucket("300.0"), bucket("+Inf")] == [1, 2, 2, 3]


def test_rejected_request_without_upstream_leaves_inflight_alone() -> None:
    """A request refused before an upstream was chosen is counted but was never in flight."""
    stats = WorkerStats()
    stats.ended(
        EndedRequest(
            upstream="none",
            model="other",
            endpoint="other",
            outcome="rejected",
            duration_seconds=0.001,
            overhead_seconds=0.001,
            first_chunk_seconds=None,
            was_started=False,
            request_id="r",
        )
    )

    assert stats.snapshot().gauges.inflight == {}
    assert [series.outcome for series in stats.snapshot().series] == ["rejected"]


def test_workers_add_up(tmp_path: Path) -> None:
    """A scrape of one worker shows the sum over all workers of the directory."""
    first, second = WorkerStats(), WorkerStats()
    left, right = SharedCounts(first, tmp_path), SharedCounts(second, tmp_path)
    end_one(first)
    end_one(second)
    first.started("a")
    second.started("a")
    right.flush()

    exposition = Exposition(GatewayCollector(left))

    assert sample(exposition, "biasgate_requests_total", **LABELS) == 2
    assert sample(exposition, "biasgate_inflight_requests", upstream="a") == 2


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
    (tmp_path / "worker-dead.msgpack").write_bytes(msgspec.msgpack.encode(snapshot))
    exposition = Exposition(GatewayCollector(SharedCounts(WorkerStats(), tmp_path)))

    assert sample(exposition, "biasgate_inflight_requests", upstream="a") is None
    assert sample(exposition, "biasgate_requests_total", **LABELS) == 1


def test_gauges_come_from_the_surroundings() -> None:
    """Upstream health, sampling rates, models and ledger outcomes are asked for at the time of the scrape."""
    stats = WorkerStats()
    stats.surroundings = lambda: (
        {"sampled_out": 5},
        Gauges(
            upstream_up={"a": False},
            upstream_share={"a": 0.5},
            sampling_rate={"other": 0.25},
            model_info=[("a", "m", "fp")],
        ),
    )
    exposition = Exposition(GatewayCollector(SharedCounts(stats, None)))

    assert sample(exposition, "biasgate_upstream_up", upstream="a") == 0
    assert sample(exposition, "biasgate_upstream_share_ratio", upstream="a") == 0.5
    assert sample(exposition, "biasgate_sampling_rate", stratum="other") == 0.25
    assert sample(exposition, "biasgate_model_info", upstream="a", model="m", fingerprint="fp") == 1
    assert sample(exposition, "biasgate_exchanges_total", outcome="sampled_out") == 5


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
async def test_exposition_follows_the_accept_header(accept: str) -> None:
    """A scraper gets the format it asks for, and our families can be parsed back."""
    stats = WorkerStats()
    end_one(stats)
    body, content_type = await Exposition(GatewayCollector(SharedCounts(stats, None))).render(accept)

    assert content_type.startswith(accept.split(";")[0])
    names = {family.name for family in text_string_to_metric_families(body.decode().replace("# EOF\n", ""))}
    assert {name.removesuffix("_total") for name in names} >= {"biasgate_requests", "biasgate_overhead_seconds"}
