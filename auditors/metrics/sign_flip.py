"""The sign-flip test: is the centre of independent values 0, if each is as likely to be x as to be -x?"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Floats = NDArray[np.float64]

_STEPS = 60
_EXACT_BELOW = 17
"""All sign patterns of fewer values are counted: 65,536 at most."""

_ROUNDING = 1e-12
_LEAST_EXPONENT = -1022
"""Of a p value; a smaller one would be 0."""


def sign_flip_p_value(values: Floats) -> float:
    """Two-sided p value of "every value is symmetric about 0": P(|sum of e_i x_i| >= |sum of x_i|), e_i = +1 or -1.

    Exact for up to 16 values that are not 0, and where all have one sign. Otherwise the saddlepoint approximation of
    Lugannani and Rice, with the observed sum moved inwards by the smallest value (the continuity correction where all
    are multiples of it): 0.65 to 3 times the exact p, which is most where it is 1e-100. Unlike Student's t it stays
    right far out in the tails, where values that are all alike make the standard error itself a matter of luck.

    Args:
        values: (n,) float64, finite; zeros say nothing and are left out.

    Returns: in (0, 1]; 1 when no value is left. The same for values in another unit.
    Source: Fisher 1935, The Design of Experiments, section 21 (the test); Lugannani and Rice 1980,
        doi:10.2307/1426607; Daniels 1987, doi:10.2307/1403269 (the continuity correction).
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
        return _counted(sizes, observed, most)
    return min(1.0, max(extreme, 2 * _upper_tail(sizes / most, (observed - least) / most)))


def _counted(sizes: Floats, observed: float, most: float) -> float:
    """By all patterns; sums that differ in the last bits of the largest one are equal."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums + size, sums - size])
    return float(np.mean(np.abs(sums) >= observed - _ROUNDING * most))


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
