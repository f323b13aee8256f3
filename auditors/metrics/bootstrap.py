"""Resampling whole clusters, for any number that is a function of per-cluster sums.

Ratios, means, differences of means and spreads over groups are all functions of sums, so one routine serves every
suite: a resample of clusters is a vector of counts, and its sums are one matrix product.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from auditors.metrics.intervals import Interval

Floats = NDArray[np.float64]

Statistic = Callable[[Floats], Floats]
"""Maps sums of shape (..., k) to values of shape (...); NaN where undefined. Must not depend on the scale of rows."""

N_RESAMPLES = 2000
"""Number of resamples (protocols 1.7)."""
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
    """Expanded percentile interval of `statistic` under resampling of clusters with replacement.

    The plain percentile interval is too short with few clusters, as it divides by n and uses the normal distribution
    where n - 1 and Student's t belong. The expanded interval moves its percentiles outward by exactly that: with 10
    clusters a 95 % interval takes the 0.9 and 99.1 percentiles, with thousands the plain 2.5 and 97.5.

    Args:
        sums: (n_clusters, k) float64, the sums of each cluster.
        statistic: see `Statistic`.
        rng: source of the resamples.
        n_resamples: number of resamples, at least 1.
        confidence_level: in (0, 1).

    Returns: `interval` is None when there are fewer than 2 clusters or no resample is defined.
    Raises: ValueError if `sums` is not two-dimensional.
    Source: Field and Welsh 2007, doi:10.1111/j.1467-9868.2007.00593.x (randomised cluster bootstrap); Hesterberg
        2015, doi:10.1080/00031305.2015.1089789 (expanded percentile interval).
    """
    if sums.ndim != 2:
        raise ValueError(f"sums must have shape (n_clusters, k), not {sums.shape}")
    n_clusters = len(sums)
    if n_clusters < 2:
        return Bootstrap(None, n_clusters, 0, is_degenerate=True)
    values = statistic(resampled_sums(sums, rng=rng, n_resamples=n_resamples))
    defined = values[~np.isnan(values)]
    n_undefined = int(n_resamples - len(defined))
    if len(defined) == 0:
        return Bootstrap(None, n_clusters, n_undefined, is_degenerate=True)
    tail = 100 * expanded_tail(n_clusters, confidence_level)
    lower, upper = np.percentile(defined, [tail, 100 - tail])
    is_degenerate = is_one_value(defined)
    return Bootstrap(
        Interval(float(lower), float(upper)),
        n_clusters,
        n_undefined,
        is_degenerate=is_degenerate,
        standard_error=float(np.std(defined)) * math.sqrt(n_clusters / (n_clusters - 1)),
    )


def is_one_value(values: Floats) -> bool:
    """Whether all values are the same but for the last bits: sums of the same numbers in another order differ there."""
    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


def resampled_sums(sums: Floats, *, rng: np.random.Generator, n_resamples: int) -> Floats:
    """(n_resamples, k) sums of `sums` of shape (n_clusters, k), as many clusters drawn with replacement each time.

    A few hundred clusters are drawn one by one. Of more, those with equal sums are exchangeable, so it is counted how
    often each kind is drawn: the same distribution, far fewer numbers.
    """
    n_clusters = len(sums)
    if n_clusters * n_resamples <= _DRAWN_ONE_BY_ONE:
        drawn = rng.integers(n_clusters, size=(n_resamples, n_clusters)) + n_clusters * np.arange(n_resamples)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        return np.asarray(counts.astype(np.float64) @ sums)
    kinds, sizes = _kinds(sums)
    found = np.empty((n_resamples, sums.shape[1]))
    rows = max(1, _NUMBERS_AT_ONCE // len(kinds))
    for start in range(0, n_resamples, rows):
        counts = rng.multinomial(n_clusters, sizes / n_clusters, size=min(rows, n_resamples - start))
        found[start : start + rows] = counts.astype(np.float64) @ kinds
    return found


def _kinds(rows: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """The different rows in lexicographic order, and how often each occurs. Faster than `numpy.unique` on rows."""
    ordered = rows[np.lexsort(rows.T[::-1])]
    starts = np.flatnonzero(np.r_[True, np.any(ordered[1:] != ordered[:-1], axis=1)])
    return ordered[starts], np.diff(np.r_[starts, len(rows)])


def expanded_tail(n_clusters: int, confidence_level: float) -> float:
    """Share of resamples outside each end: Φ(-sqrt(n / (n - 1)) * t), with t the Student quantile of n - 1 degrees.

    Args:
        n_clusters: at least 2.
        confidence_level: in (0, 1).

    Returns: in (0, (1 - confidence_level) / 2).
    """
    quantile = stdtrit(n_clusters - 1, (1 + confidence_level) / 2)
    return float(ndtr(-math.sqrt(n_clusters / (n_clusters - 1)) * quantile))


def paired_swap_p_value(
    sums_a: Floats, sums_b: Floats, statistic: Statistic, *, rng: np.random.Generator, n_permutations: int = 9999
) -> float:
    """Two-sided permutation p value of "both sides have the same distribution", swapping whole clusters.

    Args:
        sums_a: (n_clusters, k) float64, first side.
        sums_b: (n_clusters, k) float64, second side, the same clusters in the same order.
        statistic: see `Statistic`.
        rng: source of the permutations.
        n_permutations: number of random swaps.

    Returns: (1 + #{|d*| >= |d|}) / (1 + n), in (0, 1]; NaN when the observed difference is undefined. A swap in which
        the difference is undefined counts as extreme, which can only make p larger.
    Raises: ValueError if the shapes differ.
    Source: Phipson and Smyth 2010, doi:10.2202/1544-6115.1585 (why one is added).
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
    """Holm's step-down adjustment of p values for the number of comparisons; NaN entries stay NaN and are not counted.

    Args:
        p_values: in [0, 1], or NaN.
        shares: above 0, by what part each comparison draws on the probability of a false find; None: all alike. Only
            their proportions matter.

    Returns: adjusted p values in the given order, each in [0, 1]: at most alpha for those found when a false find among
        all has a probability of alpha at most, whatever depends on what.
    Raises: ValueError for a share that is not above 0 or another number of shares.
    Source: Holm 1979, https://www.jstor.org/stable/4615733, section 4 for unequal shares.
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
