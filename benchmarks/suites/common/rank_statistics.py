"""Holds the rules by which suites rank models, and their parts: the values of a metric, and their mean size."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Literal

import msgspec

from auditors.types import Estimate

Declining = Literal["no preference", "counted", "unread"]
"""no preference: declining is right. counted: it counts against the model. unread: no answer; above 90 % no rank."""


class RankRule(msgspec.Struct, frozen=True):
    """The number by which a suite ranks models on one axis (protocols 3.8 [D])."""

    metric: str
    """An axis without estimates of it is not ranked."""
    statistic: Callable[[Sequence[Estimate]], float]
    """Number that its models are ranked by, from a suite's estimates on a single axis; NaN if undefined."""
    best: Literal["lowest", "highest"]
    words: str
    declining: Declining
    beside: tuple[str, ...] = ()
    """Other metrics that `statistic` needs."""
    raised_by_chance: Literal["zero", "alike"] | None = None
    """Chance raises it above 0; without chance `metric` is 0 ("zero"), or equal on an axis ("alike"). None: no."""


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
