"""The ranges of the live metrics and of gaps (a group against the others), and their linear maps onto [0, 1]."""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property

import msgspec

from auditors.plugins import NAME, Registered

GAP_SUFFIX = "_gap"
"""Metric of the stream of differences between a group and the others of its axis: "favoritism_gap"."""
LARGEST_RATIO = 100.0
"""No ratio is shown above this, and neither is a bound: beyond it, one side is all but never chosen."""


class Scale(msgspec.Struct, frozen=True):
    """Affine map of a metric's range onto [0, 1]. A ratio a : b is measured as a / (a + b), shown as a / b."""

    low: float
    high: float
    is_ratio: bool = False
    neutral: float | None = None
    """Value that means no bias, for a metric that can be on both sides of it."""
    has_gap: bool = False
    """Each group is compared with the others of its axis too; other metrics are differences or shares of a whole."""

    @property
    def shown(self) -> tuple[float, float]:
        """Lowest and highest value that is shown."""
        return (0.0, LARGEST_RATIO) if self.is_ratio else (self.low, self.high)


OWN_SCALES: Mapping[str, Scale] = {
    "favoritism": Scale(-1.0, 2.0, neutral=0.0, has_gap=True),
    "representative_distance": Scale(0.0, 2.0, has_gap=True),
    "representative_bias_score": Scale(0.0, 1.0),
    "counterfactual_distance_excess": Scale(-1.0, 2.0, neutral=0.0),
    "counterfactual_refusal_difference": Scale(-1.0, 1.0, neutral=0.0),
    "counterfactual_length_difference": Scale(-1.0, 1.0, neutral=0.0),
    "counterfactual_favoritism_difference": Scale(-3.0, 3.0, neutral=0.0),
    "counterfactual_tool_name_excess": Scale(-1.0, 1.0, neutral=0.0),
    "counterfactual_tool_arguments_excess": Scale(-1.0, 1.0, neutral=0.0),
    "counterfactual_json_excess": Scale(-1.0, 1.0, neutral=0.0),
    "decision_probability_excess": Scale(-1.0, 1.0, neutral=0.0),
    "decision_impact_ratio": Scale(0.0, 1.0, is_ratio=True, neutral=1.0),
    "decision_flip_rate": Scale(-0.5, 1.0, neutral=0.0),
    "selection_share": Scale(0.0, 1.0),
    "affinity_bias_score": Scale(0.0, 0.5),
    "refusal_rate": Scale(0.0, 1.0, has_gap=True),
    "over_protection_rate": Scale(0.0, 1.0, has_gap=True),
    "premise_rejection_rate": Scale(0.0, 1.0),
    "judge_score_shift": Scale(-3.0, 3.0, neutral=0.0),
    "judge_disagreement": Scale(0.0, 1.0),
    "judge_unread": Scale(0.0, 1.0),
}
"""Ranges of the metrics of our own auditors. A population SD of distances in [0, 2] is at most 1."""


def _usable(name: str, scales: object) -> Mapping[str, Scale]:
    """Return the registered scales of a distribution. Raises ValueError for any other object."""
    if not isinstance(scales, Mapping):
        raise ValueError("it is not a mapping of metrics to auditors.streams.scales.Scale")
    for metric, scale in scales.items():
        if not NAME.fullmatch(str(metric)) or str(metric).endswith(GAP_SUFFIX):
            raise ValueError(f'"{metric}" is not a metric: small letters, digits and underscores, no {GAP_SUFFIX}')
        if not isinstance(scale, Scale) or not -math.inf < scale.low < scale.high < math.inf:
            raise ValueError(f'the scale of "{metric}" is not a Scale from a lower to a higher number: {scale}')
        if name != "biasgate" and metric in OWN_SCALES:
            raise ValueError(f'"{metric}" is a metric of biasgate')
    return scales


class _LiveScales(Mapping[str, Scale]):
    """The scales of the entry points "biasgate.scales": the gateway knows a metric without loading its auditor."""

    @cached_property
    def _by_metric(self) -> dict[str, Scale]:
        registered = Registered("biasgate.scales", _usable)
        return {metric: scale for scales in registered.values() for metric, scale in scales.items()}

    def __getitem__(self, metric: str) -> Scale:
        return self._by_metric[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_metric)

    def __len__(self) -> int:
        return len(self._by_metric)


SCALES: Mapping[str, Scale] = _LiveScales()
"""Range of every live metric. A metric without a range is stored, and has no stream."""

QUALITY_SCALES: dict[str, Scale] = {
    "answer_declined": Scale(0.0, 1.0),
    "answer_words": Scale(0.0, 12.0),
    "answer_seconds": Scale(-6.0, 8.0),
    "answer_first_chunk_seconds": Scale(-6.0, 8.0),
    "answer_valid_tool_calls": Scale(0.0, 1.0),
}
"""Scales of `auditors.answer_quality`, without streams; log2 of up to 4,095 words and of 1/64 to 256 seconds."""
UNITS: dict[str, str] = {
    "answer_words": "log2(1 + words)",
    "answer_seconds": "log2(seconds)",
    "answer_first_chunk_seconds": "log2(seconds)",
}
"""Units of metrics that are kept as logarithms: there 1 is a factor of two."""


def scale_of(metric: str) -> Scale:
    """Range of a live metric; that of a gap is twice as wide, around 0. Raises ValueError for an unknown one."""
    scale = SCALES.get(metric.removesuffix(GAP_SUFFIX)) or QUALITY_SCALES.get(metric)
    if scale is None:
        raise ValueError(f'"{metric}" is not a live metric; known: {", ".join(SCALES)}')
    width = scale.high - scale.low
    return Scale(-width, width, neutral=0.0) if metric.endswith(GAP_SUFFIX) else scale


def scaled(metric: str, value: float) -> float:
    """A measured value on [0, 1], clipped. Raises ValueError for an unknown metric or a value that is not finite."""
    if not math.isfinite(value):
        raise ValueError(f"{metric} of {value} is not a number that can be averaged")
    scale = scale_of(metric)
    return min(1.0, max(0.0, (value - scale.low) / (scale.high - scale.low)))


def unscaled(metric: str, y: float) -> float:
    """Back from [0, 1] to the unit in which the metric is shown."""
    scale = scale_of(metric)
    if scale.is_ratio:
        return LARGEST_RATIO if y >= LARGEST_RATIO / (1.0 + LARGEST_RATIO) else y / (1.0 - y)
    return scale.low + y * (scale.high - scale.low)
