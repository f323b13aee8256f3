"""Percentages; with Wilson's interval of a share at hand."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auditors.metrics.shares import wilson_interval as wilson_interval


def percentage(part: ArrayLike, whole: ArrayLike) -> NDArray[np.float64]:
    """100 * part / whole.

    Args:
        part: (...) counts, or weighted counts.
        whole: (...) counts.

    Returns: (...) float64; NaN where whole is 0 (undefined, not zero).
    """
    denominator = np.asarray(whole, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(denominator > 0, 100.0 * np.asarray(part, dtype=np.float64) / denominator, np.nan)
