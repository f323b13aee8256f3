"""The auditor's Prometheus families. All but two are read from the store, so a restart changes no number.

Every auditor on one store exposes the same values: aggregate over auditors with max, never with sum. The exceptions are
what each auditor does and sees itself: `biasgate_audit_allowance` adds up, `biasgate_audit_live_latency_ratio` does
not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import estimate
from auditors.types import Estimate
from gateway.store.measurements import SCORE_BOUNDS
from gateway.store.runs import Run
from gateway.store.streams import Stream

SERIES = ("auditor", "metric", "axis", "group", "model")
RUN_ESTIMATE = ("suite", "metric", "axis", "group", "reference", "subset", "model", "mode")

RUN_INFO = ("suite", "model", "mode", "protocol", "data")

Labels = tuple[str, ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What the store held when it was last read."""

    streams: Sequence[Stream] = ()
    counters: Mapping[tuple[str, Labels], float] = {}
    queue_size: int = 0
    oldest_seconds: float = 0.0
    """Age of the oldest exchange that waits to be audited; 0 when none waits."""
    finished_runs: Sequence[Run] = ()
    """The newest finished run of each set of options."""
    exported_runs: Sequence[tuple[Run, Sequence[Estimate]]] = ()
    """One finished run of each suite, model and mode, with its estimates (see `metrics_snapshot.exported`)."""
    active_runs: Sequence[Run] = ()


