"""The form in which a live estimate is shown: a mean with its interval, corrected by labels, the most normal identity.

Written by the auditor with each audit, so that a gateway passes it on as it is; labels and windows a gateway adds.
"""

from collections.abc import Iterable, Sequence

import msgspec

from auditors.metrics.intervals import Interval
from auditors.nearest_identity import MostNormal, most_normal
from auditors.streams.calibration import Corrected, Pair, error_rates, prediction_powered
from auditors.streams.estimates import estimate, missing_share, window_estimate
from auditors.streams.scales import GAP_SUFFIX, scale_of, scaled, unscaled
from auditors.streams.state import MISSING
from auditors.types import Estimate
from gateway.live.stream import Stream, WindowSums


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
    distances."""
    alarm: bool
    updated_at: float


def estimate_of(stream: Stream) -> LiveEstimate:
    """Over all audits since the stream began."""
    return _shown_estimate(stream, estimate(stream.key, stream.state), stream.state.n_missing, None)


def with_labels(shown: LiveEstimate, stream: Stream, pairs: Sequence[Pair]) -> LiveEstimate:
    """The estimate of a stream with what people's labels of some of its audits say."""
    return msgspec.structs.replace(shown, corrected=_corrected(stream, pairs), judge_errors=_errors(stream, pairs))


def with_most_normal(score: LiveEstimate, distances: Iterable[LiveEstimate]) -> LiveEstimate:
    """The estimate of an axis' score with its most normal identity.

    Args:
        score: of the axis.
        distances: mean distances of the identities of that axis, by the same instrument.
    """
    by_group = {one.group: one for one in distances if one.group is not None}
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
    scale = scale_of(stream.key.metric)
    return LiveEstimate(
        stream=stream.id,
        auditor=stream.key.auditor,
        metric=found.metric,
        axis=found.axis,
        group=found.group,
        model=stream.key.model,
        instrument=stream.key.instrument,
        range=scale.shown,
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
