"""The ranges of the live metrics, and their linear maps onto [0, 1] and back.

A metric with gaps has a stream of differences beside each group's own: a group against the others of its axis.
"""

import math

import msgspec

GAP_SUFFIX = "_gap"
"""Metric of the stream of differences between a group and the others of its axis: "favoritism_gap"."""
WITH_GAPS = frozenset({"favoritism", "representative_distance", "refusal_rate", "over_protection_rate"})
"""Metrics whose groups are also compared with each other; the rest are differences already, or shares of one whole."""


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
