"""The gateway's own Prometheus families: the counts of its workers, turned into samples only when scraped."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from gateway.telemetry import shared_counts
from gateway.telemetry.exposition import exemplar
from gateway.telemetry.shared_counts import SharedCounts, is_living, sum_by_key
from gateway.telemetry.worker_stats import (
    DURATION_BUCKETS,
    LAG_BUCKETS,
    OVERHEAD_BUCKETS,
    Ended,
    Gauges,
    Series,
    Snapshot,
)

SERIES_LABELS = ("upstream", "model", "endpoint", "outcome")
LATENCIES = (
    ("duration", DURATION_BUCKETS, "request_duration_seconds", "Headers complete to last byte."),
    ("overhead", OVERHEAD_BUCKETS, "overhead_seconds", "Part of the duration in the gateway, without filters."),
    ("first_chunk", DURATION_BUCKETS, "time_to_first_chunk_seconds", "Headers complete to first byte of the body."),
)
"""Field of `Series`, its bounds, name and help of the family."""
LEDGER = "Sampling ledger (docs/contract.md#41-outcomes-of-the-ledger); the auditor adds what it decided."
RELOADS = "Reloads of the configuration: applied, refused."
SPANS = "Spans: exported, failed (not taken by the collector), dropped (too many waited)."
INGESTED = "Recorded exchanges (docs/ingest.md#outcomes-and-duplicates)."
IGNORED_RATES = "Stated sampling rates that do not count (docs/ingest.md#the-senders-sampling-rate)."
FILTERED = "Ledger outcome filtered: endpoint (or method), status, content_encoding, unfinished, recorded (by others)."
MITIGATIONS = (
    "Actions of policies. instruction: added, held_back (control arm), not_needed, unsupported, refused "
    "(docs/mitigation.md#response-header-and-counter); query_filter, response_filter (docs/mitigation.md#filters)."
)
COUNTERS = (
    ("exchanges", "exchanges", ("outcome",), LEDGER),
    ("filtered", "filtered", ("reason",), FILTERED),
    ("reloads", "config_reloads", ("outcome",), RELOADS),
    ("spans", "trace_spans", ("outcome",), SPANS),
    ("mitigations_by_labels", "mitigations", ("policy", "action", "outcome"), MITIGATIONS),
    ("ingested_by_labels", "ingested", ("door", "outcome"), INGESTED),
    ("ignored_rates", "ingest_rates_ignored", ("door",), IGNORED_RATES),
)
"""Attribute of `Snapshot`, name, labels and help of the family."""
LABEL_SETS_PER_PIECE = 8
"""Label sets of requests in one piece of a family: half a millisecond of work."""
LIVE_WAITING = "live_waiting"
EVICTED_HELP = "Audit requests cut off: live_waiting, live_latency; at the gateway those of clients."
WASTED_HELP = "Estimated tokens of these audit requests: prompt, generation."


class GatewayCollector(Collector):
    """Yields the families of contract 4 that the gateway owns, summed over workers."""

    def __init__(self, counts: SharedCounts) -> None:
        self._shared = counts

    def collect(self) -> Iterable[Metric]:
        """Yield the families, large families in pieces of the same name."""
        snapshots = self._shared.read()
        yield from _request_families(shared_counts.by_labels(snapshots))
        for attribute, name, labels, documentation in COUNTERS:
            counts = sum_by_key(getattr(snapshot, attribute) for snapshot in snapshots)
            family = CounterMetricFamily(f"biasgate_{name}", documentation, labels=labels)
            for values, count in sorted(counts.items()):
                family.add_metric([values] if isinstance(values, str) else values, count)
            yield family
        lag = shared_counts.sum_histograms([snapshot.lag for snapshot in snapshots])
        lags = HistogramMetricFamily("biasgate_event_loop_lag_seconds", "Delay of a worker's timers, every 0.05 s.")
        _add_histogram(lags, (), LAG_BUCKETS, lag.counts, lag.total)
        yield lags
        yield from _eviction_families(snapshots)
        yield _mitigation_seconds_family(snapshots)
        yield from _gauge_families([snapshot.gauges for snapshot in snapshots if is_living(snapshot)])


def _request_families(series: Sequence[Sequence[Series]]) -> Iterator[Metric]:
    pieces: list[list[Series]] = []
    for start in range(0, max(1, len(series)), LABEL_SETS_PER_PIECE):
        piece = [*map(shared_counts.sum_series, series[start : start + LABEL_SETS_PER_PIECE])]
        pieces.append(piece)
        requests = CounterMetricFamily("biasgate_requests", "Ended requests.", labels=SERIES_LABELS)
        for row in piece:
            requests.add_metric(_labels(row), sum(row.duration))
        yield requests
    for field, bounds, name, documentation in LATENCIES:
        for piece in pieces:
            family = HistogramMetricFamily(f"biasgate_{name}", documentation, labels=SERIES_LABELS)
            for row in piece:
                if any(counts := getattr(row, field)):
                    exemplars = [_newest_exemplar(ended, field) for ended in getattr(row, f"{field}_last")]
                    _add_histogram(family, _labels(row), bounds, counts, getattr(row, f"{field}_sum"), exemplars)
            yield family


def _labels(row: Series) -> tuple[str, ...]:
    return (row.upstream, row.model, row.endpoint, row.outcome)


def _newest_exemplar(ended: Ended | None, field: str) -> Exemplar | None:
    return exemplar(ended.request_id, ended.trace_id, getattr(ended, field), ended.at) if ended else None


def _add_histogram(
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
    zeros = [dict.fromkeys(snapshot.gauges.upstream_up, 0) for snapshot in snapshots]
    evicted = CounterMetricFamily("biasgate_audits_evicted", EVICTED_HELP, labels=["upstream", "reason"])
    for upstream, count in sorted(sum_by_key([*zeros, *(snapshot.evicted for snapshot in snapshots)]).items()):
        evicted.add_metric([upstream, LIVE_WAITING], count)
    wasted = CounterMetricFamily("biasgate_audit_tokens_wasted", WASTED_HELP, labels=["upstream", "kind"])
    for kind in ("prompt", "generation"):
        tokens = sum_by_key([*zeros, *(getattr(snapshot, f"wasted_{kind}_tokens") for snapshot in snapshots)])
        for upstream, count in sorted(tokens.items()):
            wasted.add_metric([upstream, kind], count)
    yield from (evicted, wasted)


def _mitigation_seconds_family(snapshots: list[Snapshot]) -> Metric:
    words = "Time that a filter added to a request, or to an answer's first bytes."
    family = HistogramMetricFamily("biasgate_mitigation_seconds", words, labels=["policy", "action"])
    for labels, (counts, total) in sorted(shared_counts.sum_filters(snapshots).items()):
        _add_histogram(family, labels, DURATION_BUCKETS, counts, total)
    return family


def _gauge_families(living: list[Gauges]) -> Iterator[Metric]:
    yield _gauge("inflight_requests", "Requests being relayed.", "upstream", sum_by_key(g.inflight for g in living))
    up = {name: float(min(seen)) for name, seen in _collect_by_key(g.upstream_up for g in living).items()}
    yield _gauge("upstream_up", "1 while health checks pass in every worker.", "upstream", up)
    words = "Part of its weight in force, mean of the workers: 0 while ejected, below 1 while it comes back."
    yield _gauge("upstream_share_ratio", words, "upstream", _mean_by_key(g.upstream_share for g in living))
    words = "Rate in force, mean of the workers; a key above sampling.max_share_per_key has a lower rate."
    yield _gauge("sampling_rate", words, "stratum", _mean_by_key(g.sampling_rate for g in living))
    configs = Counter(g.config for g in living if g.config)
    yield _gauge("config_workers", "Workers by configuration.", "config", configs)
    info = GaugeMetricFamily("biasgate_model_info", "1 for each model.", labels=["upstream", "model", "fingerprint"])
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
