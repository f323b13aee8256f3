"""Live series: from measurements one by one to an estimate with an interval and a drift detector. Pure, no I/O.

One stream is one number about one group on one model by one instrument; a change of judge, prompt or embedder starts a
new stream. The served model's fingerprint does not: that its answers changed is what an alarm is for.

Exact: the running sums and counts; the inverse-probability weights; the bounds (auditors.metrics.confidence), which
hold at all times at once as long as the mean given the past does not move; the detector's run length given its limits
(auditors.drift). Approximate: the Hajek mean is biased by order 1/n; an audit whose inclusion probability is below
every earlier one is counted with weight 1 instead of more.

A judgement that is missing (malformed or an error, see MISSING) enters the lower bound as 0 and the upper bound as 1,
so the bounds hold whatever it would have been; in a gap, as -1 and as 1. Refusals and unrelated replies are no missing
values: they are counted, and the mean is that of the answers that can be scored.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence

import msgspec

from auditors import drift, gaps
from auditors.drift import ALONE, Detector, DriftSettings, Others
from auditors.gaps import Block
from auditors.metrics import confidence
from auditors.metrics.confidence import ConfidenceSums
from auditors.metrics.intervals import Interval
from auditors.metrics.sequential import empirical_bernstein_interval
from auditors.metrics.weighting import (
    WeightedSums,
    add,
    add_weighted,
    hajek_mean,
    kish_effective_n,
    less,
    weighted_variance,
)
from auditors.types import Estimate, Measurement, Status

METHOD = "hajek, empirical-bernstein confidence sequence"
WINDOW_METHOD = "hajek, empirical-bernstein at kish effective n"
"""Of a window: holds at one time chosen beforehand, for display."""
GAP_SUFFIX = "_gap"
"""Metric of the stream of differences between a group and the others of its axis: "favoritism_gap"."""
WITH_GAPS = frozenset({"favoritism", "representative_distance", "refusal_rate", "over_protection_rate"})
"""Metrics whose groups are also compared with each other; the rest are differences already, or shares of one whole."""
MISSING: tuple[Status, ...] = ("malformed", "error")
"""There is a value, and nobody knows it."""


class Scale(msgspec.Struct, frozen=True):
    """Affine map of a metric's own range onto [0, 1]."""

    low: float
    high: float


SCALES: dict[str, Scale] = {
    "favoritism": Scale(-1.0, 2.0),
    "representative_distance": Scale(0.0, 2.0),
    "representative_bias_score": Scale(0.0, 1.0),
    "counterfactual_distance_excess": Scale(-1.0, 2.0),
    "counterfactual_refusal_difference": Scale(-1.0, 1.0),
    "counterfactual_length_difference": Scale(-1.0, 1.0),
    "counterfactual_favoritism_difference": Scale(-3.0, 3.0),
    "selection_share": Scale(0.0, 1.0),
    "affinity_bias_score": Scale(0.0, 0.5),
    "refusal_rate": Scale(0.0, 1.0),
    "over_protection_rate": Scale(0.0, 1.0),
}
"""Range of every live metric. A population SD of distances in [0, 2] is at most 1."""


