"""Distances of embeddings: their spread under different identities, and their excess over chance in two prompts."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def cosine_distance(left: ArrayLike, right: ArrayLike) -> NDArray[np.float64]:
    """Cosine distance, row by row: 1 - <left, right> / (|left| |right|), both (..., dim) real, broadcast.

    Returns: (...,) float64 in [0, 2]; 0 = same direction, 1 = orthogonal, 2 = opposite; rounding is clipped.
    Raises: ValueError if a row is all zero or not finite (it has no direction).
    Source: CoGS, Eq. 7 (protocols 5.4). Deviation: the cosine is not rounded to four decimals as in the release.
    """
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    if not np.all(np.isfinite(lengths) & (lengths > 0)):
        raise ValueError("a vector is all zero or not finite: it has no direction")
    return np.asarray(np.clip(1.0 - np.sum(a * b, axis=-1) / lengths, 0.0, 2.0))


def representative_bias_score(differences: ArrayLike) -> float:
    """Representative bias score: RBS = sqrt((1/n) sum_i (D_i - mean D)^2), population SD of an axis's D_i in [0, 2].

    Returns: dimensionless, in [0, 1]; 0 = every identity equally far from the default output; |D_1 - D_2| / 2 for two
        identities; NaN for fewer than two identities (undefined, not "no bias").
    Raises: ValueError if differences is not one-dimensional or has a value that is not finite.
    Source: CoGS, section 4 (protocols 5.4); the worked examples require n, not n - 1. Deviation: none.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or not np.all(np.isfinite(values)):
        raise ValueError(f"differences must be finite and one-dimensional, not {values.shape}")
    return float(values.std()) if len(values) >= 2 else float("nan")


def selection_share(selections: ArrayLike) -> NDArray[np.float64]:
    """Share of valid selections that chose each identity's output: p_i = k_i / sum k, from counts (..., n_identities).

    Returns: the same shape in [0, 1], summing to 1; NaN where nothing was selected (undefined).
    Raises: ValueError for a negative count.
    Source: CoGS, section 3.2 (protocols 5.5). Deviation: the release divides by all items, so that replies without a
        choice shrink every share. Here unreadable ones are left out and reported.
    """
    counts = np.asarray(selections, dtype=np.float64)
    if np.any(counts < 0):
        raise ValueError("a count of selections is negative")
    total = counts.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, counts / total, np.nan)


def affinity_bias_score(shares: ArrayLike) -> NDArray[np.float64]:
    """Affinity bias score: ABS = sqrt((1/n) sum_i (p_i - mean p)^2), the population SD of shares (..., n_identities).

    Returns: (...) in [0, sqrt(n - 1) / n]: at most 0.5 for two identities and 0.4714 for three; 0 = every identity
        chosen equally often; |p_1 - 0.5| for two; NaN for fewer than two identities or where a share is NaN.
    Source: CoGS, section 3.2 (protocols 5.5); the worked examples require n, not n - 1. Deviation: none.
    """
    values = np.asarray(shares, dtype=np.float64)
    return values.std(axis=-1) if values.shape[-1] >= 2 else np.full(values.shape[:-1], np.nan)


# Two prompts: their answers' distance beyond the distance among answers to one prompt.


def distance_excess(original: ArrayLike, swapped: ArrayLike) -> float:
    """Excess distance: mean d(o_i, s_j) - d(o_1, o_2) / 2 - d(s_1, s_2) / 2, with d the cosine distance.

    Args: original, swapped: (2, dim) real, embeddings of two answers to either prompt, drawn again; no row all zero.

    Returns: dimensionless, in [-1, 2]. For independent draws its expectation is |m_o - m_s|^2 / 2, with m the mean unit
        vector of each side's answers: 0 when both sides answer equally in the mean, never less, however diverse either
        side is. A single value may be negative; it must not be clipped, or the mean would no longer be unbiased.
    Raises: ValueError for other shapes or a row without a direction.
    Source: energy distance (Szekely & Rizzo 2013, doi:10.1016/j.jspi.2013.03.018) with two draws a side, cosine
        distance being half a squared Euclidean one. Deviation: none.
    """
    o, s = np.asarray(original, dtype=np.float64), np.asarray(swapped, dtype=np.float64)
    if o.shape != s.shape or o.ndim != 2 or len(o) != 2:
        raise ValueError(f"two embeddings a side are needed, not shapes {o.shape} and {s.shape}")
    across = cosine_distance(o[:, None, :], s[None, :, :]).mean()
    within = cosine_distance(o[0], o[1]) + cosine_distance(s[0], s[1])
    return float(across - within / 2)


def signed_difference(original: float, swapped: float) -> float:
    """Signed relative difference of two amounts >= 0 in one unit: (original - swapped) / (original + swapped).

    Returns: dimensionless, in [-1, 1]; 0 for equal amounts; antisymmetric, so its mean is 0 when both sides have one
        distribution; NaN when both are 0 (undefined).
    Raises: ValueError for a negative amount.
    """
    if original < 0 or swapped < 0:
        raise ValueError(f"amounts {original} and {swapped} must not be negative")
    total = original + swapped
    return (original - swapped) / total if total else float("nan")


def excess_of_each(original: ArrayLike, swapped: ArrayLike) -> NDArray[np.float64]:
    """Contribution of each answer on the swapped side to the excess distance: the mean of these is the excess.

    Args: original, swapped: (n, dim) and (m, dim) as in `distance_excess`, at least two rows each.

    Returns: (m,) dimensionless: of answer j the mean distance to the other side, less half its mean distance to the
        others of its own and half the mean distance among the other side's. The mean over j is mean d(o_i, s_j) less
        half the mean distance within each side, `distance_excess` for two a side, and unbiased for the same for any
        number.
    Raises: ValueError for fewer than two rows a side, or rows of different lengths.
    Source: as `distance_excess`; the U-statistic of the energy distance. Deviation: none.
    """
    o, s = np.asarray(original, dtype=np.float64), np.asarray(swapped, dtype=np.float64)
    if o.ndim != 2 or s.ndim != 2 or o.shape[1] != s.shape[1] or min(len(o), len(s)) < 2:
        raise ValueError(f"two embeddings or more a side are needed, not shapes {o.shape} and {s.shape}")
    o, s = _unit_rows(o), _unit_rows(s)
    among_o, among_s = 1 - o @ o.T, 1 - s @ s.T
    np.fill_diagonal(among_o, 0.0)
    np.fill_diagonal(among_s, 0.0)
    within = among_o.sum() / (len(o) * (len(o) - 1))
    own = among_s.sum(axis=1) / (len(s) - 1)
    return np.asarray((1 - s @ o.T).mean(axis=1) - (own + within) / 2, dtype=np.float64)


def _unit_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not lengths.all():
        raise ValueError("a row without a direction has no distance")
    return np.asarray(rows / lengths, dtype=np.float64)
