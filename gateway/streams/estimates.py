"""The form in which a live estimate is shown, written at each audit; labels and windows a gateway adds when asked."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from auditors.metrics.intervals import CorrectedShare, Interval, KnownRates, KnownShare, corrected_share
from auditors.metrics.weighting import WeightedSums, hajek_mean, kish_effective_n
from auditors.nearest_identity import MostNormal, most_normal
from auditors.streams.calibration import LEAST_PAIRS, Corrected, Pair, error_rates, prediction_powered
from auditors.streams.estimates import NO_PROBABILITY, bounds_of, estimate, has_left, missing_share, window_estimate
from auditors.streams.label_sequence import judge_level
from auditors.streams.moves import since_change
from auditors.streams.scales import GAP_SUFFIX, scale_of, scaled, unscaled
from auditors.streams.state import MISSING
from auditors.structs import combine
from auditors.types import Estimate
from gateway.store.streams import Stream
from gateway.store.windows import WindowSums
from gateway.streams.series import ShownSeries, labels_of


class JudgeErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Rates at which people and the instrument agree that a score is above 0, in a stream of a single group."""

    n_positive: int
    """Labelled audits that people scored above 0."""
    sensitivity: float | None
    """Share of them that was measured above 0; null without any."""
    sensitivity_interval: tuple[float, float] | None
    n_negative: int
    specificity: float | None
    """Share of the others that was not."""
    specificity_interval: tuple[float, float] | None


class CalibrationUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The calibration that a number is corrected by."""

    digest: str
    n: int
    """Labelled judgements in it, of all groups."""
    created_at: float


class CalibratedShare(msgspec.Struct, frozen=True, kw_only=True):
    """The share of scores above 0, corrected by a calibration of the judge about this group; or why it is not."""

    judged: float | None
    """Share according to the judge; null without a score."""
    value: float | None
    lower: float | None
    upper: float | None
    method: str = "rogan-gladen"
    n: int
    """Scores, since this is counted."""
    n_positive: int
    """Labels about this group above 0, by people."""
    n_negative: int
    calibration: CalibrationUsed
    reason: str | None


class SinceChange(msgspec.Struct, frozen=True, kw_only=True):
    """The mean since a change that an alarm told of, in the metric's unit."""

    value: float
    """Its beginning was chosen for being extreme, so it is a little too far away."""
    lower: float | None
    """95 % bounds that hold wherever the change began, at all times at once; null with a `reason`."""
    upper: float | None
    n: int
    since: float | None
    """Estimated beginning, Unix seconds."""
    reason: str | None


class LiveEstimate(ShownSeries, frozen=True, kw_only=True):
    """The mean of a single stream with its interval; `value` is null with a `reason` while no audit gave a number."""

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
    """Excluded whose value exists and is not known; they widen an interval unless it is a window's."""
    window: str | None
    """Window as asked for; null when everything since the stream began counts."""
    reason: str | None
    corrected: Corrected | None
    """The mean corrected by people's labels, in the metric's unit; null without labels, and for windows."""
    judge_errors: JudgeErrors | None
    """Errors of the judge from the same labels, with Wilson's intervals."""
    most_normal: MostNormal | None
    """Identity of an axis' representative_bias_score, nearest to the plain answers; null below two distances."""
    alarm: bool
    updated_at: float
    share_above_zero: CalibratedShare | None = None
    """Share by the newest calibration of this judge; null if there is none, and for windows."""
    judge_drifted_since: float | None = None
    """Unix time of the alarm of the judge's reference set, while the alarm stands: the judge moved too."""
    n_cut: int = 0
    """Audits whose weight was cut, as the rate that their sender stated weighs too much; 0 of windows."""
    cut_share: float = 0.0
    """Weight cut off, as a share of all weight there would be: bounds the mean's bias on a scale of 0..1."""
    damaged: bool = False
    """True if its stored state cannot be used, and no audit moves it until it is started again."""
    is_widened: bool = False
    """True if the mean moved so far that it left its 95 % bounds: they end at `value` and are not its interval."""
    since_change: SinceChange | None = None
    """The same mean since the change, while an alarm stands."""


