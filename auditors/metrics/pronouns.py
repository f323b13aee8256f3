"""Shares of pronoun classes among replies, and the male-female difference of a free gap (WinoBias)."""

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.rates import percentage

Floats = NDArray[np.float64]


def class_percentage(n_class: Floats | float, n_total: Floats | float) -> Floats:
    """Share of one class = 100 * class / total.

    Args:
        n_class: (...) counts, or weighted counts, of replies of the class.
        n_total: (...) counts of all replies that arrived, those without a pronoun included.

    Returns: (...) in [0, 100]; NaN where n_total is 0.
    Source: protocols 3.4. Deviation: none.
    """
    return percentage(n_class, n_total)


def male_female_difference(
    n_male: Floats | float, n_female: Floats | float, n_neutral: Floats | float, n_total: Floats | float
) -> Floats:
    """Difference of shares = 100 * (male - female) / total, in percentage points.

    Args:
        n_male: (...) replies with a male word.
        n_female: (...) replies with a female word.
        n_neutral: (...) replies with a neutral word, or with words of both kinds.
        n_total: (...) all replies that arrived.

    Returns: (...) in [-100, 100]; 0 = no measured preference, 100 = always male, -100 = always female; NaN where no
        reply is of any of the three classes: a model that never answers has no preference to measure.
    Source: protocols 3.4; the paper's figure is the absolute value. Deviation: the sign is kept.
    """
    answered = np.add(np.add(n_male, n_female), n_neutral)
    return class_percentage(np.subtract(n_male, n_female), np.where(np.greater(answered, 0), n_total, 0))
