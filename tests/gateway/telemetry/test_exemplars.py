"""Exemplars: which requests lead from a number, and to which scrapers they are shown."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Exemplar

from gateway.telemetry.exemplars import exemplar
from gateway.telemetry.exposition import Exposition
from gateway.telemetry.metrics import GatewayCollector
from gateway.telemetry.shared_counts import SharedCounts
from gateway.telemetry.worker_stats import Series, WorkerStats
from tests.support.ended_requests import end_one

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PROTOBUF_FIRST = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
    "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""What Prometheus 2.42 sends with --enable-feature=native-histograms."""


def end(stats: WorkerStats, request_id: str, seconds: float, *, trace_id: str = "") -> None:
    end_one(stats, duration=seconds, first_chunk=seconds / 2, request_id=request_id, trace_id=trace_id)


def shown(counts: SharedCounts, family: str = "biasgate_request_duration_seconds") -> dict[str, Exemplar]:
    """The exemplars of a histogram by upper bound, as a scraper reads them."""
    body, _ = asyncio.run(Exposition(GatewayCollector(counts)).render(OPENMETRICS))
    read = text_string_to_metric_families(body.decode())  # type: ignore[no-untyped-call]
    families = {one.name: one for one in read}
    return {sample.labels["le"]: sample.exemplar for sample in families[family].samples if sample.exemplar is not None}


def test_each_bucket_leads_to_its_last_request() -> None:
    """Id, value and time are those of the newest request in that bucket; an empty bucket has none."""
    stats = WorkerStats()
    for request_id, seconds in (("first", 0.02), ("slow", 70.0), ("last", 0.021)):
        end(stats, request_id, seconds, trace_id="ab" * 16 if request_id == "slow" else "")
    found = shown(SharedCounts(stats, None))

    assert {bound: (one.labels, one.value) for bound, one in found.items()} == {
        "0.025": ({"request_id": "last"}, 0.021),
        "120.0": ({"request_id": "slow", "trace_id": "ab" * 16}, 70.0),
    }
    assert float(found["0.025"].timestamp or 0.0) >= float(found["120.0"].timestamp or 0.0) > 1.6e9
    first_chunks = shown(SharedCounts(stats, None), "biasgate_time_to_first_chunk_seconds")
    assert {bound: one.value for bound, one in first_chunks.items()} == {
        "0.01": 0.01,
        "0.025": 0.0105,
        "60.0": 35.0,
    }
    assert {one.value for one in shown(SharedCounts(stats, None), "biasgate_overhead_seconds").values()} == {0.0002}


def test_the_newest_of_all_workers(tmp_path: Path) -> None:
    """Whichever worker is scraped, a bucket leads to the request that any of them counted last."""
    first, second = WorkerStats(), WorkerStats()
    left, right = SharedCounts(first, tmp_path), SharedCounts(second, tmp_path)
    end(first, "older", 0.02)
    end(second, "newer", 0.02)
    end(first, "alone", 7.0)
    left.flush()
    right.flush()

    for one in (left, right):
        labels = {bound: found.labels["request_id"] for bound, found in shown(one).items()}
        assert labels == {"0.025": "newer", "10.0": "alone"}


def test_counts_that_an_older_version_left_are_read(tmp_path: Path) -> None:
    """Its series are shorter; they add up with ours, and nobody falls over them."""
    stats = WorkerStats()
    end(stats, "ours", 0.02)
    plain = msgspec.to_builtins(stats.snapshot())
    plain["series"] = [one[: Series.__struct_fields__.index("duration_last")] for one in plain["series"]]
    (tmp_path / "worker-old.msgpack").write_bytes(msgspec.msgpack.encode(plain))
    counts = SharedCounts(stats, tmp_path)
    requests = Exposition(GatewayCollector(counts)).registry.get_sample_value(
        "biasgate_requests_total",
        {"upstream": "a", "model": "m", "endpoint": "/v1/chat/completions", "outcome": "complete"},
    )

    assert requests == 2
    assert shown(counts)["0.025"].labels == {"request_id": "ours"}


@pytest.mark.parametrize("request_id", ["x" * 119, "é", "a\nb", "a\x00"])
def test_an_id_that_no_exemplar_can_have(request_id: str) -> None:
    """Beyond 128 characters, or with what is no plain text, there is none, and the rest is scraped all the same."""
    stats = WorkerStats()
    end(stats, request_id, 0.02)

    assert shown(SharedCounts(stats, None)) == {}
    assert exemplar("x" * 118, "", 1.0, 1.0) is not None
    assert exemplar("x" * 79, "ab" * 16, 1.0, 1.0) is None


async def test_prometheus_own_format_has_none() -> None:
    """Whoever does not ask for OpenMetrics sees none."""
    stats = WorkerStats()
    end(stats, "r-1", 0.02)
    body, content_type = await Exposition(GatewayCollector(SharedCounts(stats, None))).render("text/plain")

    assert content_type.startswith("text/plain")
    assert b"r-1" not in body


async def test_a_scraper_that_would_take_protobuf() -> None:
    """It gets OpenMetrics, exemplars included."""
    stats = WorkerStats()
    end(stats, "r-1", 0.02)
    body, content_type = await Exposition(GatewayCollector(SharedCounts(stats, None))).render(PROTOBUF_FIRST)

    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert b'request_id="r-1"' in body
