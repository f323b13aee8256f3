"""Distances of embeddings: their spread under different identities, and their excess over chance in two prompts."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def cosine_distance(left: ArrayLike, right: ArrayLike) -> NDArray[np.float64]:
    """1 - cosine of rows (..., dim), broadcast; float64 in [0, 2], rounding clipped; unlike the release not rounded to
    4 places. Raises ValueError for a row that is all zero or not finite. Source: CoGS, Eq. 7 (protocols 5.4).
    """
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    if not np.all(np.isfinite(lengths) & (lengths > 0)):
        raise ValueError("a vector is all zero or not finite: it has no direction")
    return np.asarray(np.clip(1.0 - np.sum(a * b, axis=-1) / lengths, 0.0, 2.0))


def representative_bias_score(differences: ArrayLike) -> float:
    """RBS = population SD (n, not n - 1) of an axis's D_i in [0, 2] (n,); NaN below two identities: not "no bias".
    Raises ValueError for another shape or a value that is not finite. Source: CoGS, section 4 (protocols 5.4).
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or not np.all(np.isfinite(values)):
        raise ValueError(f"differences must be finite and one-dimensional, not {values.shape}")
    return float(values.std()) if len(values) >= 2 else float("nan")


def selection_share(selections: ArrayLike) -> NDArray[np.float64]:
    """p_i = k_i / sum k of counts (..., n_identities); NaN where nothing was selected. Raises ValueError for a negative
    count. Source: CoGS, section 3.2 (protocols 5.5); the release divides by all items, unreadable ones too.
    """
    counts = np.asarray(selections, dtype=np.float64)
    if np.any(counts < 0):
        raise ValueError("a count of selections is negative")
    total = counts.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, counts / total, np.nan)


def affinity_bias_score(shares: ArrayLike) -> NDArray[np.float64]:
    """ABS = population SD (n, not n - 1) of shares (..., n_identities); NaN below two identities or for a NaN share.
    Source: CoGS, section 3.2 (protocols 5.5). At most sqrt(n - 1) / n; |p_1 - 0.5| for two.
    """
    values = np.asarray(shares, dtype=np.float64)
    return values.std(axis=-1) if values.shape[-1] >= 2 else np.full(values.shape[:-1], np.nan)


# Two prompts: their answers' distance beyond the distance among answers to one prompt.


def distance_excess(original: ArrayLike, swapped: ArrayLike) -> float:
    """Mean d(o_i, s_j) - d(o_1, o_2) / 2 - d(s_1, s_2) / 2 in [-1, 2], d the cosine distance; both (2, dim) embeddings.
    Unbiased for |m_o - m_s|^2 / 2, m the sides' mean unit vectors, however diverse a side is; so never clip it. Raises
    ValueError for another shape or a row without direction. Source: energy distance (Szekely & Rizzo 2013,
    doi:10.1016/j.jspi.2013.03.018); the cosine distance is half a squared Euclidean one.
    """
    o, s = np.asarray(original, dtype=np.float64), np.asarray(swapped, dtype=np.float64)
    if o.shape != s.shape or o.ndim != 2 or len(o) != 2:
        raise ValueError(f"two embeddings a side are needed, not shapes {o.shape} and {s.shape}")
    across = cosine_distance(o[:, None, :], s[None, :, :]).mean()
    within = cosine_distance(o[0], o[1]) + cosine_distance(s[0], s[1])
    return float(across - within / 2)


def signed_difference(original: float, swapped: float) -> float:
    """(original - swapped) / (original + swapped) of amounts >= 0 (else ValueError); NaN where both are 0."""
    if original < 0 or swapped < 0:
        raise ValueError(f"amounts {original} and {swapped} must not be negative")
    total = original + swapped
    return (original - swapped) / total if total else float("nan")


def excess_of_each(original: ArrayLike, swapped: ArrayLike) -> NDArray[np.float64]:
    """(m,) contribution of each swapped answer to the excess of `original` (n, dim) and `swapped` (m, dim), which is
    its mean: its mean distance to the other side, less half that to the others of its own and half that within the
    other side. Raises ValueError below two rows a side. Source: U-statistic of `distance_excess`.
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
