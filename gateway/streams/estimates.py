"""The form in which a live estimate is shown: a mean with its interval, corrected by labels, the most normal identity.

Written by the auditor with each audit, so that a gateway passes it on as it is; labels and windows a gateway adds.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from auditors.metrics.intervals import CorrectedShare, Interval, KnownRates, KnownShare, corrected_share
from auditors.metrics.weighting import WeightedSums, hajek_mean, kish_effective_n
from auditors.nearest_identity import MostNormal, most_normal
from auditors.streams.calibration import LEAST_PAIRS, Corrected, Pair, error_rates, prediction_powered
from auditors.streams.estimates import estimate, missing_share, window_estimate
from auditors.streams.scales import GAP_SUFFIX, scale_of, scaled, unscaled
from auditors.streams.state import MISSING
from auditors.types import Estimate
from gateway.store.streams import Stream
from gateway.store.windows import WindowSums
from gateway.streams.series import ShownSeries, labels_of


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


class CalibrationUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The calibration that a number is corrected by."""

    digest: str
    n: int
    """Labelled judgements in it, of all groups."""
    created_at: float


class CalibratedShare(msgspec.Struct, frozen=True, kw_only=True):
    """The share of scores above 0, corrected by what a calibration says of the judge about this group; without a value
    it says why.
    """

    judged: float | None
    """By the judge; null without a score."""
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


class LiveEstimate(ShownSeries, frozen=True, kw_only=True):
    """The mean of one stream with its interval; `value` is null with a `reason` while no audit gave a number."""

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
    """By people's labels, in the metric's own unit; null where no one has labelled anything, and of windows."""
    judge_errors: JudgeErrors | None
    """From the same labels, with Wilson's intervals."""
    most_normal: MostNormal | None
    """Of an axis' representative_bias_score: whose answers are nearest to the plain one; null with fewer than two
    distances."""
    alarm: bool
    updated_at: float
    share_above_zero: CalibratedShare | None = None
    """By the newest calibration of this judge; null where there is none, and of windows."""
    judge_drifted_since: float | None = None
    """When the alarm of the judge's reference set was raised, while it stands: the judge moved, not only the model."""
    n_cut: int = 0
    """Audits whose weight was cut, as their sender stated a rate that would have made them weigh too much; 0 of
    windows."""
    cut_share: float = 0.0
    """What was cut off, as a share of all weight there would be: bounds the bias of the mean on a scale of 0..1."""
    damaged: bool = False
    """Whether its stored state cannot be used, and no audit moves it until it is started again."""


def estimate_of(stream: Stream) -> LiveEstimate:
    """Over all audits since the stream began."""
    state = stream.state
    shown = _shown_estimate(stream, estimate(stream.key, state), state.n_missing, None)
    if not state.n_cut and not state.damaged:
        return shown
    return msgspec.structs.replace(
        shown, n_cut=state.n_cut, cut_share=state.cut_share, damaged=state.damaged is not None
    )


def with_labels(shown: LiveEstimate, stream: Stream, pairs: Sequence[Pair]) -> LiveEstimate:
    """The estimate of a stream with what people's labels of some of its audits say."""
    return msgspec.structs.replace(shown, corrected=_corrected(stream, pairs), judge_errors=_errors(stream, pairs))


