"""The auditor's Prometheus families. Most are read from the store: aggregate over auditors with max, never with sum.
The exceptions: `biasgate_audit_allowance` and what was cut off add up, `biasgate_audit_live_latency_ratio` does not.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from auditors.streams.drift import DriftSettings
from benchmarks.run.result import Result
from gateway.auditor.backpressure.aimd import REASONS
from gateway.auditor.backpressure.limiter import ConcurrencyLimiters
from gateway.auditor.backpressure.running import EVICTED, WASTED, Evictions
from gateway.auditor.live_series import Labels, LiveSeries
from gateway.auditor.part import counter, gauge, interval, put
from gateway.config.schema import AuditsConfig
from gateway.proxy.trace_context import read_traceparent
from gateway.proxy.wasted_tokens import WastedTokens
from gateway.store.circuits import Circuit, Waiting
from gateway.store.measurements import Recording
from gateway.store.runs import Run
from gateway.store.streams import Stream
from gateway.streams.recording import SCORE_BOUNDS, counted
from gateway.telemetry.exposition import exemplar
from gateway.telemetry.metrics import EVICTED_HELP, LEDGER, WASTED_HELP
from gateway.turns import in_turns


class Latest(msgspec.Struct, frozen=True, gc=False):
    """An exchange that was counted."""

    request_id: str
    trace_id: str
    """Trace id of the live request; "" if it was not traced."""
    value: float
    """Value that was observed; 1 if it was only counted."""
    at: float
    """Unix seconds."""


class LatestExchanges:
    """The latest exchanges by counter and label values, of which there is a closed set."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, tuple[str, ...]], Latest] = {}

    def note(self, recording: Recording) -> None:
        """It is in the store."""
        exchange, now = recording.exchange, time.time()
        trace = read_traceparent(exchange.traceparent.encode()) if exchange.traceparent else None
        trace_id = f"{trace.trace_id:032x}" if trace is not None and trace.is_sampled else ""
        for name, labels, value in counted(recording):
            self._latest[name, labels] = Latest(exchange.request_id, trace_id, value, now)

    def of(self, name: str, labels: tuple[str, ...]) -> Latest | None:
        """Return the latest; None if this process has counted none."""
        return self._latest.get((name, labels))


RUN_ESTIMATE = ("suite", "metric", "axis", "group", "reference", "subset", "model", "mode", "thinking")

