"""Tests of whether groups differ: one-way ANOVA, the pooled t test, a permutation within items."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc, stdtr


class Outcome(NamedTuple):
    """A statistic and its two-sided p value; both NaN when undefined."""

    statistic: float
    p_value: float


UNDEFINED = Outcome(math.nan, math.nan)


def one_way_anova(groups: list[list[float]]) -> Outcome:
    """F = between-group mean square / within-group mean square, and P(F' >= F) with k - 1 and n - k degrees.

    Returns: NaN for fewer than two groups, an empty one, no degree left within, or no spread within.
    Source: CoGS, section 3 (protocols 5.6), over the 12 task means of each identity. scipy's f_oneway gives the same,
        but for equal means its F may round below 0, where its p value is NaN.
    """
    sizes = np.array([len(group) for group in groups], dtype=np.float64)
    n, k = float(sizes.sum()), len(groups)
    if k < 2 or np.any(sizes == 0) or n <= k:
        return UNDEFINED
    means = np.array([np.mean(group) for group in groups])
    grand = float(sizes @ means) / n
    within = sum(float(np.sum((np.asarray(group) - mean) ** 2)) for group, mean in zip(groups, means, strict=True))
    if within == 0:
        return UNDEFINED
    statistic = float(sizes @ (means - grand) ** 2) / (k - 1) / (within / (n - k))
    return Outcome(statistic, float(fdtrc(k - 1, n - k, statistic)))


def pooled_t(left: list[float], right: list[float]) -> Outcome:
    """Independent two-sample t with pooled variance, two-sided; t^2 is the F of `one_way_anova`.

    Returns: positive when `left` has the larger mean; NaN as `one_way_anova`.
    Source: Student 1908; protocols 5.6. scipy's ttest_ind gives the same, but warns where values are nearly equal.
    """
    n = len(left) + len(right)
    if not left or not right or n <= 2:
        return UNDEFINED
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    pooled = float(np.sum((a - a.mean()) ** 2) + np.sum((b - b.mean()) ** 2)) / (n - 2)
    if pooled == 0:
        return UNDEFINED
    statistic = float(a.mean() - b.mean()) / math.sqrt(pooled * (1 / len(a) + 1 / len(b)))
    return Outcome(statistic, float(2 * stdtr(n - 2, -abs(statistic))))


def within_item_permutation(values: ArrayLike, *, rng: np.random.Generator, n_permutations: int = 9999) -> Outcome:
    """Permutation p value of "identity makes no difference", identity labels permuted within each item.

    Args:
        values: (n_items, n_identities) real, e.g. distances of one (task, theme) under each identity.
        rng: source of the permutations.
        n_permutations: number of random relabellings.

    Returns: the population SD of the identities' means (RBS or ABS of complete items), and
        (1 + #{SD* >= SD}) / (1 + n); NaN for no items or fewer than two identities.
    Raises: ValueError if values is not two-dimensional or not finite.
    Source: protocols 5.6 (`corrected`); Phipson and Smyth 2010, doi:10.2202/1544-6115.1585 (why one is added).
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not np.all(np.isfinite(table)):
        raise ValueError(f"values must be finite and (n_items, n_identities), not {table.shape}")
    if not len(table) or table.shape[1] < 2:
        return UNDEFINED
    observed = float(table.mean(axis=0).std())
    spread = np.array([rng.permuted(table, axis=1).mean(axis=0).std() for _ in range(n_permutations)])
    # Sums of the same numbers in another order differ in the last bits; such ties must count as ties.
    extreme = int(np.sum(spread >= observed - 1e-12))
    return Outcome(observed, (1 + extreme) / (1 + n_permutations))
