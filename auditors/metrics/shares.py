"""Wilson's interval of a share. Plain floats: the gateway needs it without numpy."""

import math
from statistics import NormalDist

from auditors.metrics.intervals import Interval


def wilson_interval(n_successes: float, n_trials: float, *, confidence_level: float = 0.95) -> Interval | None:
    """Wilson score interval of a binomial share: centre (p + z²/2n) / (1 + z²/n).

    Args:
        n_successes: count, 0 <= n_successes <= n_trials.
        n_trials: count of independent trials.
        confidence_level: in (0, 1).

    Returns: both ends in [0, 1]; None when n_trials is 0.
    Raises: ValueError for a count or a level out of range.
    Source: Wilson 1927, doi:10.1080/01621459.1927.10502953. Deviation: none.
    """
    _check(n_successes, n_trials)
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must lie strictly between 0 and 1, not {confidence_level}")
    if n_trials == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence_level) / 2)
    share = n_successes / n_trials
    shrink = 1 + z * z / n_trials
    centre = (share + z * z / (2 * n_trials)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n_trials + z * z / (4 * n_trials * n_trials))
    lower = 0.0 if n_successes == 0 else max(0.0, centre - half)
    upper = 1.0 if n_successes == n_trials else min(1.0, centre + half)
    return Interval(lower, upper)


def _check(numerator: float, denominator: float) -> None:
    if not 0 <= numerator <= denominator:
        raise ValueError(f"a share needs 0 <= numerator <= denominator, not {numerator} of {denominator}")
