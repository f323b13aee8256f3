"""The form of a stream's drift detector, written at each audit; a gateway adds what depends on more than it."""

import functools
import math
from typing import Any, Literal

import msgspec

from auditors.metrics.intervals import Interval
from auditors.streams import pace
from auditors.streams import reference as learning
from auditors.streams.drift import Detector, DriftSettings
from auditors.streams.moves import log_e_value
from auditors.streams.scales import GAP_SUFFIX, unscaled
from auditors.streams.state import StreamState
from gateway.store.streams import Stream
from gateway.streams.estimates import since_change_of
from gateway.streams.series import ShownSeries, labels_of

State = Literal["learning", "watching", "alarm", "damaged"]

OF_ALARMS = "no alarm stands"
"""Why what is known of alarms only is null."""
ALARM_FIELDS = (
    *("mean_before", "mean_since", "lower_since", "upper_since", "n_before", "n_since", "since", "alarm_since"),
    *("fingerprint_before", "fingerprint_after", "exchange_id", "exchanges"),
)
_THRESHOLD_STEP = 0.1
"""The smallest change is computed for the threshold rounded up to this, and so hardly ever again."""


class Bounds(msgspec.Struct, frozen=True):
    """An interval, in the metric's own unit."""

    lower: float
    upper: float


class ShownDetector(ShownSeries, frozen=True, kw_only=True):
    """The detector of a stream; `reasons` explain nulls. Own units, but `smallest_detectable_change` on 0..1."""

    state: State
    """learning: the window of the reference is not full yet, nothing is monitored. alarm: until it is acknowledged.
    damaged: its stored state cannot be used, nothing is monitored until the stream is started again."""
    reference_n: int | None
    """Audits (of a gap: blocks) in the reference so far; null for a suite run's."""
    reference_window: int
    """Audits after which it watches."""
    reference_goes_on: bool
    """True while the reference is still to become narrower as it watches, at `reference_next_at` audits."""
    reference_next_at: int | None
    reference: Bounds | None
    limits: Bounds | None
    """The reference with `drift.tolerance` on both sides: values within them do not count as a drift."""
    reference_run: str | None
    moved_while_learning: bool
    """True if the mean was another in the first half of the window than in the second; then learning ends."""
    smallest_detectable_change: float | None
    """Change of the mean, to either side, found within `within_audits` audits on average: approximate."""
    smallest_change: float
    """Change as configured: until it can find this, the reference goes on learning."""
    within_audits: int
    within_days: float | None
    """Days at the present traffic."""
    audits_per_day: float | None
    """Audits per day at the traffic up to `updated_at`, a mean that forgets within a day or so."""
    days_until_watching: float | None
    log_evidence: float | None
    audits_seen: int | None
    """Since it began to watch, or was acknowledged."""
    direction: Literal["rising", "falling"] | None
    mean_before: float | None
    mean_since: float | None
    """Mean of all audits since the change began: chosen for being extreme, so a little too far away."""
    n_before: int | None
    n_since: int | None
    since: float | None
    """Time at which the change began, by the times of the exchanges: an estimate, Unix seconds."""
    alarm_since: float | None
    """Time at which the alarm was raised, Unix seconds."""
    fingerprint_before: str | None
    """Fingerprint that the upstreams served under the model's name when the change began."""
    fingerprint_after: str | None
    """Fingerprint that they serve now."""
    exchange_id: str | None
    """The exchange whose audit raised the alarm."""
    exchange_ids: list[str]
    """Exchanges that speak most for a change to that side, the strongest first."""
    exchanges: str | None
    """Path and query that show these."""
    acknowledged_at: float | None
    updated_at: float
    reasons: dict[str, str]
    lower_since: float | None = None
    """95 % bounds of `mean_since`, wherever the change began and however often they are read."""
    upper_since: float | None = None
    log_e_value: float | None = None
    """Log of its e-value against "the mean stayed within the limits" (`auditors.streams.moves`)."""
    shift: Literal["moved", "smaller", "not_shown"] = "not_shown"
    """moved: its alarm stands. smaller: the change is shown to be below `equivalence_margin`. not_shown: neither."""
    shift_at_most: float | None = None
    """Largest distance of the mean since it watches from that of the reference, on 0..1, at 95 % at all times."""
    equivalence_margin: float | None = None
    smaller_since: float | None = None
    """Time of the audit since which the change has been shown to be smaller, Unix seconds."""


