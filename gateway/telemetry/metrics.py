"""The gateway's own Prometheus families: plain counts on the hot path, turned into samples only when scraped.

Each worker owns one `WorkerStats`. With a shared `metrics_dir` every worker leaves its numbers there as msgpack, and a
scrape of any worker adds up all files, so counters and histograms are those of the whole gateway. The files of workers
that died stay, hence counters never fall; gauges come from living workers only.
"""

import os
import secrets
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.proxy.types import EndReason

DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds in seconds; an answer of a language model takes milliseconds to minutes."""

OVERHEAD_BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5)
"""Upper bounds in seconds; the gateway's own share is a fraction of a millisecond."""

LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds in seconds; no step of an event loop should take more than 0.05."""

SERIES_LABELS = ("upstream", "model", "endpoint", "outcome")
LIVE_WAITING = "live_waiting"
EVICTED_HELP = "Audit requests that were cut off while they ran, by why: live_waiting, live_latency."
WASTED_HELP = "Estimated tokens spent on them: prompt, generation."
SNAPSHOT_SECONDS = 0.2
GAUGE_LIFETIME_SECONDS = 15.0
"""A file older than this says nothing about the present, even if its process id is in use again."""


class Histogram(msgspec.Struct, array_like=True):
    """Counts per bucket of LAG_BUCKETS (the last is +Inf), not cumulated, and the sum of what was observed."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(LAG_BUCKETS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(LAG_BUCKETS, seconds)] += 1
        self.total += seconds


class Series(msgspec.Struct, array_like=True):
    """Numbers of one label set. Histograms hold counts per bucket (the last is +Inf), not cumulated."""

    upstream: str
    model: str
    endpoint: str
    outcome: str
    duration: list[int]
    duration_sum: float
    overhead: list[int]
    overhead_sum: float
    first_chunk: list[int]
    first_chunk_sum: float


class Gauges(msgspec.Struct, kw_only=True):
    """What one worker sees at present."""

    inflight: dict[str, int] = {}
    upstream_up: dict[str, bool] = {}
    upstream_share: dict[str, float] = {}
    sampling_rate: dict[str, float] = {}
    model_info: list[tuple[str, str, str]] = []
    """(upstream, model, fingerprint); "" when the upstream told no fingerprint."""
    config: str = ""
    """Name of the configuration that the worker serves by (gateway.processes.reload.digest)."""


class Snapshot(msgspec.Struct, kw_only=True):
    """All numbers of one worker at one moment."""

    pid: int
    written_at: float
    series: list[Series]
    exchanges: dict[str, int]
    gauges: Gauges
    reloads: dict[str, int] = {}
    """Reloads of the configuration by outcome, of the one process that reads the file."""
    spans: dict[str, int] = {}
    """Trace spans by what became of them (gateway.telemetry.tracing.Tracer)."""
    lag: Histogram = msgspec.field(default_factory=Histogram)
    """How late the event loop's turns came (gateway.telemetry.event_loop)."""
    evicted: dict[str, int] = {}
    """Clients' audits that were cut off, by upstream."""
    wasted_prompt_tokens: dict[str, int] = {}
    wasted_generation_tokens: dict[str, int] = {}


Surroundings = Callable[[], tuple[dict[str, int], Gauges]]
"""Asked at each snapshot for what is not counted here: the tap's outcomes, and the gauges of tap and upstreams."""


