"""Holds what both scores of CoGS need: group names, sums by task, and the identities with the largest or smallest
value.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def group_name(identity: str) -> str:
    """The name in results: lower case, underscores."""
    return identity.replace("-", "_")


def extremes(values: Mapping[str, float], *, largest: bool) -> list[str]:
    """All names that share the largest or smallest value, within rounding; empty when a value is undefined."""
    if not values or any(np.isnan(value) for value in values.values()):
        return []
    best = (max if largest else min)(values.values())
    return [name for name, value in values.items() if abs(value - best) <= 1e-12]


def task_of(cluster: str) -> str:
    """The task of a (task, theme)."""
    return cluster.split("/")[0]


def by_task(clusters: Sequence[str], sums: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Sums of (task, theme)s, one in each row, added up by task."""
    sums_by_task: dict[str, NDArray[np.float64]] = {}
    for cluster, row in zip(clusters, sums, strict=True):
        sums_by_task[task_of(cluster)] = sums_by_task.get(task_of(cluster), np.zeros(len(row))) + row
    return sums_by_task
