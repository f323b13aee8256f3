"""The gateway's own Prometheus families: the counts of its workers, turned into samples only when scraped."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from gateway.telemetry.exemplars import exemplar
from gateway.telemetry.shared_counts import SharedCounts, is_living
from gateway.telemetry.sums import by_labels, sum_by_key, sum_filters, sum_histograms, sum_series
from gateway.telemetry.worker_stats import (
    DURATION_BUCKETS,
    LAG_BUCKETS,
    OVERHEAD_BUCKETS,
    Ended,
    Gauges,
    Histogram,
    Series,
    Snapshot,
)

SERIES_LABELS = ("upstream", "model", "endpoint", "outcome")
LATENCIES = (
    ("duration", DURATION_BUCKETS, "request_duration_seconds", "Request headers complete to last byte handed on."),
    ("overhead", OVERHEAD_BUCKETS, "overhead_seconds", "Part of the duration spent in the gateway."),
    ("first_chunk", DURATION_BUCKETS, "time_to_first_chunk_seconds", "Request headers complete to first body byte."),
)
"""Field of `Series`, its bounds, name and help of the family."""
LEDGER = "Sampling ledger: what became of each eligible exchange at the gateway."
RELOADS = "Reloads of the configuration: applied, or refused with a log line."
SPANS = "Spans: exported, failed (not taken by the collector) or dropped (too many waited)."
IGNORED_RATES = "Recorded exchanges that stated a sampling rate which does not count."
COUNTERS = (
    ("exchanges", "exchanges", ("outcome",), LEDGER),
    ("filtered", "filtered", ("reason",), "Requests with the outcome filtered, by why."),
    ("reloads", "config_reloads", ("outcome",), RELOADS),
    ("spans", "trace_spans", ("outcome",), SPANS),
    ("mitigations_by_labels", "mitigations", ("policy", "action", "outcome"), "What policies did with requests."),
    ("ingested_by_labels", "ingested", ("door", "outcome"), "What others recorded and sent, by what became of it."),
    ("ignored_rates", "ingest_rates_ignored", ("door",), IGNORED_RATES),
)
"""Attribute of `Snapshot`, name, labels and help of the family."""
PIECE = 8
"""Label sets of requests in one piece of a family: half a millisecond of work."""
LIVE_WAITING = "live_waiting"
EVICTED_HELP = "Audit requests that were cut off while they ran, by why: live_waiting, live_latency."
WASTED_HELP = "Estimated tokens spent on them: prompt, generation."


class GatewayCollector(Collector):
    """Yields the families of contract 4 that the gateway owns, summed over workers."""

    def __init__(self, counts: SharedCounts) -> None:
        self._shared = counts

    def collect(self) -> Iterable[Metric]:
        """Return the families, large ones in pieces of the same name."""
        snapshots = self._shared.read()
        yield from _request_families(by_labels(snapshots))
        for attribute, name, labels, words in COUNTERS:
            counts = sum_by_key(getattr(snapshot, attribute) for snapshot in snapshots)
            family = CounterMetricFamily(f"biasgate_{name}", words, labels=labels)
            for values, count in sorted(counts.items()):
                family.add_metric([values] if isinstance(values, str) else values, count)
            yield family
        yield _lag_family(sum_histograms([snapshot.lag for snapshot in snapshots]))
        yield from _eviction_families(snapshots)
        yield _mitigation_seconds_family(snapshots)
        yield from _gauge_families([snapshot.gauges for snapshot in snapshots if is_living(snapshot)])


def _request_families(series: Sequence[Sequence[Series]]) -> Iterator[Metric]:
    pieces: list[list[Series]] = []
    for start in range(0, max(1, len(series)), PIECE):
        piece = [*map(sum_series, series[start : start + PIECE])]
        pieces.append(piece)
        requests = CounterMetricFamily(
            "biasgate_requests", "Relayed requests that ended, by how.", labels=SERIES_LABELS
        )
        for row in piece:
            requests.add_metric(_labels(row), sum(row.duration))
        yield requests
    for of, bounds, name, documentation in LATENCIES:
        for piece in pieces:
            family = HistogramMetricFamily(f"biasgate_{name}", documentation, labels=SERIES_LABELS)
            for row in piece:
                _add_latency(family, row, of, bounds)
            yield family


def _add_latency(family: HistogramMetricFamily, row: Series, of: str, bounds: Sequence[float]) -> None:
    if any(counts := getattr(row, of)):
        examples = [_example(ended, of) for ended in getattr(row, f"{of}_last")]
        _add(family, _labels(row), bounds, counts, getattr(row, f"{of}_sum"), examples)


def _labels(row: Series) -> tuple[str, ...]:
    return (row.upstream, row.model, row.endpoint, row.outcome)


def _example(ended: Ended | None, of: str) -> Exemplar | None:
    return exemplar(ended.request_id, ended.trace_id, getattr(ended, of), ended.at) if ended else None


def _lag_family(total: Histogram) -> Metric:
    family = HistogramMetricFamily("biasgate_event_loop_lag_seconds", "How late a worker's event loop came to a timer.")
    _add(family, (), LAG_BUCKETS, total.counts, total.total)
    return family


def _add(
    family: HistogramMetricFamily,
    labels: tuple[str, ...],
    bounds: Sequence[float],
    counts: list[int],
    total: float,
    exemplars: Sequence[Exemplar | None] = (),
) -> None:
    cumulated = 0
    buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    for bound, count, example in zip_longest((*map(str, bounds), "+Inf"), counts, exemplars):
        cumulated += count
        buckets.append((bound, cumulated) if example is None else (bound, cumulated, example))
    family.add_metric(labels, buckets, total)


def _eviction_families(snapshots: list[Snapshot]) -> Iterator[Metric]:
    none = [dict.fromkeys(snapshot.gauges.upstream_up, 0) for snapshot in snapshots]
    evicted = CounterMetricFamily("biasgate_audits_evicted", EVICTED_HELP, labels=["upstream", "reason"])
    for upstream, count in sorted(sum_by_key([*none, *(snapshot.evicted for snapshot in snapshots)]).items()):
        evicted.add_metric([upstream, LIVE_WAITING], count)
    wasted = CounterMetricFamily("biasgate_audit_tokens_wasted", WASTED_HELP, labels=["upstream", "kind"])
    for kind in ("prompt", "generation"):
        tokens = sum_by_key([*none, *(getattr(snapshot, f"wasted_{kind}_tokens") for snapshot in snapshots)])
        for upstream, count in sorted(tokens.items()):
            wasted.add_metric([upstream, kind], count)
    yield from (evicted, wasted)


def _mitigation_seconds_family(snapshots: list[Snapshot]) -> Metric:
    family = HistogramMetricFamily(
        "biasgate_mitigation_seconds", "What filters of policies added to a request.", labels=["policy", "action"]
    )
    for labels, (counts, total) in sorted(sum_filters(snapshots).items()):
        _add(family, labels, DURATION_BUCKETS, counts, total)
    return family


def _gauge_families(living: list[Gauges]) -> Iterator[Metric]:
    yield _gauge("inflight_requests", "Requests being relayed.", "upstream", sum_by_key(g.inflight for g in living))
    up = {name: float(min(seen)) for name, seen in _collect_by_key(g.upstream_up for g in living).items()}
    yield _gauge("upstream_up", "1 when every worker's health check of the upstream passes.", "upstream", up)
    words = "Part of its weight that counts: 0 while ejected, below 1 while it comes back, mean of the workers."
    yield _gauge("upstream_share_ratio", words, "upstream", _mean_by_key(g.upstream_share for g in living))
    words = "Sampling probability in force, mean of the workers."
    yield _gauge("sampling_rate", words, "stratum", _mean_by_key(g.sampling_rate for g in living))
    configs = Counter(g.config for g in living if g.config)
    yield _gauge("config_workers", "Workers that serve by each configuration.", "config", configs)
    info = GaugeMetricFamily("biasgate_model_info", "Served models.", labels=["upstream", "model", "fingerprint"])
    for labels in sorted({labels for g in living for labels in g.model_info}):
        info.add_metric(labels, 1)
    yield info


def _gauge(name: str, documentation: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"biasgate_{name}", documentation, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def _collect_by_key(dictionaries: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    collected: dict[str, list[Any]] = {}
    for dictionary in dictionaries:
        for key, value in dictionary.items():
            collected.setdefault(key, []).append(value)
    return collected


def _mean_by_key(dictionaries: Iterable[dict[str, float]]) -> dict[str, float]:
    return {key: sum(values) / len(values) for key, values in _collect_by_key(dictionaries).items()}
