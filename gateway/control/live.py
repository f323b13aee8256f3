"""What is known about live traffic: estimates, drift alarms, the sampling ledger."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlencode

import msgspec
from litestar import Controller, get, post
from litestar.params import FromPath, FromQuery

from auditors.calibration import Corrected, Pair, error_rates, prediction_powered
from auditors.drift import DriftSettings
from auditors.live import (
    GAP_SUFFIX,
    MISSING,
    estimate,
    missing_share,
    scale_of,
    scaled,
    unscaled,
    window_estimate,
)
from auditors.metrics.intervals import Interval
from auditors.most_normal import DISTANCE, SCORE, MostNormal, most_normal
from auditors.types import Estimate
from gateway.control.exchanges import MOST_SHOWN
from gateway.control.names import refuse_unknown
from gateway.control.problems import announced
from gateway.control.provided import Settings, Store
from gateway.errors import NotFoundError, RequestError
from gateway.store import labels, ledger, streams, windows
from gateway.store.streams import Stream
from gateway.store.windows import Window, WindowSums

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Units of a window."""


class JudgeErrors(msgspec.Struct, frozen=True, kw_only=True):
    """How often people and what measured agree that a score is above 0, in one stream, so of one group."""

    n_positive: int
    """Labelled audits that people scored above 0."""
    sensitivity: float | None
    """Share of them that was measured above 0; null without any."""
    sensitivity_interval: tuple[float, float] | None
    n_negative: int
    specificity: float | None
    """Share of the others that was not."""
    specificity_interval: tuple[float, float] | None


class LiveEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of one stream with its interval; `value` is null with a `reason` while no audit gave a number."""

    stream: str
    auditor: str
    metric: str
    axis: str | None
    group: str | None
    model: str
    instrument: str
    range: tuple[float, float]
    """Lowest and highest value the metric can take."""
    value: float | None
    lower: float | None
    upper: float | None
    confidence_level: float
    method: str | None
    n: int
    effective_samples: float
    n_excluded: int
    excluded: dict[str, int]
    n_missing: int
    """Those of the excluded whose value exists and is not known; they widen an interval that is not of a window."""
    window: str | None
    """As asked for; null when everything since the stream began counts."""
    reason: str | None
    corrected: Corrected | None
    """By people's labels, in the metric's own unit; null where nobody has labelled anything, and of windows."""
    judge_errors: JudgeErrors | None
    """From the same labels, with Wilson's intervals."""
    most_normal: MostNormal | None
    """Of an axis' representative_bias_score: whose answers are nearest to the plain one; null with fewer than two
    distances, and in the answer to an acknowledgement."""
    alarm: bool
    updated_at: float


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that drifted and was not acknowledged since."""

    stream: str
    auditor: str
    metric: str
    axis: str | None
    group: str | None
    model: str
    since: float | None
    exchange_id: str | None
    """The exchange whose audit raised it."""
    exchange_ids: list[str]
    """Exchanges that spoke most for the change since it began, the strongest first."""
    exchanges: str | None
    """Path and query that show those and the one that raised it; null when none is known any more."""
    direction: str | None
    """rising or falling."""
    reference: tuple[float, float] | None
    """Interval that the stream is compared with, in the metric's own unit; drift.tolerance comes on top."""
    reference_run: str | None
    """The suite run that the reference comes from; null for the stream's own first audits."""
    log_evidence: float | None
    log_threshold: float
    audits_seen: int


class Ledger(msgspec.Struct, frozen=True):
    """Requests by outcome, in all and by stratum; a request is in exactly one outcome."""

    outcomes: dict[str, int]
    strata: dict[str, dict[str, int]]


