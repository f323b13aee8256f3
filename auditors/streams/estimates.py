"""Estimates of a live series: its mean with an interval, over all audits or a window of them. Pure, no I/O.

Exact: the bounds of the whole series (auditors.metrics.sequential), which hold at all times at once as long as the mean
given the past does not move, and which missing judgements move apart (`streams.state`). Approximate: the Hajek mean is
biased by order 1/n; an interval of a window holds at one time chosen beforehand.
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
    """Mean of the stream in the metric's own unit with its interval (module docstring: what is exact, what is not).

    Returns: value None with a reason while no audit has given a value, and of a damaged stream; bounds None with a
    reason in a stream of unknown sampling. Undefined bounds are the metric's whole range.
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


def window_estimate(
    key: StreamKey, sums: WeightedSums, excluded: Mapping[str, int], confidence_level: float = 0.95
) -> Estimate:
    """Mean over a window of a stream, with an interval that holds at one time chosen beforehand: for display. `sums`:
    of y on [0, 1]; `excluded`: audits without a value, by status, which do not widen the interval.
    """
    return _estimate(key, sums, excluded, fixed_time_interval(sums, confidence_level), confidence_level, WINDOW_METHOD)


def bounds_of(state: StreamState, confidence_level: float = 0.95) -> Interval:
    """Bounds of the stream's mean on [0, 1], at all times at once, missing judgements counted at their worst. They are
    widened to the Hajek mean where that lies outside, which happens when the mean has moved: see `has_left`.
    """
    lower = sequential.lower_bound(state.low, confidence_level)
    upper = sequential.upper_bound(state.high or state.low, confidence_level)
    if not state.sums.n:
        return Interval(min(lower, upper), max(lower, upper))
    mean = hajek_mean(state.sums)
    return Interval(min(lower, mean), max(upper, mean))


def has_left(state: StreamState, confidence_level: float = 0.95) -> bool:
    """Return whether the mean lies outside its confidence sequence, which then says nothing of the present mean."""
    lower = sequential.lower_bound(state.low, confidence_level)
    upper = sequential.upper_bound(state.high or state.low, confidence_level)
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