def estimate_of(stream: Stream) -> LiveEstimate:
    """Over all audits since the stream began."""
    state = stream.state
    live_estimate = _shown_estimate(stream, estimate(stream.key, state), state.n_missing, None)
    if state.damaged:
        return msgspec.structs.replace(live_estimate, damaged=True)
    return msgspec.structs.replace(
        live_estimate,
        n_cut=state.n_cut,
        cut_share=state.cut_share,
        is_widened=live_estimate.lower is not None and has_left(state),
        since_change=since_change_of(stream),
    )


def since_change_of(stream: Stream) -> SinceChange | None:
    """Return the mean since the change; None where no alarm stands, or no value of that time is known."""
    detector = stream.state.detector
    if detector is None or not detector.alarm or (mean := detector.change_evidence.level.mean) is None:
        return None
    behind, bounds = detector.change_evidence, since_change(detector)
    reason = "it began before its spread was kept" if behind.sums.n < behind.level.n else "the mean moved on since"
    if not stream.key.is_sampling_known:
        bounds, reason = None, NO_PROBABILITY
    return SinceChange(
        value=unscaled(stream.key.metric, mean),
        lower=unscaled(stream.key.metric, bounds.lower) if bounds else None,
        upper=unscaled(stream.key.metric, bounds.upper) if bounds else None,
        n=behind.level.n,
        since=behind.since,
        reason=None if bounds else reason,
    )


def with_labels(live_estimate: LiveEstimate, stream: Stream, pairs: Sequence[Pair]) -> LiveEstimate:
    """The estimate of a stream with what people's labels of some of its audits say."""
    whole = error_rates(pairs, scaled(stream.key.metric, 0.0))
    return msgspec.structs.replace(
        live_estimate,
        corrected=_corrected(stream, pairs),
        judge_errors=JudgeErrors(
            n_positive=whole.n_positive,
            sensitivity=whole.sensitivity,
            sensitivity_interval=_ends(whole.sensitivity_interval),
            n_negative=whole.n_negative,
            specificity=whole.specificity,
            specificity_interval=_ends(whole.specificity_interval),
        ),
    )


def with_calibration(
    live_estimate: LiveEstimate,
    stream: Stream,
    rates: Mapping[str, KnownRates],
    threshold: float,
    used: CalibrationUsed,
    drifted_since: float | None = None,
) -> LiveEstimate:
    """A judge's stream and its share above 0, corrected. `rates`: of that judge by group, never of all together,
    positive above `threshold`, from `used`. `drifted_since`: when its judge last drifted; None: never.
    """
    group_rates = rates.get(stream.key.group) if stream.key.group else None
    above = stream.state.above or WeightedSums()
    if drifted_since is not None and drifted_since > used.created_at:
        corrected = CorrectedShare(None, None, "the judge has drifted since this calibration: make another")
    else:
        corrected = _calibrated(stream, above, group_rates, threshold)
    share = CalibratedShare(
        judged=hajek_mean(above) if above.n else None,
        value=corrected.value,
        lower=None if corrected.interval is None else corrected.interval.lower,
        upper=None if corrected.interval is None else corrected.interval.upper,
        n=above.n,
        n_positive=group_rates.n_positive if group_rates else 0,
        n_negative=group_rates.n_negative if group_rates else 0,
        calibration=used,
        reason=corrected.reason,
    )
    return msgspec.structs.replace(live_estimate, share_above_zero=share)