class StreamKey(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two measurements parts of one series."""

    auditor: str
    metric: str
    axis: str
    """Empty when the measurement has none."""
    group: str
    model: str
    """The served model (name after aliases)."""
    instrument: str
    """Auditor version with judge and prompt, or with the embedder."""

    @property
    def id(self) -> str:
        """32 hexadecimal digits, fit for a URL and a primary key."""
        return hashlib.blake2b("\0".join(msgspec.structs.astuple(self)).encode(), digest_size=16).hexdigest()


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything remembered of one stream; plain numbers, so it survives JSON."""

    sums: WeightedSums = WeightedSums()
    """Of y in [0, 1], over all audits with a value."""
    low: ConfidenceSums = ConfidenceSums()
    """The same values and every missing one as 0: gives the lower bound."""
    high: ConfidenceSums | None = None
    """The same values and every missing one as 1: gives the upper bound. None while none is missing: as `low`."""
    excluded: dict[str, int] = {}
    """Audits without a value, by status: counted, never scored."""
    min_probability: float = 1.0
    """Smallest inclusion probability so far."""
    detector: Detector | None = None
    """None until there is a reference."""
    block: Block | None = None
    """The open block of a gap stream."""
    before_window: WeightedSums | None = None
    """Part of `sums` that was monitored against a suite run, and is no part of the window that came after it."""

    @property
    def alarm(self) -> bool:
        """True from the alarm until it is acknowledged."""
        return self.detector is not None and self.detector.alarm

    @property
    def n_missing(self) -> int:
        """Audits whose value exists and is not known."""
        return sum(self.excluded.get(status, 0) for status in MISSING)


def stream_key(measurement: Measurement, model: str) -> StreamKey:
    """The stream a measurement belongs to; the reference group does not split streams."""
    return StreamKey(
        auditor=measurement.auditor,
        metric=measurement.metric,
        axis=measurement.axis or "",
        group=measurement.group or "",
        model=model,
        instrument=_instrument(measurement),
    )


def gap_key(key: StreamKey) -> StreamKey:
    """The stream of the gap between this stream's group and the others of its axis."""
    return msgspec.structs.replace(key, metric=key.metric + GAP_SUFFIX)


def scale_of(metric: str) -> Scale:
    """Range of a live metric; that of a gap is twice as wide as its metric's, around 0.

    Raises: ValueError for an unknown metric.
    """
    scale = SCALES.get(metric.removesuffix(GAP_SUFFIX))
    if scale is None:
        raise ValueError(f'"{metric}" is no live metric; known: {", ".join(SCALES)}')
    width = scale.high - scale.low
    return Scale(-width, width) if metric.endswith(GAP_SUFFIX) else scale


def scaled(metric: str, value: float) -> float:
    """The value on [0, 1]: (s + 1) / 3 for favouritism, d / 2 for distances, SDs as they are; clipped.

    Raises: ValueError for an unknown metric or a value that is not finite.
    """
    if not math.isfinite(value):
        raise ValueError(f"{metric} of {value} is not a number that can be averaged")
    scale = scale_of(metric)
    return min(1.0, max(0.0, (value - scale.low) / (scale.high - scale.low)))


def unscaled(metric: str, y: float) -> float:
    """Back from [0, 1] to the metric's own unit."""
    scale = scale_of(metric)
    return scale.low + y * (scale.high - scale.low)


def record(
    state: StreamState,
    measurement: Measurement,
    probability: float,
    settings: DriftSettings,
    *,
    others: Others = ALONE,
    exchange_id: str = "",
) -> StreamState:
    """The stream after one measurement: `update` when it has a value, `exclude` when it has none."""
    if measurement.status != "ok" or measurement.value is None:
        return exclude(state, measurement.status, probability)
    y = scaled(measurement.metric, measurement.value)
    reference = settings.references.get(reference_name(measurement.metric, measurement.axis, measurement.group))
    return update(state, y, probability, settings, others=others, exchange_id=exchange_id, reference=reference)


def exclude(state: StreamState, status: Status, probability: float = 1.0) -> StreamState:
    """The stream after an audit without a value: one more in `excluded`; a missing one moves the bounds apart."""
    if status not in MISSING:
        return msgspec.structs.replace(state, excluded=_one_more(state, status))
    apart = _apart(state, status, _weight(state, probability))
    return msgspec.structs.replace(apart, min_probability=min(state.min_probability, probability))


def update(
    state: StreamState,
    y: float,
    probability: float,
    settings: DriftSettings,
    *,
    others: Others = ALONE,
    exchange_id: str = "",
    reference: Interval | None = None,
) -> StreamState:
    """The stream after one value.

    The first `reference_window` values make the reference, unless a suite run does; each later one steps the detector.
    Where a run was the reference before, those are the first after it.

    Args:
        state: the stream before it.
        y: score on [0, 1].
        settings: reference and detector.
        probability: with which this exchange reached this auditor, in (0, 1].
        others: the other streams, for the threshold.
        exchange_id: kept when the value speaks for a change.
        reference: the suite run's interval, where there is one for this stream.

    Raises: ValueError if y or probability is out of range.
    """
    sums, weight = add(state.sums, y, probability), _weight(state, probability)
    return msgspec.structs.replace(
        _moved(state, y, weight, sums, settings, others, exchange_id, reference),
        min_probability=min(state.min_probability, probability),
    )


def record_gap(
    state: StreamState,
    group: Sequence[float],
    rest: Sequence[float],
    probability: float,
    settings: DriftSettings,
    *,
    others: Others = ALONE,
    exchange_id: str = "",
    reference: Interval | None = None,
) -> StreamState:
    """A gap stream after one exchange: nothing but its open block moves until both sides have a score.

    Args:
        state: the stream before it.
        group: scores of its group in this exchange, on [0, 1].
        rest: scores of the other groups of the axis.
        probability: with which this exchange reached this auditor, in (0, 1].
        settings: reference and detector.
        others: the other streams, for the threshold.
        exchange_id: kept when it speaks most in a block that speaks for a change.
        reference: the suite run's interval, where it has one for this gap; else the first blocks make it.
    """
    block, closed = gaps.add(state.block or Block(), group, rest, probability, exchange_id)
    state = msgspec.structs.replace(state, block=block)
    if closed is None:
        return state
    sums = add_weighted(state.sums, closed.y, closed.weight)
    return _moved(
        state,
        closed.y,
        closed.weight,
        sums,
        settings,
        others,
        closed.rising_id,
        reference,
        starts=closed.n_exchanges,
        falling_id=closed.falling_id,
    )


def miss_gap(
    state: StreamState, status: Status, probability: float, *, has_group: bool, has_others: bool
) -> StreamState:
    """A gap stream after an exchange that lacks a score of its axis: the bounds move apart, and nothing else.

    Args:
        state: the stream before it.
        status: why the score is missing, one of MISSING.
        probability: with which this exchange reached this auditor, in (0, 1].
        has_group: whether the exchange concerns the stream's group.
        has_others: whether it concerns another group of the axis.
    """
    block, weight = gaps.miss(state.block or Block(), probability, has_group=has_group, has_others=has_others)
    return _apart(msgspec.structs.replace(state, block=block), status, weight)


def reference_name(metric: str, axis: str | None, group: str | None) -> str:
    """The key of `DriftSettings.references`."""
    return "/".join((metric, axis or "", group or ""))


def acknowledge(state: StreamState) -> StreamState:
    """The stream with its alarm lowered and its detector restarted on the same reference, a gap's with a new block."""
    if state.detector is None:
        return state
    block = gaps.afresh(state.block) if state.block is not None else None
    return msgspec.structs.replace(state, detector=drift.acknowledge(state.detector), block=block)


def estimate(key: StreamKey, state: StreamState, confidence_level: float = 0.95) -> Estimate:
    """Mean of the stream in the metric's own unit with its interval (module docstring: what is exact, what is not).

    Returns: value None with a reason while no audit has given a value; `extra` has `effective_n`, `excluded` by
        status and `instrument`. Undefined bounds are the metric's whole range.
    """
    bounds = bounds_of(state, confidence_level)
    return _estimate(key, state.sums, state.excluded, bounds, confidence_level, METHOD)


def window_estimate(
    key: StreamKey, sums: WeightedSums, excluded: Mapping[str, int], confidence_level: float = 0.95
) -> Estimate:
    """Mean over a window of a stream, with an interval that holds at one time chosen beforehand: for display.

    Args:
        key: of the stream.
        sums: of y on [0, 1] over the window's audits with a value.
        excluded: its audits without one, by status; they do not widen this interval.
        confidence_level: two-sided, in (0, 1).
    """
    return _estimate(key, sums, excluded, _interval(sums, confidence_level), confidence_level, WINDOW_METHOD)


def bounds_of(state: StreamState, confidence_level: float = 0.95) -> Interval:
    """Bounds of the stream's mean on [0, 1], at all times at once, missing judgements counted at their worst.

    They are widened to the Hajek mean where that lies outside, which happens when the mean has moved.
    """
    lower = confidence.lower_bound(state.low, confidence_level)
    upper = confidence.upper_bound(state.high or state.low, confidence_level)
    if not state.sums.n:
        return Interval(min(lower, upper), max(lower, upper))
    mean = hajek_mean(state.sums)
    return Interval(min(lower, mean), max(upper, mean))


def missing_share(state: StreamState) -> float:
    """Weight of the missing values in that of all, known and missing, 0..1."""
    return 0.0 if state.high is None else (state.high.wy - state.low.wy) / state.low.w


def _estimate(
    key: StreamKey,
    sums: WeightedSums,
    excluded: Mapping[str, int],
    bounds: Interval,
    confidence_level: float,
    method: str,
) -> Estimate:
    n_excluded, has_value = sum(excluded.values()), sums.n > 0
    extra = {"effective_n": kish_effective_n(sums), "excluded": dict(excluded), "instrument": key.instrument}
    return Estimate(
        metric=key.metric,
        axis=key.axis or None,
        group=key.group or None,
        value=unscaled(key.metric, hajek_mean(sums)) if has_value else None,
        lower=unscaled(key.metric, bounds.lower) if has_value else None,
        upper=unscaled(key.metric, bounds.upper) if has_value else None,
        confidence_level=confidence_level,
        method=method,
        n=sums.n,
        n_excluded=n_excluded,
        reason=None if has_value else f"no audit has given a value yet ({n_excluded} without one)",
        extra=extra,
    )


def _moved(
    state: StreamState,
    y: float,
    weight: float,
    sums: WeightedSums,
    settings: DriftSettings,
    others: Others,
    exchange_id: str,
    reference: Interval | None,
    *,
    starts: int = 1,
    falling_id: str | None = None,
) -> StreamState:
    if _has_lost_its_run(state, reference):
        state = msgspec.structs.replace(state, detector=None, before_window=state.sums)
    return msgspec.structs.replace(
        state,
        sums=sums,
        low=confidence.add(state.low, y, weight),
        high=confidence.add(state.high, y, weight) if state.high else None,
        detector=_watched(state, sums, y, weight, settings, others, exchange_id, reference, starts, falling_id),
    )


def _has_lost_its_run(state: StreamState, reference: Interval | None) -> bool:
    """Whether the detector's reference is a suite run that is the reference no more; a standing alarm keeps it."""
    detector = state.detector
    return detector is not None and detector.reference_run is not None and reference is None and not detector.alarm


def _watched(
    state: StreamState,
    sums: WeightedSums,
    y: float,
    weight: float,
    settings: DriftSettings,
    others: Others,
    exchange_id: str,
    reference: Interval | None,
    starts: int,
    falling_id: str | None,
) -> Detector | None:
    detector = state.detector
    run = settings.reference_run if reference is not None else None
    if detector is not None and detector.reference_run != run and not detector.alarm:
        detector = None  # another reference is another question: the evidence so far does not answer it
    if detector is None and reference is not None:
        detector = drift.start(reference, settings, run)
    if detector is not None:
        return drift.step(
            detector,
            y,
            weight,
            settings,
            starts=starts,
            others=others,
            exchange_id=exchange_id,
            falling_id=falling_id,
        )
    window = sums if state.before_window is None else less(sums, state.before_window)
    return drift.start(_interval(window, 0.95), settings) if window.n >= settings.reference_window else None


def _apart(state: StreamState, status: Status, weight: float) -> StreamState:
    return msgspec.structs.replace(
        state,
        excluded=_one_more(state, status),
        low=confidence.add(state.low, 0.0, weight),
        high=confidence.add(state.high or state.low, 1.0, weight),
    )


def _one_more(state: StreamState, status: Status) -> dict[str, int]:
    return {**state.excluded, status: state.excluded.get(status, 0) + 1}


def _weight(state: StreamState, probability: float) -> float:
    if not 0.0 < probability <= 1.0:
        raise ValueError(f"inclusion probability {probability} is outside (0, 1]")
    return min(1.0, state.min_probability / probability)


def _interval(sums: WeightedSums, confidence_level: float) -> Interval:
    return empirical_bernstein_interval(
        hajek_mean(sums), weighted_variance(sums), kish_effective_n(sums), confidence_level
    )


def _instrument(measurement: Measurement) -> str:
    if measurement.judge is not None:
        return f"v{measurement.auditor_version} {measurement.judge.model} {measurement.judge.prompt_sha256[:12]}"
    return " ".join([f"v{measurement.auditor_version}", *filter(None, [measurement.detail.get("embedder")])])
