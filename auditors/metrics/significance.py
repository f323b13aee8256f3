"""Significance: ANOVA, the pooled t test, permutations in items, the sign-flip test, and levels for repeated looks."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import fdtrc, log_ndtr, ndtr, ndtri, stdtr


class Outcome(NamedTuple):
    """A statistic and its two-sided p value; both NaN when undefined."""

    statistic: float
    p_value: float


UNDEFINED = Outcome(math.nan, math.nan)


def one_way_anova(groups: list[list[float]]) -> Outcome:
    """F and its p value; NaN for fewer than two groups, an empty group, no degree left or no spread within. Source:
    CoGS, section 3 (protocols 5.6). scipy's f_oneway has NaN for p where F rounds below 0.
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
    """Two-sample t, pooled variance, two-sided, positive for a larger `left`; NaN as `one_way_anova`. Student 1908."""
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
    """SD of the identities' means of `values` (n_items, n_identities), and its p value from permuting identities within
    items, (1 + #{SD* >= SD}) / (1 + n); NaN for no items or below two identities. Raises ValueError for another shape
    or values that are not finite. Protocols 5.6 (`corrected`); Phipson and Smyth 2010.
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


# The sign-flip test: is the centre of independent values 0, if each is as likely to be x as to be -x?


Floats = NDArray[np.float64]

_STEPS = 60
_EXACT_BELOW = 17
"""All sign patterns of fewer values are counted: 65,536 at most."""

_ROUNDING = 1e-12
_LEAST_EXPONENT = -1022


def sign_flip_p_value(values: Floats) -> float:
    """P(|sum of e_i x_i| >= |sum of x_i|), e_i = +-1: two-sided p in (0, 1] of "each is symmetric about 0"; 1 for zeros
    alone. Exact for up to 16 values other than 0 and where all have one sign; else the saddlepoint approximation,
    continuity corrected by the smallest value: 0.65 to 3 times the exact p. Source: Fisher 1935, The Design of
    Experiments, section 21; Lugannani and Rice 1980, doi:10.2307/1426607; Daniels 1987, doi:10.2307/1403269.
    """
    sizes = np.abs(values[values != 0])
    observed = abs(float(values.sum()))
    if len(sizes) == 0:
        return 1.0
    least, most = float(sizes.min()), float(sizes.sum())
    extreme = math.ldexp(1.0, max(1 - len(sizes), _LEAST_EXPONENT))
    if most - observed < least:
        return extreme
    if len(sizes) < _EXACT_BELOW:
        sums = np.zeros(1)
        for size in sizes:
            sums = np.concatenate([sums + size, sums - size])
        return float(np.mean(np.abs(sums) >= observed - _ROUNDING * most))
    return min(1.0, max(extreme, 2 * _upper_tail(sizes / most, (observed - least) / most)))


def _upper_tail(sizes: Floats, at: float) -> float:
    """P(sum of e_i x_i >= at) by Lugannani and Rice, for sizes that add up to 1 and `at` below 1."""
    if at <= 0:
        return 0.5
    low, high = 0.0, 1.0
    while float(sizes @ np.tanh(high * sizes)) < at and high < 1e12:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(sizes @ np.tanh(middle * sizes)) < at else (low, middle)
    point = (low + high) / 2
    scaled = point * sizes
    log_cosh = float((scaled + np.log1p(np.exp(-2 * scaled)) - math.log(2)).sum())
    root = math.sqrt(max(0.0, 2 * (point * at - log_cosh)))
    spread = point * math.sqrt(float(sizes**2 @ (1 - np.tanh(scaled) ** 2)))
    if root < 1e-4 or spread <= 0:
        return 0.5 if root < 1e-4 else math.exp(float(log_ndtr(-root)))
    # 1 - Phi(root) + phi(root) (1 / spread - 1 / root); at a small root the last two nearly cancel.
    density = math.exp(-root * root / 2) / math.sqrt(2 * math.pi)
    return min(0.5, max(0.0, math.exp(float(log_ndtr(-root))) + density * (1 / spread - 1 / root)))


# Levels at which intervals that are looked at more than once all hold.


_NODES = 200
"""Nodes of the quadrature: enough for steps of a tenth of a standard error."""


@lru_cache
def repeated_level(n_looks: int, growth: float, confidence_level: float = 0.95) -> float:
    """Level in [confidence_level, 1) of each interval, so that any of them misses with 1 - confidence_level. `growth`:
    of the information between looks, above 1; slower growth covers more. Errors are a stationary Markov chain with
    correlation sqrt(1 / growth). Holds whatever decides the stop. Raises ValueError out of range. Source: Jennison and
    Turnbull 1990, doi:10.1214/ss/1177012099; Armitage, McPherson and Rowe 1969, doi:10.2307/2343787.
    """
    if n_looks < 1 or not growth > 1.0 or not 0.0 < confidence_level < 1.0:
        raise ValueError(
            f"{n_looks} looks, growth {growth} and level {confidence_level} are not 1 or more, > 1, (0, 1)"
        )
    if n_looks == 1:
        return confidence_level
    single = float(ndtri((1 + confidence_level) / 2))
    most = float(ndtri(1 - (1 - confidence_level) / (2 * n_looks)))  # Bonferroni's
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    correlation = math.sqrt(1 / growth)
    spread = math.sqrt(1 - correlation**2)

    def held(critical: float) -> float:
        """Probability that no look is beyond `critical`."""
        at, weight = critical * nodes, critical * weights
        density = np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi)
        step = np.exp(-(((at[:, None] - correlation * at) / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
        for _ in range(n_looks - 1):
            density = step @ (weight * density)
        return float(weight @ density)

    from scipy.optimize import brentq  # its import takes a third of a second, and each auditor imports this module

    critical = brentq(lambda candidate: held(candidate) - confidence_level, single, most + 1e-9, xtol=1e-10)
    return float(2 * ndtr(critical) - 1)
