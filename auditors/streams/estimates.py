"""Estimates of a live series. Exact: the bounds of the whole series (metrics.sequential), while the mean given the past
stays; missing judgements widen them. Approximate: the Hajek mean (bias of order 1/n); windows hold at one time.
"""

from collections.abc import Mapping

from auditors.metrics import sequential
from auditors.metrics.intervals import Interval
from auditors.metrics.weighting import WeightedSums, fixed_time_interval, hajek_mean, kish_effective_n
from auditors.streams.scales import unscaled
from auditors.streams.state import StreamKey, StreamState
from auditors.types import Estimate

NO_PROBABILITY = "no inclusion probability: no interval for your traffic"
"""Why the mean of a stream of unknown sampling has no interval."""
METHOD = "hajek, empirical-bernstein confidence sequence"
WINDOW_METHOD = "hajek, empirical-bernstein at kish effective n"
"""Method of a window's interval: holds at a single time chosen beforehand, for display."""


def estimate(key: StreamKey, state: StreamState, confidence_level: float = 0.95) -> Estimate:
    """Mean in the metric's own unit with its interval. Value None with a reason without audits and of a damaged stream;
    bounds None with a reason for unknown sampling; undefined bounds are the whole range.
    """
    if state.damaged:
        return Estimate(
            metric=key.metric,
            axis=key.axis or None,
            group=key.group or None,
            value=None,
            n=0,
            reason=f"damaged: {state.damaged}",
            extra={"effective_n": 0.0, "excluded": {}, "instrument": key.instrument},
        )
    bounds = bounds_of(state, confidence_level)
    return _estimate(key, state.sums, state.excluded, bounds, confidence_level, METHOD)


def window_estimate(key: StreamKey, sums: WeightedSums, excluded: Mapping[str, int]) -> Estimate:
    """Mean of a window, for display, at one time. `sums` on [0, 1]; `excluded`: audits without a value, by status."""
    return _estimate(key, sums, excluded, fixed_time_interval(sums, 0.95), 0.95, WINDOW_METHOD)


def bounds_of(state: StreamState, confidence_level: float = 0.95) -> Interval:
    """Bounds on [0, 1] at all times, missing at their worst, widened to a Hajek mean outside (`has_left`)."""
    lower = sequential.lower_bound(state.low, confidence_level)
    upper = sequential.upper_bound(state.high or state.low, confidence_level)
    if not state.sums.n:
        return Interval(min(lower, upper), max(lower, upper))
    mean = hajek_mean(state.sums)
    return Interval(min(lower, mean), max(upper, mean))


def has_left(state: StreamState) -> bool:
    """Return whether the mean lies outside its confidence sequence, which then says nothing of the present mean."""
    lower, upper = sequential.lower_bound(state.low), sequential.upper_bound(state.high or state.low)
    return state.sums.n > 0 and not lower <= hajek_mean(state.sums) <= upper


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
    has_interval = has_value and key.is_sampling_known
    reason = None if has_interval else NO_PROBABILITY
    return Estimate(
        metric=key.metric,
        axis=key.axis or None,
        group=key.group or None,
        value=unscaled(key.metric, hajek_mean(sums)) if has_value else None,
        lower=unscaled(key.metric, bounds.lower) if has_interval else None,
        upper=unscaled(key.metric, bounds.upper) if has_interval else None,
        confidence_level=confidence_level,
        method=method,
        n=sums.n,
        n_excluded=n_excluded,
        reason=reason if has_value else f"no audit has given a value yet ({n_excluded} without one)",
        extra=extra,
    )