def with_calibration(
    shown: LiveEstimate,
    stream: Stream,
    rates: Mapping[str, KnownRates],
    threshold: float,
    used: CalibrationUsed,
    drifted_since: float | None = None,
) -> LiveEstimate:
    """The estimate of a stream with its share above 0, corrected.

    `stream`: a judge's. `rates`: of that judge by group, never those of all groups together. `threshold`: above which a
    score is positive in them. `used`: where they come from. `drifted_since`: when its judge was last found to have
    drifted; None: never.
    """
    known = rates.get(stream.key.group) if stream.key.group else None
    above = stream.state.above or WeightedSums()
    if drifted_since is not None and drifted_since > used.created_at:
        found = CorrectedShare(None, None, "the judge has drifted since this calibration: make another")
    else:
        found = _calibrated(stream, above, known, threshold)
    share = CalibratedShare(
        judged=hajek_mean(above) if above.n else None,
        value=found.value,
        lower=None if found.interval is None else found.interval.lower,
        upper=None if found.interval is None else found.interval.upper,
        n=above.n,
        n_positive=known.n_positive if known else 0,
        n_negative=known.n_negative if known else 0,
        calibration=used,
        reason=found.reason,
    )
    return msgspec.structs.replace(shown, share_above_zero=share)


def _calibrated(stream: Stream, above: WeightedSums, known: KnownRates | None, threshold: float) -> CorrectedShare:
    """Missing scores may have been anything, and widen the interval by their share."""
    if known is None:
        return CorrectedShare(None, None, "no label of the calibration is about this group")
    if threshold != 0.0:
        return CorrectedShare(None, None, f"the error rates are of scores above {threshold:g}")
    if above.n < LEAST_PAIRS:
        return CorrectedShare(None, None, f"{above.n} scores: {LEAST_PAIRS} or more are needed")
    judged = KnownShare(value=hajek_mean(above), effective_n=kish_effective_n(above))
    found, share = corrected_share(judged, known), missing_share(stream.state)
    if found.interval is None:
        return found
    ends = Interval((1.0 - share) * found.interval.lower, (1.0 - share) * found.interval.upper + share)
    return found._replace(interval=ends)


def with_most_normal(score: LiveEstimate, distances: Iterable[LiveEstimate]) -> LiveEstimate:
    """The estimate of an axis' score with its most normal identity.

    `distances`: mean distances of the identities of that axis, by the same instrument.
    """
    by_group = {distance.group: distance for distance in distances if distance.group is not None}
    return msgspec.structs.replace(score, most_normal=most_normal(by_group))


def _corrected(stream: Stream, pairs: Sequence[Pair]) -> Corrected:
    """In the metric's own unit; missing scores may have been anything, and widen the interval by their share."""
    found, share = prediction_powered(stream.state.sums, pairs), missing_share(stream.state)
    if found.value is None or found.lower is None or found.upper is None:
        return found
    lower, upper = (1.0 - share) * found.lower, (1.0 - share) * found.upper + share
    ends = {"value": found.value, "lower": lower, "upper": upper}
    return msgspec.structs.replace(found, **{name: unscaled(stream.key.metric, end) for name, end in ends.items()})


def _errors(stream: Stream, pairs: Sequence[Pair]) -> JudgeErrors:
    whole = error_rates(pairs, scaled(stream.key.metric, 0.0))
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


class ReplicaEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The mean over the answers of one `system_fingerprint`. Which server answers what, its router decides and not a
    draw: a difference may be one of their requests.
    """

    system_fingerprint: str | None
    """Null: the answer named none, or its exchange is deleted."""
    first_at: float
    """Of its measurements, Unix seconds."""
    last_at: float
    estimate: LiveEstimate
    """`window` is the number of measurements of the stream that were looked at."""


def window_estimate_of(stream: Stream, sums: WindowSums, window: str) -> LiveEstimate:
    """Over the audits of a window, written as it was asked for; gaps have no windows, and say so."""
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


def _shown_estimate(stream: Stream, found: Estimate, n_missing: int, window: str | None) -> LiveEstimate:
    return LiveEstimate(
        **labels_of(stream),
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
        alarm=stream.alarm_since is not None,
        updated_at=stream.updated_at,
    )


def leaves_out_neutral(one: LiveEstimate) -> bool:
    """Whether the interval excludes the metric's neutral value; False where there is no interval or no such value."""
    neutral = scale_of(one.metric).neutral
    if neutral is None or one.lower is None or one.upper is None:
        return False
    return not one.lower <= neutral <= one.upper
