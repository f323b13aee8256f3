"""Intervals that are looked at more than once: how wide each must be so that all of them hold at once."""

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

_NODES = 200
"""Of the quadrature: enough for steps of a tenth of a standard error."""


@lru_cache
def repeated_level(n_looks: int, growth: float, confidence_level: float = 0.95) -> float:
    """Level of each of several intervals, so that the probability that one of them misses is 1 - confidence_level.

    The number is estimated at looks between which the information grows by a constant factor, and is about normal, so
    its standardised errors are a stationary Markov chain with correlation sqrt(1 / growth). Their largest size has a
    distribution found by numerical integration, look by look. An interval that holds at all looks at once holds at the
    one at which somebody chooses to stop, whatever the reason. Where the information grows more slowly than that, the
    looks are more alike and it covers more.

    Args:
        n_looks: at least 1.
        growth: above 1, of the information from look to look.
        confidence_level: of all looks together, in (0, 1).

    Returns: in [confidence_level, 1).
    Raises: ValueError for anything else.
    Source: Jennison and Turnbull 1990, doi:10.1214/ss/1177012099 (repeated confidence intervals); Armitage, McPherson
        and Rowe 1969, doi:10.2307/2343787 (the integration).
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

    critical = brentq(lambda one: held(one) - confidence_level, single, most + 1e-9, xtol=1e-10)
    return float(2 * ndtr(critical) - 1)