class LiveController(Controller):
    """Numbers only: no text of any exchange."""

    path = "/live"
    tags = ("live",)

    @get("/estimates", summary="Live estimates with intervals", responses=announced())
    async def estimates(
        self,
        database: Store,
        model: FromQuery[str | None] = None,
        axis: FromQuery[str | None] = None,
        auditor: FromQuery[str | None] = None,
        window: FromQuery[str | None] = None,
    ) -> list[LiveEstimate]:
        """Without `window`, over all audits since each stream began, with bounds that hold at all times at once.

        `window=500` takes the newest 500 audits of each stream, `window=90s` (or m, h, d) those of the last 90 seconds:
        for display, with an interval that holds at one time chosen beforehand.
        """
        refuse_unknown(auditor, axis)
        wanted = {"model": model, "axis": axis, "auditor": auditor}
        given = {name: value for name, value in wanted.items() if value is not None}
        listed = await streams.list_streams(database)
        if window is None:
            labelled = await labels.pairs(database)
            found = [_estimate(stream, labelled.get(stream.id, ())) for stream in listed]
        else:
            sums = await windows.sums(database, _parsed(window))
            found = [_window_estimate(stream, sums.get(stream.id, WindowSums()), window) for stream in listed]
        named = _with_most_normal(found)
        return [one for one in named if all(getattr(one, name) == value for name, value in given.items())]

    @get("/alarms", summary="Streams whose drift alarm is up", responses=announced())
    async def alarms(self, database: Store, config: Settings) -> list[Alarm]:
        listed = await streams.list_streams(database)
        threshold = DriftSettings(average_run_length=config.drift.average_run_length).log_threshold(len(listed))
        return [_alarm(stream, threshold) for stream in listed if stream.state.alarm]

    @post(
        "/alarms/{stream_id:str}/acknowledge",
        status_code=200,
        summary="Lower an alarm; its detector starts anew",
        responses=announced(404),
    )
    async def acknowledge(self, stream_id: FromPath[str], database: Store) -> LiveEstimate:
        stream = await streams.acknowledge(database, stream_id)
        if stream is None:
            raise NotFoundError(f'no live stream has the id "{stream_id}": GET /live/alarms lists those that alarm')
        return _estimate(stream)

    @get("/ledger", summary="What became of every request", responses=announced())
    async def ledger(self, database: Store) -> Ledger:
        outcomes: Counter[str] = Counter()
        strata: dict[str, dict[str, int]] = {}
        for (stratum, outcome), count in (await ledger.counts(database)).items():
            outcomes[outcome] += count
            strata.setdefault(stratum, {})[outcome] = count
        return Ledger(dict(outcomes), strata)


def _estimate(stream: Stream, pairs: Sequence[Pair] = ()) -> LiveEstimate:
    found = _shown_estimate(stream, estimate(stream.key, stream.state), stream.state.n_missing, None)
    if not pairs:
        return found
    return msgspec.structs.replace(found, corrected=_corrected(stream, pairs), judge_errors=_errors(stream, pairs))


def _with_most_normal(found: Sequence[LiveEstimate]) -> list[LiveEstimate]:
    """The estimates, those of an axis' score with its most normal identity by the same instrument."""
    distances: dict[tuple[str | None, ...], dict[str, LiveEstimate]] = {}
    for one in found:
        if one.metric == DISTANCE and one.group is not None:
            distances.setdefault(_axis_of(one), {})[one.group] = one
    return [
        msgspec.structs.replace(one, most_normal=most_normal(distances.get(_axis_of(one), {})))
        if one.metric == SCORE and one.group is None
        else one
        for one in found
    ]


def _axis_of(one: LiveEstimate) -> tuple[str | None, ...]:
    return one.auditor, one.axis, one.model, one.instrument


def _corrected(stream: Stream, pairs: Sequence[Pair]) -> Corrected:
    """In the metric's own unit; missing scores may have been anything, and widen the interval by their share."""
    found, share = prediction_powered(stream.state.sums, pairs), missing_share(stream.state)
    if found.value is None or found.lower is None or found.upper is None:
        return found
    lower, upper = (1.0 - share) * found.lower, (1.0 - share) * found.upper + share
    ends = {"value": found.value, "lower": lower, "upper": upper}
    return msgspec.structs.replace(found, **{name: unscaled(stream.key.metric, end) for name, end in ends.items()})


