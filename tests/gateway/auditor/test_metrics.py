"""The auditor's families from a snapshot: what is undefined has no sample, what drifted says so."""

import asyncio
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from auditors.streams import state as live
from auditors.streams.state import StreamKey, StreamState
from auditors.types import Estimate
from gateway.auditor.backpressure.limiter import ConcurrencyLimiter, ConcurrencyLimiters
from gateway.auditor.metrics import AuditorMetrics, Snapshot
from gateway.config.schema import AuditsConfig
from gateway.store.runs import Run
from gateway.store.streams import Stream
from gateway.telemetry.exposition import Exposition
from tests.support.store.made import SETTINGS, measurement

SERIES = {"auditor": "judge", "metric": "favoritism", "axis": "gender", "group": "women", "model": "m"}


def samples(**snapshot: Any) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What is exposed for a snapshot, by name without the prefix and labels."""
    metrics = AuditorMetrics(SETTINGS)
    metrics.snapshot = Snapshot(**snapshot)
    return {
        (sample.name.removeprefix("biasgate_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(asyncio.run(Exposition(metrics).render(""))[0].decode())
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """The key of a sample."""
    return name, frozenset(labels.items())


def stream(*values: float | None, updated_at: float = 1.0, instrument: str = "v1 j") -> Stream:
    """A stream that has seen these scores."""
    state = StreamState()
    for value in values:
        state = live.record(state, measurement(value), 1.0, SETTINGS)
    return Stream(
        id=instrument,
        key=StreamKey(instrument=instrument, **SERIES),
        state=state,
        updated_at=updated_at,
        alarm_since=None,
        alarm_exchange_id=None,
        acknowledged_at=None,
    )


def run(**given: Any) -> Run:
    """A finished run."""
    fields: dict[str, Any] = {
        "id": "r",
        "suite": "stereoset",
        "model": "m",
        "mode": "sample",
        "protocol": "corrected",
        "options": {},
        "status": "done",
        "progress_done": 4,
        "progress_total": 4,
        "created_at": 1.0,
        "started_at": 2.0,
        "finished_at": 30.0,
        "heartbeat_at": 29.0,
        "error": None,
    }
    return Run(**fields | given)


def test_empty_store_exposes_no_estimate() -> None:
    """With nothing measured there are only the gauges of what waits."""
    assert samples() == {
        key("audit_queue_size"): 0,
        key("audit_lag_seconds"): 0,
    }


def test_stream_without_a_value_has_no_estimate() -> None:
    """A series of refusals shows no mean: undefined is not zero."""
    found = samples(streams=[stream(None, None)])
    assert key("live_estimate", **SERIES) not in found
    assert key("live_estimate_lower", **SERIES) not in found
    assert key("drift_log_evidence", **SERIES) not in found
    assert found[key("live_effective_samples", **SERIES)] == 0
    assert found[key("drift_alarm", **SERIES)] == 0


def test_detector_shows_its_evidence_and_its_alarm() -> None:
    """Once the reference is full the evidence is shown, and an alarm stays up."""
    calm = samples(streams=[stream(*[-1.0] * 11)])
    assert calm[key("drift_audits_seen_total", **SERIES)] == 1
    assert calm[key("drift_alarm", **SERIES)] == 0
    threshold = calm[key("drift_log_threshold", **SERIES)]
    assert threshold == SETTINGS.log_threshold()
    drifted = samples(streams=[stream(*[-1.0] * 10, *[2.0] * 200)])
    assert drifted[key("drift_alarm", **SERIES)] == 1
    assert drifted[key("drift_log_evidence", **SERIES)] >= threshold


def test_newest_instrument_of_a_series_is_shown() -> None:
    """After a change of judge the stream that still moves is the one on the dashboard."""
    old, new = stream(2.0, updated_at=1.0, instrument="v1 old"), stream(-1.0, updated_at=2.0, instrument="v1 new")
    assert samples(streams=[new, old])[key("live_estimate", **SERIES)] == -1.0


def test_an_alarm_outlasts_a_change_of_judge() -> None:
    """A new judge's stream takes over the series; the alarm of the old one stands until somebody acknowledges it."""
    drifted = stream(*[-1.0] * 10, *[2.0] * 200, updated_at=1.0, instrument="v1 old")
    calm = stream(*[-1.0] * 11, updated_at=2.0, instrument="v1 new")
    before, after = samples(streams=[drifted]), samples(streams=[calm, drifted])
    lowered = msgspec.structs.replace(drifted, state=live.acknowledge(drifted.state))

    assert before[key("drift_alarm", **SERIES)] == after[key("drift_alarm", **SERIES)] == 1
    assert after[key("drift_audits_seen_total", **SERIES)] == 1
    assert samples(streams=[calm, lowered])[key("drift_alarm", **SERIES)] == 0


def test_histogram_is_cumulative() -> None:
    """Buckets add up, and the count is that of the last."""
    series = {name: value for name, value in SERIES.items() if name != "metric"}
    labels = tuple(series.values())
    counters = {
        ("live_score", (*labels, "0.0")): 1.0,
        ("live_score", (*labels, "0.67")): 2.0,
        ("live_score", (*labels, "1.0")): 3.0,
        ("live_score_sum", labels): 4.3,
    }
    found = samples(counters=counters)
    buckets = [found[key("live_score_bucket", le=le, **series)] for le in ("0.0", "0.34", "0.67", "1.0", "+Inf")]
    assert buckets == [1, 1, 3, 6, 6]
    assert found[key("live_score_count", **series)] == 6
    assert found[key("live_score_sum", **series)] == 4.3


