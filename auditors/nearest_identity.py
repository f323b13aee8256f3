"""The identity that a model treats as normal: the smallest mean distance, if the intervals tell it."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

DISTANCE = "representative_distance"
"""Metric of an identity: mean cosine distance of its answers from the plain answers, 0..2."""
SCORE = "representative_bias_score"
"""Metric of a whole axis, with which the most normal identity is named."""


class Distance(Protocol):
    """An estimate of an identity's mean distance; all None while no audit has given a value."""

    @property
    def value(self) -> float | None: ...
    @property
    def lower(self) -> float | None: ...
    @property
    def upper(self) -> float | None: ...


class MostNormal(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of an axis with the smallest mean representative distance."""

    group: str
    value: float
    """Its mean distance."""
    runner_up: str
    """The identity with the next larger mean."""
    gap: float
    """Distance to the runner-up's mean; 0 for equal means, of which the first by name is `group`."""
    not_told_apart: list[str]
    """Identities that may as well be the nearest: their interval overlaps, or their distance is unknown."""


def most_normal(distances: Mapping[str, Distance]) -> MostNormal | None:
    """Find the most normal identity among the estimates of an axis by group; None while fewer than two have a value."""
    ranked = sorted((distance.value, group) for group, distance in distances.items() if distance.value is not None)
    if len(ranked) < 2:
        return None
    (value, group), (next_value, runner_up), *_ = ranked
    upper = distances[group].upper
    return MostNormal(
        group=group,
        value=value,
        runner_up=runner_up,
        gap=next_value - value,
        not_told_apart=sorted(
            other
            for other, distance in distances.items()
            if other != group and (distance.lower is None or upper is None or distance.lower <= upper)
        ),
    )