JUDGE_REQUESTS = (
    "Requests to a judge: ok, malformed, refused (the judge declines), timeout (also of the audit), error (no "
    "connection, 429, 5xx), rejected (another status), thinking_exhausted (ended before the verdict: set `thinking`, "
    "docs/auditors.md#models-that-think)."
)
ASSESSABLE = "1 for an assessable run; else 0, and its numbers are absent."
VALIDATED = "1 for a validated judge, else 0 (docs/suites.md#judges-embedders-evaluators)."
CONSTANT = "1 if all verdicts of a run are equal, else 0 (docs/runbooks/judge-failing.md)."
TOKENS = "Tokens that live auditors spent, as servers counted them: input (read) and output (written)."
ABSTENTIONS = "Exchanges not or only partly measured (docs/auditors.md), by 37 reasons altogether."
RUN_INFO = ("suite", "model", "mode", "thinking", "protocol", "data")


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of the store when it was last read."""

    streams: Sequence[Stream] = ()
    counters: Mapping[tuple[str, Labels], float] = {}
    queue_size: int = 0
    oldest_seconds: float = 0.0
    """Age of the oldest exchange that waits to be audited; 0 when none waits."""
    circuits: Sequence[Circuit] = ()
    waiting: Mapping[str, Waiting] = {}
    """Exchanges that wait for a server of an auditor, by auditor."""
    read_at: float = 0.0
    """Unix seconds."""
    finished_runs: Sequence[Run] = ()
    """The newest finished run of each set of options."""
    exported_runs: Sequence[tuple[Run, Result]] = ()
    """One finished run of each suite, model and mode (see `metrics_snapshot.exported`)."""
    active_runs: Sequence[Run] = ()
    families: Sequence[Metric] = ()
    """The families of features, as they read them."""
    due_times: Mapping[tuple[str, str], float] = {}
    """Due times of scheduled suites, by suite and model: see `gateway.auditor.scheduling.due_times`."""


class AuditorMetrics(Collector):
    """The families of the last snapshot; `renew` it now and then."""

    def __init__(
        self,
        settings: DriftSettings,
        limiters: ConcurrencyLimiters | None = None,
        *,
        auditors: Sequence[str] = (),
        latest: LatestExchanges | None = None,
    ) -> None:
        """`settings`: of the drift detectors. `auditors`: names of those enabled. `latest`: exchanges of exemplars."""
        self._auditors = auditors
        self._latest = latest or LatestExchanges()
        self._limiters = limiters or ConcurrencyLimiters(AuditsConfig())
        self.snapshot = Snapshot()
        self._series = LiveSeries(settings)

    async def renew(self, snapshot: Snapshot) -> None:
        """Takes over a snapshot once what has changed in it is formatted, in short steps."""
        if snapshot.streams is not self.snapshot.streams:
            n_streams = len(snapshot.streams)
            await in_turns(lambda stream: self._series.prepare(stream, n_streams), snapshot.streams)
        self.snapshot = snapshot

    def text(self, *, is_openmetrics: bool) -> bytes:
        """The families of live series, as text: see `gateway.auditor.live_series`."""
        return self._series.text(self.snapshot.streams, is_openmetrics=is_openmetrics)

    def collect(self) -> Iterator[Metric]:
        snapshot = self.snapshot
        yield from _pipeline(snapshot, self._latest)
        yield from _circuits(snapshot, self._auditors)
        yield _scores(snapshot.counters, self._latest)
        yield from _runs(snapshot)
        yield from snapshot.families
        yield from _run_estimates(snapshot.exported_runs)
        words = "Audit requests allowed in flight (auditors.judge: the judge's own server); 0 while held back."
        yield _by_upstream("audit_allowance", words, self._limiters.allowed())
        words = "Time between tokens with audits, in times of that without; absent until known."
        yield _by_upstream("audit_live_latency_ratio", words, self._limiters.live_latency_ratios())
        yield from _evictions(self._limiters.evictions())


def _by_upstream(name: str, words: str, values: Mapping[str, float]) -> Metric:
    family = gauge(name, words, ("upstream",))
    for upstream, value in values.items():
        put(family, (upstream,), value)
    return family


def _evictions(by_upstream: Mapping[str, Evictions]) -> Iterator[Metric]:
    evicted = CounterMetricFamily("biasgate_audits_evicted", EVICTED_HELP, labels=("upstream", "reason"))
    wasted = CounterMetricFamily("biasgate_audit_tokens_wasted", WASTED_HELP, labels=("upstream", "kind"))
    for upstream, evictions in by_upstream.items():
        for reason in REASONS:
            evicted.add_metric((upstream, reason), evictions[EVICTED, reason])
        for kind in WastedTokens._fields:
            wasted.add_metric((upstream, kind), evictions[WASTED, kind])
    yield from (evicted, wasted)


def _pipeline(snapshot: Snapshot, latest: LatestExchanges) -> Iterator[Metric]:
    labels = ("outcome", "auditor", "reason")  # a reason only of what is not auditable
    yield _counter(snapshot, "exchanges", LEDGER, labels, latest)
    yield _counter(snapshot, "judge_requests", JUDGE_REQUESTS, ("outcome",))
    yield _counter(snapshot, "audit_tokens", TOKENS, ("auditor", "direction"))
    yield _counter(snapshot, "abstentions", ABSTENTIONS, ("auditor", "reason"), latest)
    yield GaugeMetricFamily("biasgate_audit_queue_size", "Sampled exchanges not settled.", value=snapshot.queue_size)
    yield GaugeMetricFamily("biasgate_audit_lag_seconds", "Age of the oldest of them.", value=snapshot.oldest_seconds)


def _circuits(snapshot: Snapshot, auditors: Iterable[str]) -> Iterator[Metric]:
    is_open = gauge("auditor_circuit_open", "1 while a server is sick (docs/operations.md#a-sick-judge).", ("auditor",))
    count = gauge("auditor_waiting_exchanges", "Exchanges that wait for a server of the auditor.", ("auditor",))
    seconds = gauge("auditor_waiting_seconds", "Age of the oldest of these exchanges; else 0.", ("auditor",))
    open_now = {circuit.auditor for circuit in snapshot.circuits}
    for name in auditors:
        waiting = snapshot.waiting.get(name)
        put(is_open, (name,), float(name in open_now))
        put(count, (name,), float(waiting.n if waiting else 0))
        put(seconds, (name,), max(0.0, snapshot.read_at - waiting.oldest) if waiting else 0.0)
    yield from (is_open, count, seconds)


def _scores(counters: Mapping[tuple[str, Labels], float], latest: LatestExchanges) -> Metric:
    family = HistogramMetricFamily(
        "biasgate_live_score", "Judge scores as (score + 1) / 3.", labels=("auditor", "axis", "group", "model")
    )
    for series, total in sorted(_of(counters, "live_score_sum").items()):
        cumulated = 0.0
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        for bound in map(str, SCORE_BOUNDS):
            cumulated += counters.get(("live_score", (*series, bound)), 0.0)
            example = _exemplar(latest, "live_score", (*series, bound))
            buckets.append((bound, cumulated) if example is None else (bound, cumulated, example))
        family.add_metric(series, [*buckets, ("+Inf", cumulated)], sum_value=total)
    return family


def _runs(snapshot: Snapshot) -> Iterator[Metric]:
    labels = ("suite", "model", "outcome")
    yield _counter(snapshot, "audit_runs", "Finished suite runs.", labels)
    yield _counter(snapshot, "audit_requests", "Replies of suite runs.", labels)
    success = gauge("audit_last_success_timestamp_seconds", "Time of the last good run.", labels[:2])
    due = gauge("audit_due_timestamp_seconds", "Due time of the run after the newest finished run.", labels[:2])
    progress = gauge("audit_progress_ratio", "Answered share of items.", labels[:2])
    ratios: dict[Labels, float] = {(run.suite, run.model): 1.0 for run in snapshot.finished_runs}
    ratios |= {
        (run.suite, run.model): run.progress_done / run.progress_total if run.progress_total else 0.0
        for run in snapshot.active_runs
    }
    finished: dict[Labels, float] = {}
    for run in snapshot.finished_runs:
        finished[run.suite, run.model] = max(finished.get((run.suite, run.model), 0.0), run.finished_at or 0.0)
    due_items = snapshot.due_times.items()
    for family, values in ((success, finished.items()), (due, due_items), (progress, ratios.items())):
        for key, value in sorted(values):
            put(family, key, value)
    yield from (success, due, progress)


def _run_estimates(newest: Iterable[tuple[Run, Result]]) -> Iterator[Metric]:
    words = "Newest exported run (docs/metrics.md#which-suite-runs-are-exported)."
    value, lower, upper = interval("audit_estimate", words, RUN_ESTIMATE)
    info = gauge("audit_estimate_info", "1; data and protocol of the estimates.", RUN_INFO)
    assessable = gauge("audit_assessable", ASSESSABLE, RUN_INFO[:4])
    validated = gauge("audit_judge_validated", VALIDATED, RUN_INFO[:4])
    constant = gauge("audit_judge_constant", CONSTANT, (*RUN_INFO[:4], "judge"))
    for run, result in newest:
        thinking = thinking_of(run)
        who = (run.suite, run.model, run.mode, thinking)
        put(assessable, who, float(result.fault is None))
        if (judge := result.judge) is not None or result.judge_fault is not None:
            put(validated, who, float(judge is not None and judge.validated))
            put(constant, (*who, judge.model if judge else ""), float(judge is not None and judge.constant))
        put(info, (*who, run.protocol, data_kind(run)), 1.0)
        for estimate in (estimate for estimate in result.estimates if result.fault_of(estimate) is None):
            place = (getattr(estimate, name) or "" for name in ("metric", "axis", "group", "reference", "subset"))
            labels = (run.suite, *place, run.model, run.mode, thinking)
            put(value, labels, estimate.value)
            put(lower, labels, estimate.lower)
            put(upper, labels, estimate.upper)
    yield from (value, lower, upper, info, assessable, validated, constant)


def data_kind(run: Run) -> str:
    return str(run.options.get("data", "canonical"))


def thinking_of(run: Run) -> str:
    """Return the setting that says if the run's model was to think."""
    return str(run.options.get("thinking", "default"))


def _of(counters: Mapping[tuple[str, Labels], float], name: str) -> dict[Labels, float]:
    return {labels: value for (key, labels), value in counters.items() if key == name}


def _counter(
    snapshot: Snapshot, name: str, text: str, labels: Sequence[str], latest: LatestExchanges | None = None
) -> Metric:
    family = counter(name, text, labels)
    for values, count in sorted(_of(snapshot.counters, name).items()):
        family.add_metric(values, count, exemplar=_exemplar(latest, name, values))
    return family


def _exemplar(latest: LatestExchanges | None, name: str, labels: Labels) -> Exemplar | None:
    example = latest.of(name, labels) if latest is not None else None
    return None if example is None else exemplar(example.request_id, example.trace_id, example.value, example.at)