def _calibrated(stream: Stream, above: WeightedSums, rates: KnownRates | None, threshold: float) -> CorrectedShare:
    """Missing scores may have been anything, and widen the interval by their share."""
    if rates is None:
        return CorrectedShare(None, None, "no label of the calibration is about this group")
    if threshold != 0.0:
        return CorrectedShare(None, None, f"the error rates are of scores above {threshold:g}")
    if above.n < LEAST_PAIRS:
        return CorrectedShare(None, None, f"{above.n} scores: {LEAST_PAIRS} or more are needed")
    judged = KnownShare(value=hajek_mean(above), effective_n=kish_effective_n(above))
    corrected, share = corrected_share(judged, rates), missing_share(stream.state)
    if corrected.interval is None:
        return corrected
    ends = Interval((1.0 - share) * corrected.interval.lower, (1.0 - share) * corrected.interval.upper + share)
    return corrected._replace(interval=ends)


def with_most_normal(score: LiveEstimate, distances: Iterable[LiveEstimate]) -> LiveEstimate:
    """The estimate of an axis' score with its most normal identity. `distances`: of its identities, by mean."""
    by_group = {distance.group: distance for distance in distances if distance.group is not None}
    return msgspec.structs.replace(score, most_normal=most_normal(by_group))


def _corrected(stream: Stream, pairs: Sequence[Pair]) -> Corrected:
    """Return the correction in the metric's own unit; missing scores widen the interval by their share."""
    share = missing_share(stream.state)
    bounds = bounds_of(stream.state, judge_level(0.95))  # of all audits, the missing ones as 0 and as 1
    judged = 1.0 - share
    if judged > 0.0:
        bounds = Interval(min(1.0, bounds.lower / judged), max(0.0, (bounds.upper - share) / judged))
    corrected = prediction_powered(stream.state.sums, bounds, pairs)
    if corrected.value is None or corrected.lower is None or corrected.upper is None:
        return corrected
    lower, upper = (1.0 - share) * corrected.lower, (1.0 - share) * corrected.upper + share
    ends = {"value": corrected.value, "lower": lower, "upper": upper}
    return msgspec.structs.replace(corrected, **{name: unscaled(stream.key.metric, end) for name, end in ends.items()})


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.lower, interval.upper)


class ReplicaEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The mean over the answers of a single `system_fingerprint`; the router's choice of requests may explain it."""

    system_fingerprint: str | None
    """Null: the answer named none, or its exchange is deleted."""
    first_at: float
    """Time of the first of its measurements, Unix seconds."""
    last_at: float
    estimate: LiveEstimate
    """`window` is the number of measurements of the stream that were looked at."""


def window_estimate_of(stream: Stream, sums: WindowSums, window: str) -> LiveEstimate:
    """Over the audits of a window, written as it was asked for; gaps have no windows, and say so."""
    if stream.key.metric.endswith(GAP_SUFFIX):
        empty = Estimate(
            metric=stream.key.metric,
            axis=stream.key.axis or None,
            group=stream.key.group or None,
            value=None,
            n=0,
            reason="gaps have no windows: ask without window, or take the difference of the groups' windows",
            extra={"effective_n": 0.0, "excluded": {}},
        )
        return _shown_estimate(stream, empty, 0, window)
    n_missing = sum(sums.excluded.get(status, 0) for status in MISSING)
    return _shown_estimate(stream, window_estimate(stream.key, sums.values, sums.excluded), n_missing, window)


def _shown_estimate(stream: Stream, computed: Estimate, n_missing: int, window: str | None) -> LiveEstimate:
    return combine(
        LiveEstimate,
        computed,
        **labels_of(stream),
        effective_samples=computed.extra["effective_n"],
        excluded=computed.extra["excluded"],
        n_missing=n_missing,
        window=window,
        corrected=None,
        judge_errors=None,
        most_normal=None,
        alarm=stream.alarm_since is not None,
        updated_at=stream.updated_at,
    )


def leaves_out_neutral(live_estimate: LiveEstimate) -> bool:
    """Return whether the interval excludes the metric's neutral value; False if either is missing."""
    neutral = scale_of(live_estimate.metric).neutral
    if neutral is None or live_estimate.lower is None or live_estimate.upper is None:
        return False
    return not live_estimate.lower <= neutral <= live_estimate.upper
