"""The area under the ROC curve of scores whose examples come in clusters, with its interval."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtri

from auditors.metrics.intervals import Interval

Floats = NDArray[np.float64]


def clustered_auc(
    scores: ArrayLike, labels: ArrayLike, clusters: ArrayLike, *, confidence_level: float = 0.95
) -> tuple[float, Interval] | None:
    """Probability that a positive example scores above a negative one, ties counted half.

    Args:
        scores: (n,) real, larger for positive.
        labels: (n,) true for positive.
        clusters: (n,) examples with the same value may depend on each other.
        confidence_level: in (0, 1).

    Returns: the area and its interval, on the logit scale; None with fewer than two clusters of either label. Where no
        pair is out of order nothing can be learned from the differences, and the interval is Wilson's for as many
        trials as the rarer label has clusters.
    Source: Obuchowski 1997, Biometrics 53:567, doi:10.2307/2533958.
    """
    values, positive = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
    _, places = np.unique(np.asarray(clusters), return_inverse=True)
    n_clusters = int(places.max(initial=-1)) + 1
    m_of = np.bincount(places, positive, n_clusters)
    n_of = np.bincount(places, ~positive, n_clusters)
    m, n, with_m, with_n = float(m_of.sum()), float(n_of.sum()), int((m_of > 0).sum()), int((n_of > 0).sum())
    if min(with_m, with_n) < 2:
        return None
    # A rank among all less that among one's own counts those of the other label below, ties half.
    below = _ranks(values)
    below[positive] -= _ranks(values[positive])
    below[~positive] -= _ranks(values[~positive])
    shares = np.where(positive, below / n, 1 - below / m)
    area = float(shares[positive].mean())
    if area in (0.0, 1.0):
        trials, z = min(with_m, with_n), float(ndtri((1 + confidence_level) / 2))
        edge = trials / (trials + z * z)
        return area, Interval(edge, 1.0) if area else Interval(0.0, 1 - edge)
    moved_m = np.bincount(places, np.where(positive, shares, 0.0), n_clusters) - m_of * area
    moved_n = np.bincount(places, np.where(positive, 0.0, shares), n_clusters) - n_of * area
    variance = (
        with_m / (with_m - 1) * float((moved_m**2).sum()) / m**2
        + with_n / (with_n - 1) * float((moved_n**2).sum()) / n**2
        + 2 * n_clusters / (n_clusters - 1) * float((moved_m * moved_n).sum()) / (m * n)
    )
    error = math.sqrt(max(variance, 0.0)) / (area * (1 - area))
    half = float(ndtri((1 + confidence_level) / 2)) * error
    return area, Interval(float(expit(logit(area) - half)), float(expit(logit(area) + half)))


def _ranks(values: Floats) -> Floats:
    """Places from 1 in ascending order; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
