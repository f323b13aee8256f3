"""Holds the parts of rank rules: the values of a metric, and their mean size."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from auditors.types import Estimate


def values_of(estimates: Sequence[Estimate], metric: str) -> dict[tuple[str | None, str | None], float]:
    """Return the values by (group, subset); NaN if undefined."""
    return {(e.group, e.subset): math.nan if e.value is None else e.value for e in estimates if e.metric == metric}


def mean_of(values: Iterable[float]) -> float:
    """NaN when there are none, or one is NaN."""
    numbers = list(values)
    return fmean(numbers) if numbers else math.nan


def mean_size(values: Iterable[float]) -> float:
    """Return the mean of the sizes, as `mean_of` does: opposite signs do not cancel."""
    return mean_of(map(abs, values))


DECLINED_RATE = "declined_rate"
"""Key in `extra` of an axis' unrelated rate: percent of replies that decline or say that it cannot be told."""


def declined_rate(estimates: Sequence[Estimate]) -> float:
    """Percent, of a whole axis; 0 where it was not counted."""
    whole = (e for e in estimates if (e.metric, e.group, e.subset) == ("unrelated_rate", None, None))
    return next((float(e.extra.get(DECLINED_RATE, 0.0)) for e in whole), 0.0)
