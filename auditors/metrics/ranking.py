"""Ranks of models, the rank score of "No LLM is Free From Bias" (protocols 3.8), and areas under ROC curves."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtri

from auditors.metrics.bootstrap import N_RESAMPLES, expanded_tail, holm
from auditors.metrics.intervals import Interval

Ties = Literal["lower", "average"]
"""lower: equal values share the best of their places (1, 1, 3). average: the mean of them (1.5, 1.5, 3)."""

Best = Literal["lowest", "highest"]
_DECIMALS = 9
"""Values that agree to so many decimals are tied: sums of the same numbers in another order differ beyond them."""

Key = TypeVar("Key", bound=Hashable)


def ranks(values: Sequence[float], *, best: Best, ties: Ties = "lower") -> list[float | None]:
    """Places in the given order, 1 the least biased (the end `best`); None for NaN. Protocols 3.8 [D], see X-NLF-10."""
    keys = [round(value if best == "lowest" else -value, _DECIMALS) for value in values]
    placed = [key for key in keys if not math.isnan(key)]
    return [None if math.isnan(key) else _place(key, placed, ties) for key in keys]


@dataclass(frozen=True)
class RankRange:
    """Place of a model, and the places that chance allows it."""

    place: int
    """1 and the number of models that are better beyond chance: models that chance could swap share a place."""
    lower: int
    upper: int
    """Both ends of the percentile interval of the rank."""


def rank_ranges(
    values: Sequence[float], resamples: NDArray[np.float64], *, best: Best, confidence_level: float = 0.95
) -> list[RankRange]:
    """Places with tied groups and rank intervals of `values` (n_models,) from `resamples` (n_models, n >= 2) of the
    questions. A size is larger by chance and its resamples larger still, so values and resamples are moved by the
    resamples' bias, once and twice. Models are apart when their difference is, at the level that Holm leaves for the
    row's pairs. A column with NaN ranks nothing; a model has all places where none ranks.
    """
    sign = 1.0 if best == "lowest" else -1.0
    observed, drawn = sign * np.asarray(values, dtype=np.float64), sign * resamples
    bias = np.nanmean(drawn, axis=1) - observed
    centred, moved = observed - bias, np.round(drawn - 2 * bias[:, None], _DECIMALS)
    ranked = moved[:, ~np.isnan(moved).any(axis=0)]
    tail = (1 - confidence_level) / 2
    lower, upper = np.ones(len(values)), np.full(len(values), len(values))
    if ranked.size:
        drawn_ranks = 1 + (ranked[None, :, :] < ranked[:, None, :]).sum(axis=1)
        lower = np.quantile(drawn_ranks, tail, axis=1, method="inverted_cdf")
        upper = np.quantile(drawn_ranks, 1 - tail, axis=1, method="inverted_cdf")
    places = 1 + _is_better(centred, drawn, 1 - confidence_level).sum(axis=0)
    return [RankRange(int(p), int(min(a, p)), int(max(b, p))) for p, a, b in zip(places, lower, upper, strict=True)]


def _is_better(values: NDArray[np.float64], resamples: NDArray[np.float64], level: float) -> NDArray[np.bool_]:
    """(n, n) whether the row's model is lower than the column's beyond chance."""
    n = len(values)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    p_values = []
    for i, j in pairs:
        error = float(np.nanstd(resamples[i] - resamples[j]))
        gap = abs(float(values[i] - values[j]))
        is_equal = gap <= 10.0**-_DECIMALS
        p_values.append(1.0 if is_equal else math.erfc(gap / error / math.sqrt(2)) if error > 0 else 0.0)
    is_better = np.zeros((n, n), dtype=np.bool_)
    for (i, j), p_value in zip(pairs, holm(p_values), strict=True):
        is_better[i, j] = p_value <= level and values[i] < values[j]
        is_better[j, i] = p_value <= level and values[j] < values[i]
    return is_better


def _place(key: float, placed: Sequence[float], ties: Ties) -> float:
    first = 1.0 + sum(other < key for other in placed)
    return first if ties == "lower" else first + (placed.count(key) - 1) / 2


def normalised_rank_scores(rank_sums: Mapping[Key, float]) -> dict[Key, float | None]:
    """(S - S_min) / (S_max - S_min) over all (aspect, model) cells, 0 = least biased; None throughout for equal sums.
    Aspects with more data sets have larger sums: compare `mean_rank` there. Source: Figure 1 (protocols 3.8).
    """
    if not rank_sums:
        return {}
    low, high = min(rank_sums.values()), max(rank_sums.values())
    return {key: (total - low) / (high - low) if high > low else None for key, total in rank_sums.items()}


def mean_rank(rank_sum: float, n_rows: int) -> float:
    """Rank sum over the number of dataset rows of its aspect: comparable between aspects. NaN without rows."""
    return rank_sum / n_rows if n_rows else math.nan


def population_sd_of_shares(shares: Sequence[float]) -> float:
    """Population SD of label shares, scaled to sum to 1 (RTP), in [0, 0.5]; NaN when all are 0."""
    total = math.fsum(shares)
    if total <= 0:
        return math.nan
    mean = 1 / len(shares)
    return math.sqrt(math.fsum((share / total - mean) ** 2 for share in shares) / len(shares))


def spearman(x: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> tuple[float, Interval | None]:
    """Spearman's rank correlation of paired (n,) values, NaN if either is constant, and its 95 % interval, None below
    two pairs or for NaN, from `bootstrap.cluster_bootstrap` over pairs. Source: Spearman 1904, doi:10.2307/1412159.
    """
    pairs = np.stack([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
    n, value = pairs.shape[1], float(_correlation(pairs))
    if n < 2 or math.isnan(value):
        return value, None
    drawn = _correlation(pairs[:, rng.integers(n, size=(N_RESAMPLES, n))])
    tail = expanded_tail(n, 0.95)
    lower, upper = np.nanquantile(drawn, [tail, 1 - tail])
    return value, Interval(float(min(lower, value)), float(max(upper, value)))


def _correlation(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlation of the ranks along the last axis; (2, ..., n) gives (...)."""
    rows, columns = pairs[..., :, None], pairs[..., None, :]
    centred = (np.sign(rows - columns)).sum(axis=-1)  # twice a mean rank, less its mean
    covariance = (centred[0] * centred[1]).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(covariance / np.sqrt((centred[0] ** 2).sum(axis=-1) * (centred[1] ** 2).sum(axis=-1)))