class Detectors(ShownDetector, frozen=True, kw_only=True):
    """A detector as `GET /live/detectors` shows it."""

    log_threshold: float
    """Log evidence at which it alarms by itself, with as many streams as there are now."""
    has_moved: bool = False
    """True if it is among the streams that moved at `drift.false_discovery_rate`, with an alarm or without."""


def shown_detector(stream: Stream, settings: DriftSettings, n_streams: int) -> ShownDetector:
    """A stream's detector after its newest audit, without fields of gateways. `n_streams`: K of smallest change."""
    state, detector, metric = stream.state, stream.state.detector, stream.key.metric
    rate = pace.per_day(state.pace)
    reasons: dict[str, str] = {}

    def known(name: str, value: float | None, reason: str) -> float | None:
        if value is None or not math.isfinite(value):
            reasons[name] = reason
            return None
        return value

    if rate is None:
        reasons |= dict.fromkeys(("audits_per_day", "within_days"), "too few audits so far to tell")
    if detector is None or detector.next_look:
        n: int | None = state.window.n
    else:
        n = detector.window.n if detector.window is not None else None
    if n is None:
        run = None if detector is None else detector.reference_run
        reasons["reference_n"] = f"the reference is the run {run}" if run else "it was made before this was kept"
    learning_words = f"learning: {n or 0} of {settings.reference_window} audits of the reference"
    if state.damaged:
        learning_words = f"damaged: {state.damaged}"
    change = smallest_change(detector, settings, n_streams) if detector else None
    if not (detector and detector.next_look):
        reasons["reference_next_at"] = "the reference is final" if detector else learning_words
    elif change is None or change > settings.smallest_change:
        limit_text = "no change at all" if change is None else f"no change below {change:.3f}"
        reasons["reference_goes_on"] = (
            f"finds {limit_text} within {learning.WITHIN} audits yet, and is to find {settings.smallest_change:g}"
        )
    if detector is None:
        names = ("reference", "limits", "log_evidence", "audits_seen", "direction")
        reasons |= dict.fromkeys(names, learning_words)
    if detector is None or detector.reference_run is None:
        reasons["reference_run"] = "the reference is of the stream's own audits"
    if stream.acknowledged_at is None:
        reasons["acknowledged_at"] = "no alarm has been acknowledged"
    evidence = detector.log_evidence if detector else None
    return ShownDetector(
        **labels_of(stream),
        state="damaged" if state.damaged else "learning" if not detector else "alarm" if detector.alarm else "watching",
        reference_n=n,
        reference_window=settings.reference_window,
        reference_goes_on=bool(detector and detector.next_look),
        reference_next_at=(detector.next_look or None) if detector else None,
        reference=bounds_of(metric, detector.reference) if detector else None,
        limits=bounds_of(metric, detector.limits) if detector else None,
        reference_run=detector.reference_run if detector else None,
        moved_while_learning=bool(detector and detector.moved_while_learning),
        smallest_detectable_change=known(
            "smallest_detectable_change",
            change,
            f"no change to one of the sides is found within {learning.WITHIN} audits" if detector else learning_words,
        ),
        smallest_change=settings.smallest_change,
        within_audits=learning.WITHIN,
        within_days=learning.WITHIN / rate if rate else None,
        audits_per_day=rate,
        days_until_watching=_days_until_watching(detector, n, settings, rate, reasons),
        log_evidence=known("log_evidence", evidence, "nothing seen since it began") if detector else None,
        audits_seen=detector.n_seen if detector else None,
        direction=detector.direction if detector else None,
        exchange_ids=detector.behind if detector else [],
        acknowledged_at=stream.acknowledged_at,
        updated_at=stream.updated_at,
        **_change(stream, reasons),
        **_shift(stream, settings, reasons, learning_words),
        reasons=reasons,
    )


