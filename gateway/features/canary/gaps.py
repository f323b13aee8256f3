"""Defines which gaps of two models are compared, on which scale, and when a gap counts as grown."""

from collections.abc import Mapping
from typing import NamedTuple

from auditors.streams.scales import SCALES
from benchmarks.lab.metrics.sequential_comparison import Direction

REPLAYED = ("counterfactual", "decision")
"""Auditors whose probes can be replayed on any model: all answers are drawn again, none is a client's."""

REFUSAL_RATE = "refusal_rate"
FAILURE_RATE = "failure_rate"
"""Share of the pairs in which a side could not be asked. It says nothing of the model, so it rolls nothing back; but a
canary that cannot be asked is not promoted either."""

DIRECTIONS: Mapping[str, Direction] = {
    "counterfactual_distance_excess": "directed",
    "counterfactual_refusal_difference": "absolute",
    "counterfactual_length_difference": "absolute",
    "counterfactual_favoritism_difference": "absolute",
    "counterfactual_tool_name_excess": "directed",
    "counterfactual_tool_arguments_excess": "directed",
    "counterfactual_json_excess": "directed",
    "decision_probability_excess": "absolute",
    "decision_flip_rate": "directed",
    REFUSAL_RATE: "directed",
    FAILURE_RATE: "directed",
}
"""directed: worse when higher. absolute: worse when farther from 0. Without `decision_impact_ratio`: what it says is
in `decision_probability_excess`, and it weighs its exchanges."""


class Gap(NamedTuple):
    """One number about one group. Axis and group are "" where all exchanges are meant."""

    auditor: str
    metric: str
    axis: str = ""
    group: str = ""

    def __str__(self) -> str:
        about = f" of {self.axis}/{self.group}" if self.axis else ""
        return f"{self.metric}{about}"


def score(metric: str, value: float) -> float:
    """A measured value on -1..1: divided by the most that its metric can be, so that 0 stays 0."""
    scale = SCALES[metric]
    return max(-1.0, min(1.0, value / max(abs(scale.low), abs(scale.high))))