class WorkerStats:
    """`RequestStats` of one worker: dictionaries and lists, no locks. Use from the event loop's thread."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str, str, str], Series] = {}
        self._inflight: dict[str, int] = {}
        self.surroundings: Surroundings = lambda: ({}, Gauges())
        self.reloads: Counter[str] = Counter()
        self.spans: Counter[str] = Counter()
        self.lag = Histogram()
        self._evicted: Counter[str] = Counter()
        self._wasted_prompt_tokens: Counter[str] = Counter()
        self._wasted_generation_tokens: Counter[str] = Counter()

    def started(self, upstream: str) -> None:
        self._inflight[upstream] = self._inflight.get(upstream, 0) + 1

    def withdrawn(self, upstream: str) -> None:
        """Takes `started` back."""
        self._inflight[upstream] -= 1

    def audit_evicted(self, upstream: str, *, prompt_tokens: int, generation_tokens: int) -> None:
        """See `gateway.proxy.types.RequestStats`."""
        self._evicted[upstream] += 1
        self._wasted_prompt_tokens[upstream] += prompt_tokens
        self._wasted_generation_tokens[upstream] += generation_tokens

    def ended(
        self,
        *,
        upstream: str,
        model: str,
        endpoint: str,
        outcome: EndReason,
        duration_seconds: float,
        overhead_seconds: float,
        first_chunk_seconds: float | None,
        was_started: bool,
    ) -> None:
        """Counts one end; see `gateway.proxy.types.RequestStats`."""
        if was_started:
            self._inflight[upstream] -= 1
        key = (upstream, model, endpoint, outcome)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _new_series(key)
        series.duration[bisect_left(DURATION_BUCKETS, duration_seconds)] += 1
        series.duration_sum += duration_seconds
        series.overhead[bisect_left(OVERHEAD_BUCKETS, overhead_seconds)] += 1
        series.overhead_sum += overhead_seconds
        if first_chunk_seconds is not None:
            series.first_chunk[bisect_left(DURATION_BUCKETS, first_chunk_seconds)] += 1
            series.first_chunk_sum += first_chunk_seconds

    def snapshot(self) -> Snapshot:
        """The present numbers; shares its lists with the counters, so encode it before the loop goes on."""
        exchanges, gauges = self.surroundings()
        gauges.inflight = dict(self._inflight)
        return Snapshot(
            pid=os.getpid(),
            written_at=time.time(),
            series=list(self._series.values()),
            exchanges=exchanges,
            gauges=gauges,
            reloads=self.reloads,
            spans=self.spans,
            lag=self.lag,
            evicted=self._evicted,
            wasted_prompt_tokens=self._wasted_prompt_tokens,
            wasted_generation_tokens=self._wasted_generation_tokens,
        )


class SharedCounts:
    """The snapshot files of all workers in one directory; without a directory, this worker's numbers alone."""

    def __init__(self, stats: WorkerStats, directory: Path | None) -> None:
        self._stats = stats
        self._directory = directory
        self._file = directory / f"worker-{os.getpid()}-{secrets.token_hex(4)}.msgpack" if directory else None
        if directory is not None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def is_shared(self) -> bool:
        """Whether there is anything for other workers to read."""
        return self._file is not None

    def flush(self) -> None:
        """Leaves this worker's numbers for the others; a reader sees the old file or the new one, never half of one."""
        if self._file is not None:
            partial = self._file.with_suffix(".partial")
            partial.write_bytes(msgspec.msgpack.encode(self._stats.snapshot()))
            partial.replace(self._file)

    def read(self) -> list[Snapshot]:
        """Own numbers, fresh, and those that every other worker of this directory left last."""
        if self._directory is None:
            return [self._stats.snapshot()]
        self.flush()
        return [msgspec.msgpack.decode(path.read_bytes(), type=Snapshot) for path in self._directory.glob("*.msgpack")]


class GatewayCollector(Collector):
    """Yields the families of contract 4 that the gateway owns, summed over workers."""

    def __init__(self, counts: SharedCounts) -> None:
        self._shared = counts

    def collect(self) -> Iterable[Metric]:
        snapshots = self._shared.read()
        yield from _request_families(_sum_series(snapshots))
        yield _count_family(
            "biasgate_exchanges",
            "Sampling ledger: what became of each eligible exchange at the gateway.",
            (snapshot.exchanges for snapshot in snapshots),
        )
        yield _count_family(
            "biasgate_config_reloads",
            "Reloads of the configuration: applied, or refused with a log line.",
            (snapshot.reloads for snapshot in snapshots),
        )
        yield _count_family(
            "biasgate_trace_spans",
            "Spans: exported, failed (not taken by the collector) or dropped (too many waited).",
            (snapshot.spans for snapshot in snapshots),
        )
        yield _lag_family([snapshot.lag for snapshot in snapshots])
        yield from _eviction_families(snapshots)
        yield from _gauge_families([snapshot.gauges for snapshot in snapshots if _is_living(snapshot)])