def smallest_change(detector: Detector, settings: DriftSettings, n_streams: int) -> float | None:
    """Return the change that it would find within `learning.WITHIN` audits among so many streams, on 0..1."""
    log_threshold = math.ceil(settings.log_threshold(n_streams) / _THRESHOLD_STEP) * _THRESHOLD_STEP
    mean, variance = learning.before_change(detector)
    return _smallest_change(
        detector.lower_limit, detector.upper_limit, mean, variance, log_threshold, settings.smallest_change
    )


@functools.lru_cache(maxsize=20_000)
def _smallest_change(
    lower: float, upper: float, mean: float, variance: float | None, log_threshold: float, target: float
) -> float | None:
    """Limits, mean and variance move at the few looks at a reference only."""
    return learning.smallest_change(Interval(lower, upper), mean, variance, log_threshold=log_threshold, wanted=target)


def reference_ratio(state: StreamState, settings: DriftSettings) -> float:
    """Return how much of the window of the reference is there: 1 from when the stream is watched."""
    return 1.0 if state.detector is not None else min(1.0, state.window.n / settings.reference_window)


def bounds_of(metric: str, interval: Interval) -> Bounds:
    return Bounds(unscaled(metric, interval.lower), unscaled(metric, interval.upper))


def _days_until_watching(
    detector: Detector | None, n: int | None, settings: DriftSettings, rate: float | None, reasons: dict[str, str]
) -> float | None:
    if detector is not None:
        reasons["days_until_watching"] = "it watches"
        return None
    if not rate:
        reasons["days_until_watching"] = "too few audits so far to tell"
        return None
    return (settings.reference_window - (n or 0)) / rate


def _shift(stream: Stream, settings: DriftSettings, reasons: dict[str, str], learning_words: str) -> dict[str, Any]:
    state, detector, margin = stream.state, stream.state.detector, settings.equivalence_margin
    fields: dict[str, Any] = {"equivalence_margin": margin}
    if margin is None:
        reasons["equivalence_margin"] = "drift.equivalence_margin is not set"
    fields["log_e_value"] = log_e_value(state, is_gap=stream.key.metric.endswith(GAP_SUFFIX))
    if fields["log_e_value"] is None:
        reasons["log_e_value"] = "no audit has been counted since it began" if detector else learning_words
    fields["shift_at_most"] = detector.shift_at_most if detector and not detector.alarm else None
    smaller = detector.smaller if detector else None
    if smaller is not None and smaller.margin == margin:
        return fields | {"shift": "smaller", "smaller_since": smaller.since}
    alarms = detector is not None and detector.alarm
    reasons["smaller_since"] = (
        "it moved: an alarm stands" if alarms else "not shown yet" if detector else learning_words
    )
    if fields["shift_at_most"] is None:
        reasons["shift_at_most"] = reasons["smaller_since"]
    return fields | {"shift": "moved" if alarms else "not_shown"}


def _change(stream: Stream, reasons: dict[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = dict.fromkeys(ALARM_FIELDS)
    detector, metric = stream.state.detector, stream.key.metric
    if detector is None or not detector.alarm:
        reasons |= dict.fromkeys(ALARM_FIELDS, OF_ALARMS)
        return fields
    before, since = detector.before, detector.change_evidence
    for name, level in (("mean_before", before), ("mean_since", since.level)):
        if level.mean is None:
            reasons[name] = "no audit of that time is known"
        else:
            fields[name] = unscaled(metric, level.mean)
    fields |= {"n_before": before.n, "n_since": since.level.n, "since": since.since}
    if (estimate := since_change_of(stream)) is None or estimate.reason:
        reason = reasons.get("mean_since") if estimate is None else estimate.reason
        reasons |= dict.fromkeys(("lower_since", "upper_since"), reason or "")
    else:
        fields |= {"lower_since": estimate.lower, "upper_since": estimate.upper}
    if since.since is None:
        reasons["since"] = "it began before times were kept"
    fields |= {"alarm_since": stream.alarm_since, "exchange_id": stream.alarm_exchange_id}
    return fields