def _errors(stream: Stream, pairs: Sequence[Pair]) -> JudgeErrors:
    whole, *_ = error_rates(pairs, scaled(stream.key.metric, 0.0))
    return JudgeErrors(
        n_positive=whole.n_positive,
        sensitivity=whole.sensitivity,
        sensitivity_interval=_ends(whole.sensitivity_interval),
        n_negative=whole.n_negative,
        specificity=whole.specificity,
        specificity_interval=_ends(whole.specificity_interval),
    )


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.lower, interval.upper)


def _window_estimate(stream: Stream, sums: WindowSums, window: str) -> LiveEstimate:
    if stream.key.metric.endswith(GAP_SUFFIX):
        found = Estimate(
            metric=stream.key.metric,
            axis=stream.key.axis or None,
            group=stream.key.group or None,
            value=None,
            n=0,
            reason="gaps have no windows: ask without window, or take the difference of the groups' windows",
            extra={"effective_n": 0.0, "excluded": {}},
        )
        return _shown_estimate(stream, found, 0, window)
    n_missing = sum(sums.excluded.get(status, 0) for status in MISSING)
    return _shown_estimate(stream, window_estimate(stream.key, sums.values, sums.excluded), n_missing, window)


def _parsed(window: str) -> Window:
    """`N` audits, or `N` and one of s, m, h, d. Raises RequestError for anything else."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhd]?)", window)
    if match is None:
        raise RequestError(
            f'window "{window}" is neither a number of audits (500) nor a time (90s, 15m, 24h, 7d): give one of them'
        )
    number, unit = int(match[1]), match[2]
    return Window(audits=number) if not unit else Window(seconds=float(number * SECONDS[unit]))


def _shown_estimate(stream: Stream, found: Estimate, n_missing: int, window: str | None) -> LiveEstimate:
    scale = scale_of(stream.key.metric)
    return LiveEstimate(
        stream=stream.id,
        auditor=stream.key.auditor,
        metric=found.metric,
        axis=found.axis,
        group=found.group,
        model=stream.key.model,
        instrument=stream.key.instrument,
        range=(scale.low, scale.high),
        value=found.value,
        lower=found.lower,
        upper=found.upper,
        confidence_level=found.confidence_level,
        method=found.method,
        n=found.n,
        effective_samples=found.extra["effective_n"],
        n_excluded=found.n_excluded,
        excluded=found.extra["excluded"],
        n_missing=n_missing,
        window=window,
        reason=found.reason,
        corrected=None,
        judge_errors=None,
        most_normal=None,
        alarm=stream.state.alarm,
        updated_at=stream.updated_at,
    )


def _alarm(stream: Stream, log_threshold: float) -> Alarm:
    detector = stream.state.detector
    evidence = detector.log_evidence if detector else -math.inf
    behind = detector.behind if detector else []
    return Alarm(
        stream=stream.id,
        auditor=stream.key.auditor,
        metric=stream.key.metric,
        axis=stream.key.axis or None,
        group=stream.key.group or None,
        model=stream.key.model,
        since=stream.alarm_since,
        exchange_id=stream.alarm_exchange_id,
        exchange_ids=behind,
        exchanges=_link(stream, behind),
        direction=detector.direction if detector else None,
        reference=_in_own_unit(stream.key.metric, detector.reference) if detector else None,
        reference_run=detector.reference_run if detector else None,
        log_evidence=evidence if math.isfinite(evidence) else None,
        log_threshold=log_threshold,
        audits_seen=detector.n_seen if detector else 0,
    )


def _link(stream: Stream, behind: Sequence[str]) -> str | None:
    ids = dict.fromkeys([*behind, *filter(None, [stream.alarm_exchange_id])])
    where = [("auditor", stream.key.auditor), ("axis", stream.key.axis), *(("exchange_id", one) for one in ids)]
    query = urlencode([*((name, value) for name, value in where if value), ("limit", MOST_SHOWN)])
    return f"/live/exchanges?{query}" if ids else None


def _in_own_unit(metric: str, interval: Interval) -> tuple[float, float]:
    return unscaled(metric, interval.lower), unscaled(metric, interval.upper)