@runtime_checkable
class WithText(Protocol):
    """A collector that has some families as text already."""

    def text(self, *, is_openmetrics: bool) -> bytes:
        """Whole families, in OpenMetrics or in Prometheus' own format."""
        ...


_END = b"# EOF\n"
"""Of a page in OpenMetrics."""


class Exposition:
    """A registry with one role's families, and its text for a scraper: the gateway's and the auditor's /metrics."""

    def __init__(self, collector: Collector) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(collector)
        self._collector = collector

    def render(self, accept: str) -> tuple[bytes, str]:
        """(body, content type) in the format that the scraper's Accept header asks for."""
        encode, content_type = choose_encoder(accept)
        body = encode(self.registry)
        if isinstance(self._collector, WithText):
            is_openmetrics = body.endswith(_END)
            more = self._collector.text(is_openmetrics=is_openmetrics)
            body = body.removesuffix(_END) + more + (_END if is_openmetrics else b"")
        return body, content_type


def _new_series(key: tuple[str, str, str, str]) -> Series:
    duration, overhead, first_chunk = (
        [0] * (len(b) + 1) for b in (DURATION_BUCKETS, OVERHEAD_BUCKETS, DURATION_BUCKETS)
    )
    return Series(*key, duration, 0.0, overhead, 0.0, first_chunk, 0.0)


def _sum_series(snapshots: Iterable[Snapshot]) -> list[Series]:
    sums: dict[tuple[str, str, str, str], Series] = {}
    for snapshot in snapshots:
        for one in snapshot.series:
            key = (one.upstream, one.model, one.endpoint, one.outcome)
            total = sums.setdefault(key, _new_series(key))
            for name in ("duration", "overhead", "first_chunk"):
                merged = [a + b for a, b in zip(getattr(total, name), getattr(one, name), strict=True)]
                setattr(total, name, merged)
                setattr(total, f"{name}_sum", getattr(total, f"{name}_sum") + getattr(one, f"{name}_sum"))
    return list(sums.values())


def _request_families(series: list[Series]) -> Iterator[Metric]:
    requests = CounterMetricFamily("biasgate_requests", "Relayed requests that ended, by how.", labels=SERIES_LABELS)
    duration = _histogram("biasgate_request_duration_seconds", "Request headers complete to last byte handed on.")
    overhead = _histogram("biasgate_overhead_seconds", "Part of the duration spent in the gateway.")
    first_chunk = _histogram("biasgate_time_to_first_chunk_seconds", "Request headers complete to first body byte.")
    for one in series:
        labels = (one.upstream, one.model, one.endpoint, one.outcome)
        requests.add_metric(labels, sum(one.duration))
        _add(duration, labels, DURATION_BUCKETS, one.duration, one.duration_sum)
        _add(overhead, labels, OVERHEAD_BUCKETS, one.overhead, one.overhead_sum)
        if any(one.first_chunk):
            _add(first_chunk, labels, DURATION_BUCKETS, one.first_chunk, one.first_chunk_sum)
    yield from (requests, duration, overhead, first_chunk)


def _histogram(name: str, documentation: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, documentation, labels=SERIES_LABELS)


def _lag_family(seen: Iterable[Histogram]) -> Metric:
    family = HistogramMetricFamily("biasgate_event_loop_lag_seconds", "How late a worker's event loop came to a timer.")
    total = Histogram()
    for one in seen:
        total.counts = [a + b for a, b in zip(total.counts, one.counts, strict=True)]
        total.total += one.total
    _add(family, (), LAG_BUCKETS, total.counts, total.total)
    return family