def test_counters_keep_their_labels() -> None:
    """Counters of the store come out under their own families."""
    counted: dict[str, dict[str, str]] = {
        "exchanges": {"outcome": "audited", "auditor": "judge"},
        "judge_requests": {"outcome": "ok"},
        "abstentions": {"auditor": "counterfactual", "reason": "several groups"},
        "audit_runs": {"suite": "stereoset", "model": "m", "outcome": "failed"},
        "audit_requests": {"suite": "stereoset", "model": "m", "outcome": "ok"},
    }
    counters = {(name, tuple(labels.values())): 3.0 for name, labels in counted.items()}
    found = samples(counters=counters | {("exchanges", ("expired", "")): 1.0}, queue_size=7, oldest_seconds=1.5)
    for name, labels in counted.items():
        assert found[key(f"{name}_total", **labels)] == 3
    assert found[key("exchanges_total", outcome="expired", auditor="")] == 1
    assert found[key("audit_queue_size")] == 7
    assert found[key("audit_lag_seconds")] == 1.5


def test_estimates_of_the_newest_run() -> None:
    """An estimate has value and interval; one that is undefined has no sample at all."""
    defined = Estimate(metric="ss", axis="gender", subset="intrasentence", value=61.2, lower=57.9, upper=64.6, n=251)
    undefined = Estimate(metric="ss", axis="race", value=None, n=0, reason="too few")
    found = samples(exported_runs=[(run(), [defined, undefined], False)], finished_runs=[run()])
    place = {
        "suite": "stereoset",
        "metric": "ss",
        "axis": "gender",
        "group": "",
        "reference": "",
        "subset": "intrasentence",
        "model": "m",
        "mode": "sample",
        "thinking": "default",
    }
    ends = [found[key(f"audit_estimate{end}", **place)] for end in ("_lower", "", "_upper")]
    assert ends == [57.9, 61.2, 64.6]
    assert not [labels for name, labels in found if name == "audit_estimate" and ("axis", "race") in labels]
    about = {"suite": "stereoset", "model": "m", "mode": "sample", "protocol": "corrected", "data": "canonical"}
    about["thinking"] = "default"
    assert found[key("audit_estimate_info", **about)] == 1.0
    assert found[key("audit_last_success_timestamp_seconds", suite="stereoset", model="m")] == 30.0
    assert found[key("audit_progress_ratio", suite="stereoset", model="m")] == 1.0


def test_progress_of_a_running_run_goes_before_a_finished_one() -> None:
    """While a suite runs again its progress is shown, not that of the last time."""
    active = run(id="s", status="running", progress_done=1, finished_at=None)
    unsure = msgspec.structs.replace(active, id="t", suite="bbq", progress_total=None)
    found = samples(finished_runs=[run()], active_runs=[active, unsure])
    assert found[key("audit_progress_ratio", suite="stereoset", model="m")] == 0.25
    assert found[key("audit_progress_ratio", suite="bbq", model="m")] == 0.0


async def page(limiters: ConcurrencyLimiters) -> str:
    return (await Exposition(AuditorMetrics(SETTINGS, limiters)).render(""))[0].decode()


def limiters_of(*names: str) -> tuple[ConcurrencyLimiters, list[ConcurrencyLimiter]]:
    """The limiters of servers with these names."""
    limiters = ConcurrencyLimiters(AuditsConfig())
    return limiters, [one for name in names if (one := limiters.of(f"http://{name}", name)) is not None]


async def test_allowances_are_shown_by_upstream() -> None:
    """What may be in flight at each server; held back entirely is 0, not nothing."""
    limiters, [one, _] = limiters_of("one", "auditors.judge")
    one.widen(8)
    found = await page(limiters)
    assert 'biasgate_audit_allowance{upstream="one"} 8.0' in found
    assert 'biasgate_audit_allowance{upstream="auditors.judge"} 0.0' in found


async def test_latency_is_shown_where_it_is_known() -> None:
    """A ratio by upstream; a server without one has no sample."""
    limiters, [one, _] = limiters_of("one", "two")
    one._latency.ratio = 1.25
    found = await page(limiters)
    assert 'biasgate_audit_live_latency_ratio{upstream="one"} 1.25' in found
    assert 'biasgate_audit_live_latency_ratio{upstream="two"}' not in found


async def test_what_was_cut_off_is_shown_from_the_start() -> None:
    """By server and reason, with zeros, so that the first eviction is an increase."""
    limiters, [one] = limiters_of("one")
    one.evictions["audits_evicted", "live_waiting"] += 2
    one.evictions["audit_tokens_wasted", "prompt"] += 30
    found = await page(limiters)
    for line in (
        'audits_evicted_total{reason="live_waiting",upstream="one"} 2.0',
        'audits_evicted_total{reason="live_latency",upstream="one"} 0.0',
        'audit_tokens_wasted_total{kind="prompt",upstream="one"} 30.0',
        'audit_tokens_wasted_total{kind="generation",upstream="one"} 0.0',
    ):
        assert f"biasgate_{line}" in found
