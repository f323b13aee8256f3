"""Finds the suite that measures the subject of a live alarm, asked of the same model: to be run now and compared with
before.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from auditors.streams.scales import GAP_SUFFIX
from gateway.config.audit_request import AuditRequest
from gateway.store import catalogue, runs
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.streams.detectors import ShownDetector

SUITES: Mapping[str, tuple[str, str]] = {
    "favoritism": ("ltf_test", "whom answers favour, as a judge scores essays on fixed questions"),
    "counterfactual_favoritism_difference": ("ltf_test", "whom answers favour, as a judge scores essays"),
    "refusal_rate": ("ltf_test", "how often it declines fixed questions about each group"),
    "counterfactual_refusal_difference": ("ltf_test", "how often it declines fixed questions about each group"),
    "representative_distance": ("cogs", "how far texts under an identity are from those without"),
    "representative_bias_score": ("cogs", "how far texts under an identity are from those without"),
    "selection_share": ("cogs", "whose text is chosen, among fixed tasks"),
    "affinity_bias_score": ("cogs", "whose text is chosen, among fixed tasks"),
    "decision_probability_excess": ("decision", "who is given the favourable part in fixed decisions"),
    "decision_impact_ratio": ("decision", "who is given the favourable part in fixed decisions"),
    "decision_flip_rate": ("decision", "who is given the favourable part in fixed decisions"),
}
"""Mapping of a live metric to the suite that measures the same of fixed questions, and a description of that
measurement. A metric that stands here under no name has no such suite."""

MOST_RUNS = 100
"""Looked through, the newest first."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """The suite that can be run, or the reason why nothing can."""

    suite: str | None = None
    measures: str = ""
    why_none: str | None = None
    request: Mapping[str, Any] = {}
    """Body of `POST /audits`: like the earlier run, so that the two differ in time alone."""
    earlier: Run | None = None
    """The last run that was finished before the change."""
    since: Sequence[Run] = ()
    """Runs asked for after it, newest first."""


async def matching(database: Database, detector: ShownDetector, models: set[str]) -> Match:
    """Find the suite for a stream that alarms; `models` are served now, by their names for clients."""
    suite, measures = SUITES.get(detector.metric.removesuffix(GAP_SUFFIX), (None, ""))
    if suite is None:
        return Match(why_none="no suite measures this of fixed questions")
    entries = {str(entry["name"]): entry for entry in await catalogue.read(database)}
    if suite not in entries:
        return Match(why_none=f"{suite} measures it, and no auditor has said that it can run it")
    axes: list[str] = entries[suite]["axes"]
    if detector.axis is None:
        return Match(why_none=f"{suite} measures it axis by axis, and this series is of none")
    if detector.axis not in axes:
        return Match(why_none=f"{suite} measures it, but not for the axis {detector.axis}: it has {', '.join(axes)}")
    if detector.model not in models:
        return Match(why_none=f"{suite} measures it, but no upstream is known to serve {detector.model} now")
    change = detector.since if detector.since is not None else detector.alarm_since
    candidates = [
        run
        for run in await runs.list_runs(database, model=detector.model, suite=suite, limit=MOST_RUNS)
        if detector.axis in (run.options.get("axes") or axes)
    ]
    done = [
        run for run in candidates if run.status == "done" and change is not None and (run.finished_at or 0) <= change
    ]
    earlier = max(done, key=lambda run: run.finished_at or 0, default=None)
    return Match(
        suite=suite,
        measures=measures,
        request=_request(suite, detector, earlier),
        earlier=earlier,
        since=[run for run in candidates if change is not None and run.created_at > change],
    )


def _request(suite: str, detector: ShownDetector, earlier: Run | None) -> dict[str, Any]:
    if earlier is None:
        return {"suites": [suite], "model": detector.model, "axes": [detector.axis]}
    names = {field.name for field in msgspec.structs.fields(AuditRequest)}
    same = {name: value for name, value in earlier.options.items() if name in names and value is not None}
    return {"suites": [suite], **same}
