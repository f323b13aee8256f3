"""Exemplars: which requests lead from a number, and to which scrapers they are shown."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Exemplar

from gateway.telemetry.exposition import Exposition, exemplar
from gateway.telemetry.metrics import GatewayCollector
from gateway.telemetry.shared_counts import SharedCounts
from gateway.telemetry.worker_stats import WorkerStats
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
    assert {bound: one.value for bound, one in first_chunks.items()} == {"0.01": 0.01, "0.025": 0.0105, "60.0": 35.0}
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


@pytest.mark.parametrize(("accept", "shown_as"), [("text/plain", "text/plain"), (PROTOBUF_FIRST, OPENMETRICS)])
async def test_who_sees_them(accept: str, shown_as: str) -> None:
    """Prometheus' own format shows none; OpenMetrics does, also to a scraper that would take protobuf."""
    stats = WorkerStats()
    end(stats, "r-1", 0.02)
    body, content_type = await Exposition(GatewayCollector(SharedCounts(stats, None))).render(accept)

    assert content_type.startswith(shown_as)
    assert (b'request_id="r-1"' in body) == (accept == PROTOBUF_FIRST)


@pytest.mark.parametrize("request_id", ["x" * 119, "é", "a\nb", "a\x00"])
def test_an_id_that_no_exemplar_can_have(request_id: str) -> None:
    """Beyond 128 characters, or with what is no plain text, there is none, and the rest is scraped all the same."""
    stats = WorkerStats()
    end(stats, request_id, 0.02)

    assert shown(SharedCounts(stats, None)) == {}
    assert exemplar("x" * 118, "", 1.0, 1.0) is not None
    assert exemplar("x" * 79, "ab" * 16, 1.0, 1.0) is None
