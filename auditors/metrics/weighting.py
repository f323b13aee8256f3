"""Estimates from a sample with known, unequal probabilities, as running sums of sampled exchanges; needs no numpy."""

import math

import msgspec

from auditors.metrics.intervals import Interval, require_finite
from auditors.metrics.sequential import empirical_bernstein_interval

MAX_MOMENT_WEIGHT = 8.0
"""Largest weight of an exchange that is due to low rates, as a multiple of that at full rates."""


class WeightedSums(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of n values y_i with weights w_i = 1 / p_i. Raises NotFiniteError for a sum that would not be finite."""

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
    """1 / probability while `rate_factor` (how far all rates of the moment were lowered at most) is 1 /
    MAX_MOMENT_WEIGHT or more, which makes totals unbiased; below, as at that bound, so the mean leans away from such
    moments. Raises ValueError if either is outside (0, 1].
    """
    check_probability(probability)
    check_rate_factor(rate_factor)
    return min(1.0, MAX_MOMENT_WEIGHT * rate_factor) / probability


def add(sums: WeightedSums, y: float, probability: float) -> WeightedSums:
    """Add a finite y of this inclusion probability, else ValueError (Horvitz & Thompson 1952)."""
    check_probability(probability)
    return add_weighted(sums, y, 1.0 / probability)


def add_weighted(sums: WeightedSums, y: float, w: float) -> WeightedSums:
    """The sums with one more value of weight w > 0. Raises ValueError for a y that is not finite."""
    if not math.isfinite(y):
        raise ValueError(f"value {y} is not finite")
    return WeightedSums(n=sums.n + 1, w=sums.w + w, ww=sums.ww + w * w, wy=sums.wy + w * y, wyy=sums.wyy + w * y * y)


def less(sums: WeightedSums, earlier: WeightedSums) -> WeightedSums:
    """The sums of the values after `earlier`; without weights where those vanish in the earlier ones' rounding."""
    return WeightedSums(
        n=sums.n - earlier.n,
        w=max(0.0, sums.w - earlier.w),
        ww=max(0.0, sums.ww - earlier.ww),
        wy=sums.wy - earlier.wy,
        wyy=sums.wyy - earlier.wyy,
    )


def hajek_mean(sums: WeightedSums) -> float:
    """(sum_i y_i / p_i) / (sum_i 1 / p_i); NaN without weight. Hajek 1971, comment on Basu, p. 236."""
    return sums.wy / sums.w if sums.n and sums.w else math.nan


def kish_effective_n(sums: WeightedSums) -> float:
    """(sum w_i)^2 / sum w_i^2, in [1, n]; 0 without any weight. Kish 1965, Survey Sampling, section 11.2."""
    return sums.w * sums.w / sums.ww if sums.n and sums.ww else 0.0


def weighted_variance(sums: WeightedSums) -> float:
    """(sum w_i (y_i - mean)^2 / sum w_i) * n_eff / (n_eff - 1), clipped at 0; NaN for n_eff of 1 or less. Source: West
    1979, doi:10.1145/359146.359153; from running sums, so a spread below about 1e-8 of the mean is lost.
    """
    n_eff = kish_effective_n(sums)
    if n_eff <= 1.0 + 1e-12:
        return math.nan
    mean = hajek_mean(sums)
    return max(0.0, sums.wyy / sums.w - mean * mean) * n_eff / (n_eff - 1.0)


def fixed_time_interval(sums: WeightedSums, confidence_level: float) -> Interval:
    """`empirical_bernstein_interval` of values in [0, 1] at Kish's effective n; [0, 1] without a defined spread."""
    return empirical_bernstein_interval(
        hajek_mean(sums), weighted_variance(sums), kish_effective_n(sums), confidence_level
    )
