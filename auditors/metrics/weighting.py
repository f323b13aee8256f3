"""Estimates from a sample taken with known, unequal probabilities, kept as running sums.

The independent unit is one sampled exchange. Plain floats only: the gateway reads these sums without numpy.
"""

import math

import msgspec

from auditors.metrics.intervals import Interval, require_finite
from auditors.metrics.sequential import empirical_bernstein_interval

MAX_MOMENT_WEIGHT = 8.0
"""Largest weight of an exchange that is due to low rates, as a multiple of that at full rates."""


class WeightedSums(msgspec.Struct, frozen=True, kw_only=True):
    """Sufficient sums of n values y_i with weights w_i = 1 / p_i (inverse inclusion probability). Raises NotFiniteError
    where one of them, or the square of the sum of weights, would not be finite.
    """

    n: int = 0
    w: float = 0.0
    """Sum of w_i: the estimated number of exchanges the sample stands for."""
    ww: float = 0.0
    wy: float = 0.0
    wyy: float = 0.0

    def __post_init__(self) -> None:
        require_finite(self, self.w * self.w + self.ww + self.wy + self.wyy)


def check_probability(probability: float) -> None:
    """Raises ValueError for an inclusion probability outside (0, 1]."""
    if not 0.0 < probability <= 1.0:
        raise ValueError(f"inclusion probability {probability} is outside (0, 1]")


def check_rate_factor(rate_factor: float) -> None:
    """Raises ValueError for a factor on sampling rates outside (0, 1]."""
    if not 0.0 < rate_factor <= 1.0:
        raise ValueError(f"rate factor {rate_factor} is outside (0, 1]")


def bounded_weight(probability: float, rate_factor: float) -> float:
    """Weight of a value in a mean: the inverse of its inclusion probability, unless its moment would weigh too much.

    Returns: 1 / probability while rate_factor (how far all rates of the moment were lowered at most) is 1 /
    MAX_MOMENT_WEIGHT or more, which makes totals unbiased. Below, it is as if the rates had been lowered that far only,
    and the mean leans away from such moments. Raises ValueError if either is outside (0, 1].
    """
    check_probability(probability)
    check_rate_factor(rate_factor)
    return min(1.0, MAX_MOMENT_WEIGHT * rate_factor) / probability


def add(sums: WeightedSums, y: float, probability: float) -> WeightedSums:
    """The sums with one more finite value y, whose exchange had this inclusion probability.

    Raises: ValueError for a probability outside (0, 1] or a y that is not finite.
    Source: Horvitz & Thompson 1952, doi:10.1080/01621459.1952.10483446.
    """
    check_probability(probability)
    return add_weighted(sums, y, 1.0 / probability)


def add_weighted(sums: WeightedSums, y: float, w: float) -> WeightedSums:
    """The sums with one more value of weight w > 0. Raises ValueError for a y that is not finite."""
    if not math.isfinite(y):
        raise ValueError(f"value {y} is not finite")
    return WeightedSums(n=sums.n + 1, w=sums.w + w, ww=sums.ww + w * w, wy=sums.wy + w * y, wyy=sums.wyy + w * y * y)


def less(sums: WeightedSums, earlier: WeightedSums) -> WeightedSums:
    """The sums of the values that came after `earlier`. Where those weigh too little next to the earlier ones to be
    told from rounding, their sums of weights are 0, and mean and spread are undefined.
    """
    return WeightedSums(
        n=sums.n - earlier.n,
        w=max(0.0, sums.w - earlier.w),
        ww=max(0.0, sums.ww - earlier.ww),
        wy=sums.wy - earlier.wy,
        wyy=sums.wyy - earlier.wyy,
    )


def hajek_mean(sums: WeightedSums) -> float:
    """Hajek mean: (sum_i y_i / p_i) / (sum_i 1 / p_i), in the unit of y; NaN without any weight (undefined, not 0).
    Source: Hajek 1971, comment on Basu, in Foundations of Statistical Inference, p. 236. Deviation: none.
    """
    return sums.wy / sums.w if sums.n and sums.w else math.nan


def kish_effective_n(sums: WeightedSums) -> float:
    """Kish effective sample size: (sum w_i)^2 / sum w_i^2, in [1, n]; 0 without any weight. Source: Kish 1965, Survey
    Sampling, section 11.2. Deviation: none.
    """
    return sums.w * sums.w / sums.ww if sums.n and sums.ww else 0.0


def weighted_variance(sums: WeightedSums) -> float:
    """Weighted sample variance: (sum w_i (y_i - mean)^2 / sum w_i) * n_eff / (n_eff - 1).

    Returns: in the squared unit of y; the usual n - 1 variance when all weights are equal; NaN when the effective
        sample size is 1 or less (undefined: one value says nothing about spread).
    Source: reliability-weights form, West 1979, doi:10.1145/359146.359153. Deviation: computed from running sums,
        so a spread below about 1e-8 of the mean is lost to rounding; clipped at 0.
    """
    n_eff = kish_effective_n(sums)
    if n_eff <= 1.0 + 1e-12:
        return math.nan
    mean = hajek_mean(sums)
    return max(0.0, sums.wyy / sums.w - mean * mean) * n_eff / (n_eff - 1.0)


def fixed_time_interval(sums: WeightedSums, confidence_level: float) -> Interval:
    """Empirical-Bernstein interval of the Hajek mean of values in [0, 1], at Kish's effective n.

    Returns: within [0, 1]; all of it while the spread is undefined. Holds at one time chosen beforehand, approximately
        where weights differ (see `empirical_bernstein_interval`).
    Raises: ValueError if confidence_level is outside (0, 1).
    """
    return empirical_bernstein_interval(
        hajek_mean(sums), weighted_variance(sums), kish_effective_n(sums), confidence_level
    )
