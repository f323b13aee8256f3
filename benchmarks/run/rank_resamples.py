"""The number by which a suite ranks models, and how far chance moves it, kept with a result.

A rank without an interval says nothing, and reports are made from results alone. So a result holds resamples of the
ranking number of each axis. The weight of a cluster in a resample hangs on its name, not on the model: models that
were asked the same questions are resampled together, and what is hard about a question cancels between them.
"""

import math
import zlib
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.types import Estimate
from benchmarks.suites.common.estimation import Cell, point
from benchmarks.suites.protocol import UNRELATED, RankRule

Floats = NDArray[np.float64]

N_RESAMPLES = 200
"""For standard errors of differences and for ranks, which are whole numbers."""
_DIGITS = 7


class RankResamples(msgspec.Struct, frozen=True, kw_only=True):
    """Of one axis."""

    axis: str
    values: list[float | None]
    """The ranking number in each resample; None where undefined."""
    by_chance: float | None = None
    """What it would be on average were nobody preferred, for a number that chance raises."""


def rank_resamples(rule: RankRule, cells: Sequence[Cell]) -> list[RankResamples]:
    """Bayesian bootstrap of a suite's ranking number, by axis: each cluster has an exponential weight.

    Args:
        rule: of the suite.
        cells: of one run.

    Returns: an entry for each axis that has the rule's metric.
    Source: Rubin 1981, doi:10.1214/aos/1176345338.
    """
    axes = dict.fromkeys(cell.axis for cell in cells if cell.metric == rule.metric)
    used = {rule.metric, *rule.beside}
    return [
        _of_axis(rule, axis, [c for c in cells if c.axis == axis and c.metric in used])
        for axis in axes
        if axis is not None
    ]


def _of_axis(rule: RankRule, axis: str, cells: Sequence[Cell]) -> RankResamples:
    columns = _columns(cells)
    return RankResamples(axis=axis, values=_values(rule, cells, columns), by_chance=_by_chance(rule, cells, columns))


def _values(rule: RankRule, cells: Sequence[Cell], columns: Sequence[Floats]) -> list[float | None]:
    return [_statistic(rule, cells, [float(column[n]) for column in columns]) for n in range(N_RESAMPLES)]


def _by_chance(rule: RankRule, cells: Sequence[Cell], columns: Sequence[Floats]) -> float | None:
    """The mean over resamples of what chance makes of values that are 0, or alike."""
    if rule.raised_by_chance is None:
        return None
    points = [math.nan if (value := point(cell)) is None else value for cell in cells]
    is_compared = [cell.metric == rule.metric and cell.group != UNRELATED for cell in cells]
    known = [p for p, is_one in zip(points, is_compared, strict=True) if is_one and not math.isnan(p)]
    neutral = sum(known) / len(known) if known and rule.raised_by_chance == "alike" else 0.0
    moved = [
        column - value + neutral if is_one else column
        for column, value, is_one in zip(columns, points, is_compared, strict=True)
    ]
    found = [value for value in _values(rule, cells, moved) if value is not None]
    return float(f"{sum(found) / len(found):.{_DIGITS}g}") if found else None


def _columns(cells: Sequence[Cell]) -> list[Floats]:
    """(N_RESAMPLES,) values of each cell."""
    names = sorted({name for cell in cells for name in cell.clusters})
    row = {name: place for place, name in enumerate(names)}
    weights = np.array([_weights(name) for name in names]).reshape(-1, N_RESAMPLES)
    return [_resampled(cell, weights[[row[name] for name in cell.clusters]]) for cell in cells]


def _weights(name: str) -> Floats:
    return np.random.default_rng(zlib.crc32(name.encode())).standard_exponential(N_RESAMPLES)


def _resampled(cell: Cell, weights: Floats) -> Floats:
    if not len(cell.clusters):
        return np.full(N_RESAMPLES, np.nan)
    return np.asarray(cell.statistic(weights.T @ cell.sums), dtype=np.float64)


def _statistic(rule: RankRule, cells: Sequence[Cell], values: Sequence[float]) -> float | None:
    found = rule.statistic([_estimate(cell, value) for cell, value in zip(cells, values, strict=True)])
    return None if math.isnan(found) else float(f"{found:.{_DIGITS}g}")


def _estimate(cell: Cell, value: float) -> Estimate:
    return Estimate(
        metric=cell.metric,
        axis=cell.axis,
        group=cell.group,
        reference=cell.reference,
        subset=cell.subset,
        value=None if math.isnan(value) else value,
        n=cell.n,
        n_excluded=0,
        extra=dict(cell.extra),
    )
