"""The counts of a single gateway worker, in one `WorkerStats`: plain numbers, as every request raises them."""

import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

import msgspec

from gateway.proxy.types import EndedRequest

DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds in seconds; an answer of a language model takes milliseconds to minutes."""

OVERHEAD_BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5)
"""Upper bounds in seconds; the gateway's own share is a fraction of a millisecond."""

LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds in seconds; no step of an event loop should take more than 0.05."""
LAG_SECONDS = 0.05
"""Interval of the timer that measures the lag: a longer step of the event loop always makes it late."""


class Histogram(msgspec.Struct, array_like=True):
    """Counts per bucket of LAG_BUCKETS (the last is +Inf), not cumulative, and the sum of the observed seconds."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(LAG_BUCKETS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(LAG_BUCKETS, seconds)] += 1
        self.total += seconds


class Ended(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A counted request, kept as the exemplar of a histogram's bucket. Durations are seconds."""

    request_id: str
    trace_id: str
    """32 hexadecimal digits; "" where no trace was begun."""
    at: float
    """Unix seconds."""
    duration: float
    overhead: float
    first_chunk: float | None


class Series(msgspec.Struct, array_like=True):
    """Numbers of a single label set. Histograms hold counts per bucket (the last is +Inf), not cumulative."""

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
    duration_last: list[Ended | None] = []
    """The last request counted in each bucket; empty in the file of a version that kept none."""
    overhead_last: list[Ended | None] = []
    first_chunk_last: list[Ended | None] = []


class Gauges(msgspec.Struct, kw_only=True):
    """Current values of a single worker."""

    inflight: dict[str, int] = {}
    upstream_up: dict[str, bool] = {}
    upstream_share: dict[str, float] = {}
    sampling_rate: dict[str, float] = {}
    model_info: list[tuple[str, str, str]] = []
    """(upstream, model, fingerprint); "" when the upstream states no fingerprint."""
    config: str = ""
    """Name of the configuration in force (`gateway.config.effective.digest`)."""


class Snapshot(msgspec.Struct, kw_only=True):
    """All numbers of a single worker at a single moment."""

    pid: int
    written_at: float
    series: list[Series]
    exchanges: dict[str, int]
    gauges: Gauges
    reloads: dict[str, int] = {}
    """Reloads of the configuration by outcome, counted by the process that reads the file."""
    spans: dict[str, int] = {}
    """Trace spans by their outcome (gateway.proxy.instrumentation.Tracer)."""
    lag: Histogram = msgspec.field(default_factory=Histogram)
    """Lateness of the event loop's turns."""
    evicted: dict[str, int] = {}
    """Clients' audits that were cut off, by upstream."""
    wasted_prompt_tokens: dict[str, int] = {}
    wasted_generation_tokens: dict[str, int] = {}
    mitigations: list[tuple[str, str, str, int]] = []
    """(policy, action, outcome, count)."""
    mitigation_seconds: list[tuple[str, str, list[int], float]] = []
    """(policy, action, counts per bucket of DURATION_BUCKETS, sum of seconds)."""
    ingested: list[tuple[str, str, int]] = []
    """(door, outcome, count) of exchanges sent to an ingest endpoint: `gateway.features.ingest.received.Outcome`."""
    ignored_rates: dict[str, int] = {}
    """Exchanges whose stated sampling rate was ignored, by door."""
    filtered: dict[str, int] = {}
    """Requests with the ledger's outcome "filtered", by reason: `gateway.proxy.types.FilteredReason`."""
    folded: list[str] = []
    """Names of the files whose counts are added in (gateway.telemetry.shared_counts)."""

    @property
    def mitigations_by_labels(self) -> dict[tuple[str, str, str], int]:
        """Return the counts by (policy, action, outcome)."""
        return {(policy, action, outcome): count for policy, action, outcome, count in self.mitigations}

    @property
    def ingested_by_labels(self) -> dict[tuple[str, str], int]:
        """Return the counts by (door, outcome)."""
        return {(door, outcome): count for door, outcome, count in self.ingested}


Surroundings = Callable[[], tuple[dict[str, int], Gauges]]
"""Called at each snapshot for what is not counted here: the tap's outcomes, and the gauges of tap and upstreams."""


class WorkerStats:
    """`RequestStats` of a single worker: dictionaries and lists, no locks. Use from the event loop's thread."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str, str, str], Series] = {}
        self._inflight: dict[str, int] = {}
        self.surroundings: Surroundings = lambda: ({}, Gauges())
        self.reloads: Counter[str] = Counter()
        self.spans: Counter[str] = Counter()
        self.filtered: Counter[str] = Counter()
        self.lag = Histogram()
        self._evicted: Counter[str] = Counter()
        self._wasted_prompt_tokens: Counter[str] = Counter()
        self._wasted_generation_tokens: Counter[str] = Counter()
        self._mitigations: Counter[tuple[str, str, str]] = Counter()
        self._ingested: Counter[tuple[str, str]] = Counter()
        self._ignored_rates: Counter[str] = Counter()
        self._mitigation_seconds: dict[tuple[str, str], tuple[list[int], list[float]]] = {}

    def started(self, upstream: str) -> None:
        self._inflight[upstream] = self._inflight.get(upstream, 0) + 1

    def withdrawn(self, upstream: str) -> None:
        self._inflight[upstream] -= 1

    def audit_evicted(self, upstream: str, *, prompt_tokens: int, generation_tokens: int) -> None:
        self._evicted[upstream] += 1
        self._wasted_prompt_tokens[upstream] += prompt_tokens
        self._wasted_generation_tokens[upstream] += generation_tokens

    def mitigated(self, policy: str, action: str, outcome: str) -> None:
        self._mitigations[policy, action, outcome] += 1

    def mitigation_took(self, policy: str, action: str, seconds: float) -> None:
        empty = ([0] * (len(DURATION_BUCKETS) + 1), [0.0])
        counts, total = self._mitigation_seconds.setdefault((policy, action), empty)
        counts[bisect_left(DURATION_BUCKETS, seconds)] += 1
        total[0] += seconds

    def ingested(self, door: str, outcome: str, count: int) -> None:
        """Counts exchanges that were sent to a door (an endpoint of `gateway.features.ingest`) by their outcome."""
        if count:
            self._ingested[door, outcome] += count

    def ignored_rates(self, door: str, count: int) -> None:
        """Counts exchanges whose stated sampling rate is ignored (`gateway.features.ingest.rates`)."""
        if count:
            self._ignored_rates[door] += count

    def ended(self, request: EndedRequest) -> None:
        upstream, duration, overhead = request.upstream, request.duration_seconds, request.overhead_seconds
        first_chunk = request.first_chunk_seconds
        if request.was_started:
            self._inflight[upstream] -= 1
        key = (upstream, request.model, request.endpoint, request.outcome)
        series = self._series.get(key)
        if series is None:
            n, n_overhead = len(DURATION_BUCKETS) + 1, len(OVERHEAD_BUCKETS) + 1
            last_ended: list[list[Ended | None]] = [[None] * n, [None] * n_overhead, [None] * n]
            series = Series(*key, [0] * n, 0.0, [0] * n_overhead, 0.0, [0] * n, 0.0, *last_ended)
            self._series[key] = series
        last = Ended(request.request_id, request.trace_id, time.time(), duration, overhead, first_chunk)
        bucket = bisect_left(DURATION_BUCKETS, duration)
        series.duration[bucket] += 1
        series.duration_sum += duration
        series.duration_last[bucket] = last
        bucket = bisect_left(OVERHEAD_BUCKETS, overhead)
        series.overhead[bucket] += 1
        series.overhead_sum += overhead
        series.overhead_last[bucket] = last
        if first_chunk is not None:
            bucket = bisect_left(DURATION_BUCKETS, first_chunk)
            series.first_chunk[bucket] += 1
            series.first_chunk_sum += first_chunk
            series.first_chunk_last[bucket] = last

    def snapshot(self) -> Snapshot:
        """Return the current numbers. They share lists with the counters: encode them before the event loop goes on."""
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
            mitigations=[(*labels, count) for labels, count in self._mitigations.items()],
            mitigation_seconds=[
                (*labels, counts, total[0]) for labels, (counts, total) in self._mitigation_seconds.items()
            ],
            ingested=[(*labels, count) for labels, count in self._ingested.items()],
            ignored_rates=self._ignored_rates,
            filtered=self.filtered,
        )