def _add(
    family: HistogramMetricFamily, labels: tuple[str, ...], bounds: tuple[float, ...], counts: list[int], total: float
) -> None:
    cumulated, buckets = 0, []
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        cumulated += count
        buckets.append((bound, cumulated))
    family.add_metric(labels, buckets, total)


def _count_family(name: str, documentation: str, counts: Iterable[Mapping[str, int]]) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=["outcome"])
    sums: Counter[str] = Counter()
    for one in counts:
        sums.update(one)
    for outcome, count in sorted(sums.items()):
        family.add_metric([outcome], count)
    return family


def _eviction_families(snapshots: list[Snapshot]) -> Iterator[Metric]:
    none = [dict.fromkeys(snapshot.gauges.upstream_up, 0) for snapshot in snapshots]
    evicted = CounterMetricFamily("biasgate_audits_evicted", EVICTED_HELP, labels=["upstream", "reason"])
    for upstream, count in sorted(_sum_by_key([*none, *(snapshot.evicted for snapshot in snapshots)]).items()):
        evicted.add_metric([upstream, LIVE_WAITING], count)
    wasted = CounterMetricFamily("biasgate_audit_tokens_wasted", WASTED_HELP, labels=["upstream", "kind"])
    for upstream, count in sorted(_sum_by_key([*none, *(one.wasted_prompt_tokens for one in snapshots)]).items()):
        wasted.add_metric([upstream, "prompt"], count)
    for upstream, count in sorted(_sum_by_key([*none, *(one.wasted_generation_tokens for one in snapshots)]).items()):
        wasted.add_metric([upstream, "generation"], count)
    yield from (evicted, wasted)


def _gauge_families(living: list[Gauges]) -> Iterator[Metric]:
    yield _gauge(
        "biasgate_inflight_requests", "Requests being relayed.", "upstream", _sum_by_key(g.inflight for g in living)
    )
    up = _collect_by_key(g.upstream_up for g in living)
    yield _gauge(
        "biasgate_upstream_up",
        "1 when every worker's health check of the upstream passes.",
        "upstream",
        {name: float(min(seen)) for name, seen in up.items()},
    )
    yield _gauge(
        "biasgate_upstream_share_ratio",
        "Part of its weight that counts: 0 while ejected, below 1 while it comes back, mean of the workers.",
        "upstream",
        _mean_by_key(g.upstream_share for g in living),
    )
    yield _gauge(
        "biasgate_sampling_rate",
        "Sampling probability in force, mean of the workers.",
        "stratum",
        _mean_by_key(g.sampling_rate for g in living),
    )
    configs = Counter(g.config for g in living if g.config)
    yield _gauge(
        "biasgate_config_workers",
        "Workers that serve by each configuration.",
        "config",
        {name: float(count) for name, count in configs.items()},
    )
    info = GaugeMetricFamily("biasgate_model_info", "Served models.", labels=["upstream", "model", "fingerprint"])
    for labels in sorted({labels for g in living for labels in g.model_info}):
        info.add_metric(labels, 1)
    yield info


def _gauge(name: str, documentation: str, label: str, values: dict[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, documentation, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def _collect_by_key(dictionaries: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    collected: dict[str, list[Any]] = {}
    for dictionary in dictionaries:
        for key, value in dictionary.items():
            collected.setdefault(key, []).append(value)
    return collected


def _sum_by_key(dictionaries: Iterable[dict[str, int]]) -> dict[str, float]:
    return {key: float(sum(values)) for key, values in _collect_by_key(dictionaries).items()}


def _mean_by_key(dictionaries: Iterable[dict[str, float]]) -> dict[str, float]:
    return {key: sum(values) / len(values) for key, values in _collect_by_key(dictionaries).items()}


def _is_living(snapshot: Snapshot) -> bool:
    if snapshot.pid == os.getpid():
        return True
    if time.time() - snapshot.written_at > GAUGE_LIFETIME_SECONDS:
        return False
    try:
        os.kill(snapshot.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
