"""What both scores of CoGS need: group names, and who has the largest or smallest value."""

from collections.abc import Mapping

import numpy as np


def group_name(identity: str) -> str:
    """The name in results: lower case, underscores."""
    return identity.replace("-", "_")


def extremes(values: Mapping[str, float], *, largest: bool) -> list[str]:
    """All names that share the largest or smallest value, within rounding; empty when a value is undefined."""
    if not values or any(np.isnan(value) for value in values.values()):
        return []
    best = (max if largest else min)(values.values())
    return [name for name, value in values.items() if abs(value - best) <= 1e-12]