class AuditorMetrics(Collector):
    """Yields the families of the last snapshot; set `snapshot` to renew them."""

    def __init__(
        self,
        settings: DriftSettings,
        allowed: Callable[[], Mapping[str, int]] = dict,
        latency_ratios: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        """As the process starts.

        Args:
            settings: of the drift detectors.
            allowed: upstream to the audit requests that may be in flight there now.
            latency_ratios: upstream to the time between tokens with audits, in times of that without, where known.
        """
        self._allowed = allowed
        self._latency_ratios = latency_ratios
        self.snapshot = Snapshot()
        self._settings = settings

    def collect(self) -> Iterator[Metric]:
        snapshot, newest = self.snapshot, _newest_streams(self.snapshot.streams)
        yield from _pipeline(snapshot)
        yield from _estimates(newest)
        yield _scores(snapshot.counters)
        threshold = self._settings.log_threshold(len(snapshot.streams))
        yield from _drift(newest, threshold, _alarmed(snapshot.streams))
        yield from _runs(snapshot)
        yield from _run_estimates(snapshot.exported_runs)
        yield _limiter(self._allowed())
        yield _latency(self._latency_ratios())


def _limiter(allowed: Mapping[str, int]) -> Metric:
    family = _gauge("audit_allowance", "Audit requests that may be in flight at a server now.", ("upstream",))
    for upstream, requests in allowed.items():
        _put(family, (upstream,), float(requests))
    return family


def _latency(ratios: Mapping[str, float]) -> Metric:
    words = "Time between tokens while audits are in flight, in times of that without, where it is known."
    family = _gauge("audit_live_latency_ratio", words, ("upstream",))
    for upstream, ratio in ratios.items():
        _put(family, (upstream,), ratio)
    return family


def _pipeline(snapshot: Snapshot) -> Iterator[Metric]:
    yield _counter(snapshot, "exchanges", "Audits of exchanges by what came of them.", ("outcome", "auditor"))
    yield _counter(snapshot, "judge_requests", "Requests to a judge.", ("outcome",))
    words = "Exchanges of which an auditor measured nothing, or not all, by why."
    yield _counter(snapshot, "abstentions", words, ("auditor", "reason"))
    yield GaugeMetricFamily("biasgate_audit_queue_size", "Exchanges that wait.", value=snapshot.queue_size)
    yield GaugeMetricFamily("biasgate_audit_lag_seconds", "Age of the oldest of them.", value=snapshot.oldest_seconds)


def _estimates(streams: Mapping[Labels, Stream]) -> Iterator[Metric]:
    value = _gauge("live_estimate", "Mean of a live series, in the metric's own unit.", SERIES)
    lower = _gauge("live_estimate_lower", "Lower end of its 95 % interval.", SERIES)
    upper = _gauge("live_estimate_upper", "Upper end of its 95 % interval.", SERIES)
    samples = _gauge("live_effective_samples", "Kish's effective number of audits behind it.", SERIES)
    for labels, stream in streams.items():
        found = estimate(stream.key, stream.state)
        _put(value, labels, found.value)
        _put(lower, labels, found.lower)
        _put(upper, labels, found.upper)
        _put(samples, labels, found.extra["effective_n"])
    yield from (value, lower, upper, samples)


def _scores(counters: Mapping[tuple[str, Labels], float]) -> Metric:
    family = HistogramMetricFamily(
        "biasgate_live_score", "(score + 1) / 3 of judge scores.", labels=("auditor", "axis", "group", "model")
    )
    for series, total in sorted(_of(counters, "live_score_sum").items()):
        buckets, cumulated = [], 0.0
        for bound in SCORE_BOUNDS:
            cumulated += counters.get(("live_score", (*series, str(bound))), 0.0)
            buckets.append((str(bound), cumulated))
        family.add_metric(series, [*buckets, ("+Inf", cumulated)], sum_value=total)
    return family


def _drift(streams: Mapping[Labels, Stream], log_threshold: float, alarmed: Set[Labels]) -> Iterator[Metric]:
    evidence = _gauge("drift_log_evidence", "Log evidence of a drift since the detector began.", SERIES)
    threshold = _gauge("drift_log_threshold", "Log evidence at which a stream alarms by itself.", SERIES)
    alarm = _gauge("drift_alarm", "1 from an alarm until it is acknowledged.", SERIES)
    seen = CounterMetricFamily("biasgate_drift_audits_seen", "Audits since the detector began.", labels=SERIES)
    for labels, stream in streams.items():
        detector = stream.state.detector
        _put(threshold, labels, log_threshold)
        _put(alarm, labels, float(labels in alarmed))
        _put(evidence, labels, None if detector is None else detector.log_evidence)
        seen.add_metric(labels, 0 if detector is None else detector.n_seen)
    yield from (evidence, threshold, alarm, seen)


def _runs(snapshot: Snapshot) -> Iterator[Metric]:
    labels = ("suite", "model", "outcome")
    yield _counter(snapshot, "audit_runs", "Suite runs by how they ended.", labels)
    yield _counter(snapshot, "audit_requests", "Replies of suite runs by status.", labels)
    success = _gauge("audit_last_success_timestamp_seconds", "When a run last finished.", labels[:2])
    progress = _gauge("audit_progress_ratio", "Share of the replies that a run has.", labels[:2])
    ratios: dict[Labels, float] = {(run.suite, run.model): 1.0 for run in snapshot.finished_runs}
    ratios |= {
        (run.suite, run.model): run.progress_done / run.progress_total if run.progress_total else 0.0
        for run in snapshot.active_runs
    }
    finished: dict[Labels, float] = {}
    for run in snapshot.finished_runs:
        finished[run.suite, run.model] = max(finished.get((run.suite, run.model), 0.0), run.finished_at or 0.0)
    for key, at in sorted(finished.items()):
        _put(success, key, at)
    for key, ratio in sorted(ratios.items()):
        _put(progress, key, ratio)
    yield from (success, progress)


def _run_estimates(newest: Iterable[tuple[Run, Sequence[Estimate]]]) -> Iterator[Metric]:
    value = _gauge("audit_estimate", "Newest estimate by the corrected protocol, unmitigated.", RUN_ESTIMATE)
    lower = _gauge("audit_estimate_lower", "Lower end of its interval.", RUN_ESTIMATE)
    upper = _gauge("audit_estimate_upper", "Upper end of its interval.", RUN_ESTIMATE)
    info = _gauge("audit_estimate_info", "1; which data and protocol the estimates come from.", RUN_INFO)
    for run, estimates in newest:
        _put(info, (run.suite, run.model, run.mode, run.protocol, data_kind(run)), 1.0)
        for one in estimates:
            place = (one.metric, one.axis or "", one.group or "", one.reference or "", one.subset or "")
            labels = (run.suite, *place, run.model, run.mode)
            _put(value, labels, one.value)
            _put(lower, labels, one.lower)
            _put(upper, labels, one.upper)
    yield from (value, lower, upper, info)


def data_kind(run: Run) -> str:
    """Canonical or embedded."""
    kind: str = run.options.get("data", "canonical")
    return kind


def _newest_streams(streams: Iterable[Stream]) -> dict[Labels, Stream]:
    """By series: a new judge or embedder starts a new stream, and the one that still moves is shown."""
    return {_series(stream): stream for stream in sorted(streams, key=lambda stream: stream.updated_at)}


def _alarmed(streams: Iterable[Stream]) -> set[Labels]:
    """Series with an alarm that nobody has acknowledged, by whichever instrument: another judge lowers none."""
    return {_series(stream) for stream in streams if stream.state.alarm}


def _series(stream: Stream) -> Labels:
    key = stream.key
    return key.auditor, key.metric, key.axis, key.group, key.model


def _of(counters: Mapping[tuple[str, Labels], float], name: str) -> dict[Labels, float]:
    return {labels: value for (counter, labels), value in counters.items() if counter == name}


def _counter(snapshot: Snapshot, name: str, text: str, labels: Sequence[str]) -> Metric:
    family = CounterMetricFamily(f"biasgate_{name}", text, labels=labels)
    for values, count in sorted(_of(snapshot.counters, name).items()):
        family.add_metric(values, count)
    return family


def _gauge(name: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"biasgate_{name}", text, labels=labels)


def _put(family: GaugeMetricFamily, labels: Labels, value: float | None) -> None:
    if value is not None:  # undefined is not zero: there is no sample then
        family.add_metric(labels, value)
