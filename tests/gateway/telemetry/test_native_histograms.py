"""Native histograms: which bucket an observation is in, what a scraper is told of the buckets, and which one asks."""

import random
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gateway.errors import ConfigError
from gateway.telemetry import otlp, protobuf
from gateway.telemetry.exposition import Exposition
from gateway.telemetry.metrics import GatewayCollector
from gateway.telemetry.native_histograms import ZERO_THRESHOLD, native_histogram, observe
from gateway.telemetry.shared_counts import SharedCounts
from gateway.telemetry.worker_stats import Series, WorkerStats
from tests.support.ended_requests import end_one

PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
TEXT = "text/plain;version=0.0.4"


def test_an_observation_lies_in_its_bucket() -> None:
    """Above the bound before and up to its own, which is part of it, from nanoseconds to years."""
    drawn = random.Random(3)
    for value in [drawn.uniform(0.5, 1.0) * 2.0 ** drawn.randint(-29, 30) for _ in range(5000)]:
        buckets: dict[int, int] = {}
        observe(buckets, value)
        [index] = buckets
        assert 2 ** ((index - 1) / 8) < value <= 2 ** (index / 8)


@pytest.mark.parametrize(("value", "index"), [(1.0, 0), (0.5, -8), (2.0, 8), (2 ** (1 / 8), 1), (1.0000001, 1)])
def test_bounds_are_inclusive(value: float, index: int) -> None:
    """A value on a bound is in the bucket that ends there."""
    buckets: dict[int, int] = {}
    observe(buckets, value)
    assert buckets == {index: 1}


@pytest.mark.parametrize("value", [0.0, -0.001, ZERO_THRESHOLD, 5e-324])
def test_what_no_clock_can_tell_from_zero(value: float) -> None:
    """It is in no bucket, so one scrape cannot have thousands of them, and counts as zero."""
    buckets: dict[int, int] = {}
    observe(buckets, value)
    told = native_histogram(buckets, count=1, total=value)
    assert (buckets, told.zero_count, told.pos_spans) == ({}, 1, [])


def test_buckets_can_be_read_back() -> None:
    """Spans and differences are those of the format: from them all buckets follow, and with the zeros the count."""
    drawn = random.Random(4)
    buckets = {index: drawn.randint(1, 99) for index in drawn.sample(range(-200, 80), 60)}
    told = native_histogram(buckets, count=sum(buckets.values()) + 7, total=1.5)

    read: dict[int, int] = {}
    index, count, deltas = 0, 0, iter(told.pos_deltas or ())
    for span in told.pos_spans or ():
        index += span.offset
        for _ in range(span.length):
            count += next(deltas)
            read[index] = count
            index += 1
    assert read == buckets
    assert next(deltas, None) is None
    assert told.count_value == sum(read.values()) + told.zero_count
    assert all(span.offset > 0 for span in (told.pos_spans or ())[1:])


def test_requests_of_a_version_without_such_buckets(tmp_path: Path) -> None:
    """A dead worker of such a version left its file: its requests still count, in no bucket, so sums stay right."""
    old = WorkerStats()
    end_one(old, duration=0.25)
    snapshot = msgspec.to_builtins(old.snapshot())
    native = [name for name in Series.__struct_fields__ if name.endswith("_native")]
    snapshot["series"] = [series[: -len(native)] for series in snapshot["series"]]
    snapshot["lag"] = snapshot["lag"][:-1]
    (tmp_path / "worker-old.msgpack").write_bytes(msgspec.msgpack.encode(snapshot))
    new = WorkerStats(native_histograms=True)
    end_one(new, duration=0.25)

    families = {one.name: one for one in GatewayCollector(SharedCounts(new, tmp_path)).collect(native=True)}
    [told] = [one.native_histogram for one in families["biasgate_request_duration_seconds"].samples[-1:]]
    assert told is not None
    assert (told.count_value, told.zero_count, told.pos_deltas) == (2, 1, [1])


@pytest.mark.parametrize(
    ("accept", "is_wanted"),
    [
        (PROTOBUF, True),
        (f"{PROTOBUF};q=0.6, {TEXT};q=0.5", True),
        (f"{PROTOBUF};escaping=allow-utf-8;q=0.6", True),
        (f"{TEXT};q=0.6,{PROTOBUF};q=0.5", False),
        (f"application/openmetrics-text;version=1.0.0;q=0.6,{PROTOBUF};q=0.5", False),
        (PROTOBUF.replace("delimited", "text"), False),
        (PROTOBUF.replace("MetricFamily", "Else"), False),
        ("application/vnd.google.protobuf", False),
        ("*/*", False),
        ("", False),
        (";,;,;q=inf," * 1000, False),
    ],
)
async def test_who_asks(accept: str, is_wanted: bool) -> None:
    """A scraper that names this form of protobuf before text gets it; a browser, or another form, gets text."""
    stats = WorkerStats(native_histograms=True)
    end_one(stats, duration=0.25)
    collector = GatewayCollector(SharedCounts(stats, None))
    page, content_type = await Exposition(collector, with_native=partial(collector.collect, native=True)).render(accept)
    as_text, _ = await Exposition(collector).render(accept)

    assert (content_type == protobuf.CONTENT_TYPE) == is_wanted
    assert (page == as_text) != is_wanted


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without protobuf the start ends with a line that says what to install."""
    monkeypatch.setattr(protobuf, "is_installed", lambda module: otlp.is_installed(f"{module}.missing"))
    with pytest.raises(ConfigError, match=r'native_histograms is true, .*pip install "biasgate\[otel\]"'):
        protobuf.require_installed()
