"""Intervals for spreads: numbers that are 0 when all parts are equal and above 0 by chance alone.

A standard deviation or variance over groups is at least 0, so its estimate lies too high when the groups differ little,
and a resample, which adds noise to noise, lies higher still. The percentiles of resamples then leave out a true 0
nearly always. Here the interval is made of the true values under which the observed one would not be surprising.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.bootstrap import N_RESAMPLES, expanded_tail, resampled_sums
from auditors.metrics.crossed import crossed_noise, student_tail
from auditors.metrics.intervals import Interval

Floats = NDArray[np.float64]

_HALVINGS = 30
_LARGEST_STRETCH = 2.0**20


@dataclass(frozen=True)
class Spread:
    """A statistic of sums in two steps: the parts, and how far they lie apart."""

    parts: Callable[[Floats], Floats]
    """Sums (..., k) to parts (..., p), or (..., n, p) for n sets of parts with a spread each; NaN where undefined."""
    of_parts: Callable[[Floats], Floats]
    """Parts to values (...): 0 where those of a set are equal, growing as they move apart."""

    def __call__(self, sums: Floats) -> Floats:
        return self.of_parts(self.parts(sums))


@dataclass(frozen=True)
class SpreadBootstrap:
    """Outcome of `spread_bootstrap`: the interval, if there is one, and what it rests on."""

    interval: Interval | None
    by_chance: float
    """Mean of what would be observed were all parts equal: how much of the value sampling noise explains."""
    n_undefined: int
    """Resamples in which the spread was undefined."""
    is_degenerate: bool
    """The parts are the same in every resample, so their noise cannot be seen."""


def spread_bootstrap(
    sums: Floats,
    spread: Spread,
    *,
    rng: np.random.Generator,
    factors: Sequence[NDArray[np.intp]] = (),
    n_resamples: int = N_RESAMPLES,
    confidence_level: float = 0.95,
) -> SpreadBootstrap:
    """Interval of a spread by inverting a bootstrap test under resampling of clusters.

    Candidates for the truth are the observed parts with their distances to their mean stretched by a factor c >= 0. The
    noise of the parts is that of the resamples around the observed parts. The interval begins with the smallest
    candidate that gives a value as large as observed more often than the tail of `expanded_tail`: at 0 when equal parts
    do. It ends with the largest that gives one as small more often than the tail times the probability under equal
    parts; without that factor a value that is small by luck would seem to prove that the truth is smaller still.

    Coverage of 95 % intervals measured over 200 to 400 samples each, with that of plain percentiles in brackets: three
    equal shares of 360 choices 98 % [0]; 0.5, 0.3 and 0.2 of them 94 % [94]; RBS of 360 texts at 0 96 % [0], at 0.17
    94 % [95]; variance of the favouritism of two groups at 0 98 % [29], at 0.16 94 % [94]; of eight groups at 0 99 %
    [0], at 0.002 98 % [1]. Between 0 and about twice the noise it covers up to 99 %.

    Args:
        sums: (n_clusters, k) float64, the sums of each cluster.
        spread: see `Spread`; its value of all clusters together must be defined.
        rng: source of the resamples.
        factors: (n_clusters,) levels of what clusters share: the noise of all parts is stretched to that of
            `crossed_noise`.
        n_resamples: number of resamples, at least 1.
        confidence_level: in (0, 1).

    Returns: `interval` is None with fewer than 2 clusters, when no resample is defined or when all are the same.
    Raises: ValueError if `sums` is not two-dimensional.
    Source: Carpenter and Bithell 2000, Statistics in Medicine 19:1141 (test inversion); that only the distances of the
        parts are stretched is our choice of the family of candidates. Read 2002, doi:10.1088/0954-3899/28/10/313 (the
        factor at the upper end).
    """
    if sums.ndim != 2:
        raise ValueError(f"sums must have shape (n_clusters, k), not {sums.shape}")
    if len(sums) < 2:
        return SpreadBootstrap(None, math.nan, 0, is_degenerate=True)
    observed = spread.parts(sums.sum(axis=0))
    noise = spread.parts(resampled_sums(sums, rng=rng, n_resamples=n_resamples)) - observed
    tail = expanded_tail(len(sums), confidence_level)
    if factors:
        crossed = crossed_noise(sums, factors, spread.parts)
        tail = student_tail(crossed.degrees, confidence_level)
        seen = _variance(noise)
        noise *= math.sqrt(float(np.nansum(crossed.variance)) / seen) if seen > 0 else 1.0
    candidate = _Candidate(spread, observed, noise)
    equal = candidate.values(0.0)
    n_undefined = n_resamples - len(equal)
    if len(equal) == 0 or not np.nansum(np.abs(noise)) > 0:
        return SpreadBootstrap(None, math.nan, n_undefined, is_degenerate=True)
    ends = candidate.interval(tail)
    return SpreadBootstrap(ends, float(np.mean(equal)), n_undefined, is_degenerate=False)


def _variance(noise: Floats) -> float:
    """Of all parts together, those left out that are defined in no resample; (n_resamples, ...)."""
    known = ~np.isnan(noise)
    n_known = np.maximum(1, known.sum(axis=0))
    centre = np.where(known, noise, 0.0).sum(axis=0) / n_known
    return float((np.where(known, (noise - centre) ** 2, 0.0).sum(axis=0) / n_known).sum())


class _Candidate:
    """The observed parts with their distances to their mean stretched, and the noise of the resamples on top."""

    def __init__(self, spread: Spread, observed: Floats, noise: Floats) -> None:
        self._of_parts = spread.of_parts
        self._noise = noise
        self._centre = np.nanmean(observed, axis=-1, keepdims=True)
        self._distance = observed - self._centre
        self._observed = float(spread.of_parts(observed))

    def truth(self, stretch: float) -> float:
        """Spread of the candidate itself."""
        return float(self._of_parts(self._centre + stretch * self._distance))

    def values(self, stretch: float) -> Floats:
        """(n,) what would be observed under the candidate, where defined."""
        values = self._of_parts(self._centre + stretch * self._distance + self._noise)
        return values[~np.isnan(values)]

    def interval(self, tail: float) -> Interval:
        equal = self.values(0.0)
        p_smaller = float(np.mean(equal <= self._observed))
        if self._observed == 0.0 or p_smaller == 0.0:
            # Next to no distances to stretch: as much as noise alone would show cannot be ruled out.
            return Interval(0.0, float(np.quantile(equal, 1 - tail)))
        return Interval(self.truth(self._lowest(tail)), self.truth(self._highest(tail * p_smaller)))

    def _lowest(self, tail: float) -> float:
        """Smallest stretch under which a value as large as observed is not too rare."""

        def is_too_small(stretch: float) -> bool:
            return bool(np.mean(self.values(stretch) >= self._observed) <= tail)

        return _boundary(is_too_small, 0.0, 1.0) if is_too_small(0.0) else 0.0

    def _highest(self, tail: float) -> float:
        """Largest stretch under which a value as small as observed is not too rare."""

        def is_possible(stretch: float) -> bool:
            return bool(np.mean(self.values(stretch) <= self._observed) > tail)

        above = 1.0
        while is_possible(above) and above < _LARGEST_STRETCH:
            above *= 2
        return _boundary(is_possible, 0.0, above)


def _boundary(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that holds near `low` ceases to hold."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return (low + high) / 2
