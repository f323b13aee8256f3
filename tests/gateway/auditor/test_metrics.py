"""The auditor's families from a snapshot: what is undefined has no sample, what drifted says so."""

import asyncio
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from auditors.streams import state as live
from auditors.streams.drift import DriftSettings
from auditors.streams.state import StreamKey, StreamState
from auditors.types import Estimate
from benchmarks.run.judge import JudgeUsed
from benchmarks.run.result import DatasetUsed, Provenance, Result
from benchmarks.suites.common.estimation import NOT_ASSESSABLE
from gateway.auditor.backpressure.limiter import ConcurrencyLimiters
from gateway.auditor.metrics import AuditorMetrics, Snapshot
from gateway.config.schema import AuditsConfig
from gateway.store.runs import Run
from gateway.store.streams import Stream
from gateway.telemetry.exposition import Exposition
from tests.support.store.made import SETTINGS, measurement

SERIES = {"auditor": "judge", "metric": "favoritism", "axis": "gender", "group": "women", "model": "m"}


def samples(settings: DriftSettings = SETTINGS, **snapshot: Any) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What is exposed for a snapshot, by name without the prefix and labels."""
    metrics = AuditorMetrics(settings)
    metrics.snapshot = Snapshot(**snapshot)
    return {
        (sample.name.removeprefix("biasgate_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(asyncio.run(Exposition(metrics).render(""))[0].decode())
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """The key of a sample."""
    return name, frozenset(labels.items())


def stream(
    *values: float | None, updated_at: float = 1.0, instrument: str = "v1 j", settings: DriftSettings = SETTINGS
) -> Stream:
    """A stream that has seen these scores."""
    state = StreamState()
    for value in values:
        state = live.record(state, measurement(value), 1.0, settings)
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


def finished(
    estimates: list[Estimate], *, suite: str = "stereoset", not_assessable: str | None = None, **about: Any
) -> Result:
    """The result of a run."""
    return Result(
        suite=suite,
        suite_version="1.0",
        protocol="corrected",
        mode="sample",
        model="m",
        seed=0,
        dataset=DatasetUsed(name=suite, kind="canonical", sha256="0", n_canonical=1, n_used=1),
        counts={},
        assessable=not_assessable is None,
        not_assessable=not_assessable,
        estimates=estimates,
        provenance=Provenance(biasgate="0", prompt_sha256="0"),
        **about,
    )


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


def test_a_stream_that_did_not_move_says_so() -> None:
    """1 once its change is shown to be below the margin, 0 before, and nothing where no margin is set."""
    settings = msgspec.structs.replace(SETTINGS, equivalence_margin=0.3)
    calm = stream(*[0.0, 1.0] * 400, settings=settings)
    young = stream(*[0.0, 1.0] * 6, settings=settings)
    shown = key("drift_shown_smaller", **SERIES)
    assert samples(settings, streams=[calm])[shown] == 1
    assert samples(settings, streams=[young])[shown] == 0
    assert shown not in samples(streams=[calm])


def test_an_alarm_outlasts_a_change_of_judge() -> None:
    """A new judge's stream takes over the series; the alarm of the old one stands until somebody acknowledges it."""
    drifted = stream(*[-1.0] * 10, *[2.0] * 200, updated_at=1.0, instrument="v1 old")
    calm = stream(*[-1.0] * 11, updated_at=2.0, instrument="v1 new")
    before, after = samples(streams=[drifted]), samples(streams=[calm, drifted])
    lowered = msgspec.structs.replace(drifted, state=live.acknowledge(drifted.state))

    assert before[key("drift_alarm", **SERIES)] == after[key("drift_alarm", **SERIES)] == 1
    assert after[key("drift_audits_seen_total", **SERIES)] == 1
    assert samples(streams=[calm, lowered])[key("drift_alarm", **SERIES)] == 0


def test_estimates_of_the_newest_run() -> None:
    """An estimate has value and interval; without a value, or not assessable, it has no sample."""
    defined = Estimate(metric="ss", axis="gender", subset="intrasentence", value=61.2, lower=57.9, upper=64.6, n=251)
    undefined = Estimate(metric="ss", axis="race", value=None, n=0, reason="too few")
    few = msgspec.structs.replace(defined, subset=None, n=9, extra={NOT_ASSESSABLE: "9 of 9 replies"})
    judge = JudgeUsed(model="j", validated=False, constant=True)
    found = samples(exported_runs=[(run(), finished([defined, undefined, few], judge=judge))], finished_runs=[run()])
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
    assert [labels for name, labels in found if name == "audit_estimate"] == [frozenset(place.items())]
    about = {"suite": "stereoset", "model": "m", "mode": "sample", "protocol": "corrected", "data": "canonical"}
    about["thinking"] = "default"
    assert found[key("audit_estimate_info", **about)] == 1.0
    who = {name: about[name] for name in ("suite", "model", "mode", "thinking")}
    assert [found[key(name, **who)] for name in ("audit_assessable", "audit_judge_validated")] == [1.0, 0.0]
    assert found[key("audit_judge_constant", **who, judge="j")] == 1.0
    assert found[key("audit_last_success_timestamp_seconds", suite="stereoset", model="m")] == 30.0
    assert found[key("audit_progress_ratio", suite="stereoset", model="m")] == 1.0


def test_a_run_that_is_not_assessable_has_a_gauge_and_no_number() -> None:
    """An alert can tell it from a run that is missing; the rate of refusals, which needs no reader, stays."""
    score = Estimate(metric="ss", value=60.0, n=10, extra={NOT_ASSESSABLE: "no reply"})
    result = finished([score, Estimate(metric="refusal_rate", value=100.0, n=10)], not_assessable="no reply")
    found = samples(exported_runs=[(run(), result)])
    shown = [dict(labels)["metric"] for name, labels in found if name == "audit_estimate"]
    assert shown == ["refusal_rate"]
    assert [value for (name, _), value in found.items() if name == "audit_assessable"] == [0.0]


async def test_servers_are_shown_by_name() -> None:
    """The metrics show each server's limit, latency ratio and evictions by reason, with zeros for increase()."""
    limiters = ConcurrencyLimiters(AuditsConfig())
    first, _ = [limiters.of(f"http://{name}", name) for name in ("u", "auditors.judge")]
    assert first is not None
    first.widen(8)
    first._latency.ratio = 1.25
    first.evictions["audits_evicted", "live_waiting"] += 2
    page = (await Exposition(AuditorMetrics(SETTINGS, limiters)).render(""))[0].decode()
    for line in (
        'audit_allowance{upstream="u"} 8.0',
        'audit_allowance{upstream="auditors.judge"} 0.0',
        'audit_live_latency_ratio{upstream="u"} 1.25',
        'audits_evicted_total{reason="live_waiting",upstream="u"} 2.0',
        'audits_evicted_total{reason="live_latency",upstream="u"} 0.0',
        'audit_tokens_wasted_total{kind="generation",upstream="u"} 0.0',
    ):
        assert f"biasgate_{line}" in page
    assert 'audit_live_latency_ratio{upstream="auditors.judge"}' not in page
