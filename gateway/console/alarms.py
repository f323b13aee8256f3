"""/console/alarms: drift alarms that stand, each on a page of its own, and who lowered which."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from litestar import Controller, Response, get
from litestar.params import FromPath, QueryParameter
from litestar.response import Redirect

from auditors.streams.scales import GAP_SUFFIX
from gateway.api.dependencies import Asked, Plane, Settings, Store
from gateway.config.audit_request import AuditRequest
from gateway.config.schema import DriftConfig
from gateway.console.alarm_words import sentence, shown_changes, subject
from gateway.console.interval_figure import plot
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
from gateway.control_keys import Holder
from gateway.errors import NotFoundError
from gateway.feature import FEATURES
from gateway.reading import stream_pages
from gateway.reading.viewer_forms import shown_acknowledgement
from gateway.store import acknowledgements, catalogue, exchange_search, histories, replicas, runs, served, streams
from gateway.store.acknowledgements import Acknowledgement
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.store.served import ModelHistory
from gateway.store.streams import Selection
from gateway.streams.detectors import Detectors, ShownDetector, shown_detector
from gateway.streams.estimates import ReplicaEstimate
from gateway.streams.history import History, history_of
from gateway.streams.settings import settings_of

if TYPE_CHECKING:
    from benchmarks.figures.figure import Figure

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
"""The suite that measures the same as a live metric by fixed questions, with a description; others have none."""

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


MOST = 100
MOST_ACKNOWLEDGED = 20
SERIES = ("auditor", "metric", "axis", "group", "model")
"""Labels of a series, as Prometheus has them."""


class AlarmsController(Controller):
    """The pages about drifts."""

    path = "/console/alarms"
    include_in_schema = False

    @get("/")
    async def alarms(
        self,
        request: Asked,
        pages: PageFrame,
        database: Store,
        config: Settings,
        offset: Annotated[int, QueryParameter(ge=0, le=1_000_000)] = 0,
    ) -> Response[Any] | Redirect:
        """Show all alarms; with the labels of a series, as a dashboard links, redirect to that series."""
        labels = {name: _read_label(request.query_params.get(name)) for name in SERIES}
        if labels["metric"] is not None:
            key = await streams.find(database, labels)
            if key is not None:
                return Redirect(f"/console/alarms/{key}")
        drift = config.drift

        async def build() -> View:
            selection = Selection(alarmed=True, limit=MOST, offset=offset)
            settings = settings_of(drift)
            alarmed = await stream_pages.read_detectors(database, selection, settings)
            watched = await stream_pages.read_detectors(database, Selection(limit=MOST, offset=offset), settings)
            detectors = sorted(watched.read(), key=lambda detector: detector.state != "alarm")
            entries = await _entries(database, request.user)
            data = {
                "alarms": shown_changes(alarmed.read()),
                "moved": [
                    (detector, subject(detector)) for detector in await stream_pages.read_moved(database, settings)
                ],
                "rate": drift.false_discovery_rate,
                "is_unknown_series": labels["metric"] is not None,
                "detectors": [
                    (detector, subject(detector), reference_plot(detector))
                    for detector in detectors
                    if detector.state != "learning"
                ],
                "learning": [(detector, subject(detector)) for detector in detectors if detector.state == "learning"],
                "n_detectors": watched.total,
                "offset": offset,
                "most": MOST,
                "entries": entries,
            }
            return View(template="alarms.html", title="Alarms", tab="/console/alarms", data=data)

        return await pages.shown(request, build)

    @get("/{stream_id:str}")
    async def alarm(
        self,
        request: Asked,
        pages: PageFrame,
        database: Store,
        dataplane: Plane,
        config: Settings,
        stream_id: FromPath[str],
    ) -> Response[Any]:
        models = set(dataplane.config.aliases).union(*(upstream.models for upstream in dataplane.upstreams))

        async def build() -> View:
            detector, lowered, figure, by_server = await _detector(database, stream_id, config.drift)
            entries = await _entries(database, request.user, stream=stream_id)
            text = sentence(detector) if detector.state == "alarm" else None
            raised = detector if text else lowered
            causes = [
                cause
                for feature in FEATURES.values()
                for cause in (raised and await feature.alarm_causes(database, stream_id, raised.alarm_since)) or ()
            ]
            data = {
                "one": detector,
                "subject": subject(detector),
                "sentence": text,
                "senders": await _senders(database, detector, request.user) if text else {},
                "causes": causes,
                "lowered": None if text else lowered,
                "lowered_sentence": lowered and sentence(lowered),
                "match": None if text is None else await matching(database, detector, models),
                "drawn": [figure],
                "entries": entries,
                "by_server": by_server,
                "most_read": replicas.MOST_READ,
            }
            return View(template="alarm.html", title=subject(detector), tab="/console/alarms", data=data)

        return await pages.shown(request, build)


def reference_plot(detector: Detectors) -> str:
    """Return the plot of the detector's reference, with the mean since the change."""
    if detector.reference is None:
        return plot(detector.range, None, None, None, None)
    return plot(
        detector.range, None, detector.mean_since, detector.reference.lower, detector.reference.upper, kind="reference"
    )


