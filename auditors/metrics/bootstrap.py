"""Resampling of clusters, and of crossed factors: a resample is a vector of counts, its sums a matrix product."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from auditors.metrics.intervals import Interval

Floats = NDArray[np.float64]

Statistic = Callable[[Floats], Floats]
"""Maps sums of shape (..., k) to values of shape (...); NaN where undefined. Must not depend on the scale of rows."""

N_RESAMPLES = 2000
"""Number of resamples (protocols 1.7)."""
N_PERMUTATIONS = 9999
_DRAWN_ONE_BY_ONE = 1_000_000
"""Single draws up to which these take less time than a binomial count of each kind: 500 clusters, 2,000 times."""
_NUMBERS_AT_ONCE = 4_000_000
"""Size of the largest array of counts or swaps: 32 MB, whatever the number of clusters."""


@dataclass(frozen=True)
class Bootstrap:
    """Outcome of a cluster bootstrap: the percentile interval, if there is one, and what it rests on."""

    interval: Interval | None
    n_clusters: int
    n_undefined: int
    """Resamples in which the statistic was undefined; they are left out of the percentiles."""
    is_degenerate: bool
    """Every resample gave the same value, so the spread cannot be seen by resampling."""
    standard_error: float | None = None
    """Standard deviation of the defined resamples, widened by sqrt(n / (n - 1)) clusters."""


def cluster_bootstrap(
    sums: Floats,
    statistic: Statistic,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
    confidence_level: float = 0.95,
) -> Bootstrap:
    """Expanded percentile interval of `statistic` under resampling of clusters; `sums` is (n_clusters, k) float64. The
    expansion makes up for n in place of n - 1 and normal in place of t: the 0.9 and 99.1 percentiles for 10 clusters at
    95 %. `interval` is None below 2 clusters or without a defined resample. Source: Field and Welsh 2007,
    doi:10.1111/j.1467-9868.2007.00593.x; Hesterberg 2015, doi:10.1080/00031305.2015.1089789.
    """
    if sums.ndim != 2:
        raise ValueError(f"sums must have shape (n_clusters, k), not {sums.shape}")
    n_clusters = len(sums)
    if n_clusters < 2:
        return Bootstrap(None, n_clusters, 0, is_degenerate=True)
    values = statistic(resampled_sums(sums, rng=rng, n_resamples=n_resamples))
    widening = math.sqrt(n_clusters / (n_clusters - 1))
    return _percentiles(values, n_clusters, expanded_tail(n_clusters, confidence_level), widening=widening)


def is_one_value(values: Floats) -> bool:
    """Return whether all values are equal but for the last bits, in which the order of summing differs."""
    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


def resampled_sums(sums: Floats, *, rng: np.random.Generator, n_resamples: int) -> Floats:
    """(n_resamples, k) sums of n_clusters of the rows, drawn with replacement; many equal rows are counted by kind."""
    n_clusters = len(sums)
    if n_clusters * n_resamples <= _DRAWN_ONE_BY_ONE:
        return _drawn_sums(sums, n_clusters, rng, n_resamples)
    kinds, sizes = _kinds(sums)
    resamples = np.empty((n_resamples, sums.shape[1]))
    rows = max(1, _NUMBERS_AT_ONCE // len(kinds))
    for start in range(0, n_resamples, rows):
        counts = rng.multinomial(n_clusters, sizes / n_clusters, size=min(rows, n_resamples - start))
        resamples[start : start + rows] = counts.astype(np.float64) @ kinds
    return resamples


def _drawn_sums(sums: Floats, n_drawn: int, rng: np.random.Generator, n_resamples: int) -> Floats:
    n_rows = len(sums)
    drawn = rng.integers(n_rows, size=(n_resamples, n_drawn)) + n_rows * np.arange(n_resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=n_resamples * n_rows).reshape(n_resamples, n_rows)
    return np.asarray(counts.astype(np.float64) @ sums)


def _kinds(rows: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """The different rows in lexicographic order, and how often each occurs. Faster than `numpy.unique` on rows."""
    ordered = rows[np.lexsort(rows.T[::-1])]
    starts = np.flatnonzero(np.r_[True, np.any(ordered[1:] != ordered[:-1], axis=1)])
    return ordered[starts], np.diff(np.r_[starts, len(rows)])


def expanded_tail(n_clusters: int, confidence_level: float) -> float:
    """Share of resamples outside each end: Φ(-sqrt(n / (n - 1)) * t), with t the Student quantile of n - 1 degrees."""
    quantile = stdtrit(n_clusters - 1, (1 + confidence_level) / 2)
    return float(ndtr(-math.sqrt(n_clusters / (n_clusters - 1)) * quantile))


def paired_swap_p_value(
    sums_a: Floats,
    sums_b: Floats,
    statistic: Statistic,
    *,
    rng: np.random.Generator,
    n_permutations: int = N_PERMUTATIONS,
) -> float:
    """Two-sided p of "both sides have the same distribution", swapping whole clusters of sums (n_clusters, k) each.
    Returns (1 + #{|d*| >= |d|}) / (1 + n); an undefined swap counts as extreme; NaN if the observed is undefined.
    Source: Phipson and Smyth 2010, doi:10.2202/1544-6115.1585.
    """
    if sums_a.shape != sums_b.shape:
        raise ValueError(f"both sides need the same clusters: shapes {sums_a.shape} and {sums_b.shape}")
    observed = float(statistic(sums_b.sum(axis=0)) - statistic(sums_a.sum(axis=0)))
    if math.isnan(observed):
        return math.nan
    rows = max(1, _NUMBERS_AT_ONCE // max(1, *sums_a.shape))
    extreme = 0
    for start in range(0, n_permutations, rows):
        size = (min(rows, n_permutations - start), len(sums_a))
        moved = rng.integers(0, 2, size=size).astype(np.float64) @ (sums_a - sums_b)
        differences = statistic(sums_b.sum(axis=0) + moved) - statistic(sums_a.sum(axis=0) - moved)
        # Sums of the same numbers in another order differ in the last bits; such ties must count as ties.
        extreme += int((~(np.abs(differences) < abs(observed) - 1e-9 * max(1.0, abs(observed)))).sum())
    return (1 + extreme) / (1 + n_permutations)


def holm(p_values: Sequence[float], shares: Sequence[float] | None = None) -> list[float]:
    """Holm's step-down adjustment of p values, in the given order; NaN entries stay NaN and are not counted. `shares`:
    of the error, in proportion, above 0, else ValueError; None: equal. Holm 1979, section 4 for unequal ones.
    """
    parts = [1.0] * len(p_values) if shares is None else list(shares)
    if len(parts) != len(p_values) or not all(share > 0 for share in parts):
        raise ValueError("every p value needs a share above 0")
    order = sorted((p / parts[index], index) for index, p in enumerate(p_values) if not math.isnan(p))
    left = np.cumsum([parts[index] for _, index in reversed(order)])[::-1]
    adjusted = [math.nan] * len(p_values)
    running = 0.0
    for (p, index), rest in zip(order, left, strict=True):
        running = max(running, min(1.0, p * float(rest)))
        adjusted[index] = running
    return adjusted


# Items within strata, and of crossed factors.


Indices = NDArray[np.intp]


class Noise(NamedTuple):
    """Spread of a number that depends on crossed factors, in addition to the spread from resampling its rows alone."""

    variance: Floats
    """(p,) of each part of the number."""
    degrees: float
    """Degrees of freedom: few if a factor with few levels causes most of the variance (Satterthwaite 1946)."""


def stratified_bootstrap(
    sums: Floats,
    strata: Indices,
    statistic: Statistic,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
    confidence_level: float = 0.95,
) -> Bootstrap:
    """Percentile interval of `statistic` of `sums` (n_rows, k), rows drawn within `strata` (n_rows,), any integers. Of
    n rows n - 1 are drawn, of weight n / (n - 1), for an unbiased variance; strata of one row are joined, erring on the
    wide side; percentiles are Student's. `interval` is None below 2 rows or without a defined resample; `n_clusters`
    counts rows. Source: Rao and Wu 1988, doi:10.1080/01621459.1988.10478591.
    """
    _demand_rows(sums, [strata])
    n_rows = len(sums)
    if n_rows < 2:
        return Bootstrap(None, n_rows, 0, is_degenerate=True)
    members = _collapsed(strata)
    drawn = np.zeros((n_resamples, sums.shape[1]))
    for rows in members:
        drawn += _drawn_within(sums[rows], rng, n_resamples)
    degrees = sum(len(rows) - 1 for rows in members)
    return _percentiles(statistic(drawn), n_rows, student_tail(degrees, confidence_level))


def _collapsed(strata: Indices) -> list[Indices]:
    """Rows of each stratum; those of single rows together, with the smallest other one where there is only one."""
    _, stratum, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    order = np.argsort(stratum, kind="stable")
    members = np.split(order, np.cumsum(sizes)[:-1])
    single = [rows for rows in members if len(rows) == 1]
    several = sorted((rows for rows in members if len(rows) > 1), key=len)
    if len(single) == 1 and several:
        single.append(several.pop(0))
    return [*several, *([np.concatenate(single)] if single else [])]


def _drawn_within(sums: Floats, rng: np.random.Generator, n_resamples: int) -> Floats:
    """(n_resamples, k) sums of n - 1 of n rows, drawn with replacement, of weight n / (n - 1)."""
    n_rows = len(sums)
    weight = n_rows / (n_rows - 1)
    resamples = np.empty((n_resamples, sums.shape[1]))
    step = max(1, _NUMBERS_AT_ONCE // n_rows)
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        resamples[start : start + size] = weight * _drawn_sums(sums, n_rows - 1, rng, size)
    return resamples


def crossed_bootstrap(
    sums: Floats,
    factors: Sequence[Indices],
    statistic: Statistic,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
    confidence_level: float = 0.95,
) -> Bootstrap:
    """Like `stratified_bootstrap`, with resamples stretched to the variance of `crossed_noise`; `factors`: (n_rows,)
    each (the pigeonhole bootstrap of Owen 2007 counts the noise of single rows up to thrice).
    """
    _demand_rows(sums, factors)
    n_rows = len(sums)
    if n_rows < 2:
        return Bootstrap(None, n_rows, 0, is_degenerate=True)
    value = float(statistic(sums.sum(axis=0)))
    values = statistic(resampled_sums(sums, rng=rng, n_resamples=n_resamples))
    noise = crossed_noise(sums, factors, lambda rows: statistic(rows)[..., None])
    spread = float(np.nanstd(values)) if not np.isnan(values).all() else 0.0
    target_sd = math.sqrt(float(noise.variance[0]))
    if spread > 0 and target_sd > 0:
        values = value + (values - value) * (target_sd / spread)
    return _percentiles(values, n_rows, student_tail(noise.degrees, confidence_level), target_sd)


def crossed_noise(sums: Floats, factors: Sequence[Indices], parts: Callable[[Floats], Floats]) -> Noise:
    """Variance (p,) of numbers that depend on crossed factors; `parts` maps sums (..., k) to numbers (..., p). Sum over
    factors of the variance by leaving out a level, less all but one variance of single rows. Source: Cameron, Gelbach
    and Miller 2011, doi:10.1198/jbes.2010.07136; Efron and Stein 1981, doi:10.1214/aos/1176345462.
    """
    rows = row_variance(sums, parts)
    variances = [_left_out(sums, levels, parts) for levels in factors]
    of_factors = [variance - rows for variance in variances]
    variance = np.maximum(rows, rows + sum(of_factors, np.zeros_like(rows)))
    own = [float(np.nansum(np.maximum(0.0, part))) for part in of_factors]
    whole = float(np.nansum(rows)) + sum(own)
    if whole <= 0:
        return Noise(variance, math.inf)
    squares = float(np.nansum(rows)) ** 2 / max(1, len(sums) - 1)
    squares += sum(
        part**2 / max(1, len(np.unique(levels)) - 1) for part, levels in zip(own, factors, strict=True) if part > 0
    )
    return Noise(variance, whole**2 / squares)


def _left_out(sums: Floats, levels: Indices, parts: Callable[[Floats], Floats]) -> Floats:
    """(p,) jackknife variance of each part, leaving out one level at a time; 0 where there are fewer than two."""
    _, level = np.unique(levels, return_inverse=True)
    n_levels, width = int(level.max()) + 1, sums.shape[1]
    by_level = np.zeros((n_levels, width))
    np.add.at(by_level, level, sums)
    total = sums.sum(axis=0)
    step = max(1, _NUMBERS_AT_ONCE // max(1, width))
    values = np.concatenate([parts(total - by_level[at : at + step]) for at in range(0, n_levels, step)])
    is_defined = ~np.isnan(values)
    n_known = is_defined.sum(axis=0)
    if n_levels < 2:
        return np.zeros(values.shape[1:])
    centre = np.divide(np.where(is_defined, values, 0.0).sum(axis=0), np.maximum(n_known, 1))
    squares = np.where(is_defined, (values - centre) ** 2, 0.0).sum(axis=0)
    return np.asarray((n_levels - 1) / np.maximum(n_known, 1) * squares)


def row_variance(sums: Floats, parts: Callable[[Floats], Floats]) -> Floats:
    """(p,) of each part, from leaving out one row at a time: what `crossed_noise` begins with."""
    return _left_out(sums, np.arange(len(sums)), parts)


def student_tail(degrees: float, confidence_level: float) -> float:
    """Share of normal resamples outside each end of an interval by Student's t with so many degrees of freedom."""
    return float(ndtr(-stdtrit(max(1.0, min(degrees, 1e6)), (1 + confidence_level) / 2)))


def _percentiles(
    values: Floats, n_rows: int, tail: float, error: float | None = None, *, widening: float = 1.0
) -> Bootstrap:
    """Outcome of resamples; the standard error is theirs, widened, where none is given."""
    defined = values[~np.isnan(values)]
    n_undefined = len(values) - len(defined)
    if len(defined) == 0:
        return Bootstrap(None, n_rows, n_undefined, is_degenerate=True)
    lower, upper = np.percentile(defined, [100 * tail, 100 - 100 * tail])
    return Bootstrap(
        Interval(float(lower), float(upper)),
        n_rows,
        n_undefined,
        is_degenerate=is_one_value(defined),
        standard_error=float(np.std(defined)) * widening if error is None else error,
    )


def _demand_rows(sums: Floats, labels: Sequence[Indices]) -> None:
    if sums.ndim != 2 or any(label.shape != (len(sums),) for label in labels):
        shapes = ", ".join(str(label.shape) for label in labels)
        raise ValueError(f"sums must have shape (n_rows, k) and labels (n_rows,), not {sums.shape} and {shapes}")