# The area under the ROC curve of examples that come in clusters.


Floats = NDArray[np.float64]


def clustered_auc(scores: ArrayLike, labels: ArrayLike, clusters: ArrayLike) -> tuple[float, Interval] | None:
    """Area under the ROC curve, ties half, and its 95 % interval on the logit scale; None below two clusters of either
    label. `scores`, `labels`, `clusters`: (n,). Without a pair out of order the interval is Wilson's, for as many
    trials as the rarer label has clusters. Source: Obuchowski 1997, Biometrics 53:567, doi:10.2307/2533958.
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
    area, z = float(shares[positive].mean()), float(ndtri(0.975))
    if area in (0.0, 1.0):
        trials = min(with_m, with_n)
        edge = trials / (trials + z * z)
        return area, Interval(edge, 1.0) if area else Interval(0.0, 1 - edge)
    moved_m = np.bincount(places, np.where(positive, shares, 0.0), n_clusters) - m_of * area
    moved_n = np.bincount(places, np.where(positive, 0.0, shares), n_clusters) - n_of * area
    variance = (
        with_m / (with_m - 1) * float((moved_m**2).sum()) / m**2
        + with_n / (with_n - 1) * float((moved_n**2).sum()) / n**2
        + 2 * n_clusters / (n_clusters - 1) * float((moved_m * moved_n).sum()) / (m * n)
    )
    half = z * (math.sqrt(max(variance, 0.0)) / (area * (1 - area)))
    return area, Interval(float(expit(logit(area) - half)), float(expit(logit(area) + half)))


def _ranks(values: Floats) -> Floats:
    """Places from 1 in ascending order; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