async def _detector(
    database: Database, stream_id: str, drift: DriftConfig
) -> tuple[Detectors, ShownDetector | None, "Figure", list[ReplicaEstimate]]:
    """The detector, that of its last alarm lowered, a control chart, estimates by server. Raises NotFoundError."""
    loaded = await streams.load(database, [stream_id])
    if not loaded:
        raise NotFoundError(f'no live stream has the id "{stream_id[:100]}": the alarms page lists those that alarm')
    [stream] = loaded
    settings, n_streams = settings_of(drift), await streams.count(database)
    form = shown_detector(stream, settings, n_streams)
    history = history_of(
        stream,
        await histories.read(database, stream_id),
        window=None,
        settings=settings,
        n_streams=n_streams,
        changes=await served.changes(database, stream.key.model),
    )
    models, text = await served.history(database), await acknowledgements.lowered_alarm(database, stream_id)
    lowered = text and _with_fingerprints(msgspec.json.decode(text, type=ShownDetector), models, stream.acknowledged_at)
    if lowered and form.state != "alarm":
        reference, limits = (
            (history.reference, history.limits) if history.reference else (lowered.reference, lowered.limits)
        )
        marks = {"since": lowered.since, "alarm_since": lowered.alarm_since}
        history = msgspec.structs.replace(history, reference=reference, limits=limits, **marks)
    form = _with_fingerprints(form, models, None)
    detector = Detectors(log_threshold=settings.log_threshold(n_streams), **msgspec.structs.asdict(form))
    return (
        detector,
        lowered or None,
        await asyncio.to_thread(_drawn, history),
        await stream_pages.read_replica_estimates(database, stream),
    )


def _with_fingerprints(form: ShownDetector, models: ModelHistory, until: float | None) -> ShownDetector:
    """Add the model's fingerprints before a change and at the end of its alarm, or now."""
    if form.since is None:
        return form
    before, after = (models.at(form.model, at) for at in (form.since, until or float("inf")))
    return msgspec.structs.replace(form, fingerprint_before=before, fingerprint_after=after)


async def _senders(database: Database, detector: Detectors, holder: Holder) -> dict[str, list[tuple[str | None, int]]]:
    """Return tags and keys of the exchanges with the most evidence, for administrators."""
    counts = await exchange_search.facets(database, detector.exchange_ids) if holder.role == "admin" else {}
    return {title: counts.get(name, []) for title, name in (("Tags", "tag"), ("Keys", "key"))}


async def _entries(database: Database, holder: Holder, *, stream: str | None = None) -> list[Acknowledgement]:
    entries = await acknowledgements.entries(database, stream=stream, limit=MOST_ACKNOWLEDGED)
    return [shown_acknowledgement(entry, holder) for entry in entries]


def _drawn(history: History) -> "Figure":
    from gateway.streams.history_figure import figure_of  # a worker starts without the benchmarks

    return figure_of(history)


def _read_label(value: str | None) -> str | None:
    """Return a label; Grafana leaves the name of a label that a series lacks as it is, "${__field.labels.axis}"."""
    return None if not value or value.startswith("$") else value
