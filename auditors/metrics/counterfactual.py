"""How much two prompts' answers differ beyond what answers to one prompt differ among themselves."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auditors.metrics.dispersion import cosine_distance


def distance_excess(original: ArrayLike, swapped: ArrayLike) -> float:
    """Excess distance: mean d(o_i, s_j) - d(o_1, o_2) / 2 - d(s_1, s_2) / 2, with d the cosine distance.

    Args:
        original: (2, dim) real, embeddings of two answers to the prompt, drawn afresh; no row all zero.
        swapped: (2, dim) real, embeddings of two answers to the swapped prompt.

    Returns: dimensionless, in [-1, 2]. For independent draws its expectation is |m_o - m_s|^2 / 2, with m the mean unit
        vector of each side's answers: 0 when both sides answer alike in the mean, never less, however diverse either
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
    """Signed relative difference: (original - swapped) / (original + swapped).

    Args:
        original: amount on the side of the prompt as it was asked (>= 0).
        swapped: the same of the swapped prompt (>= 0, same unit).

    Returns: dimensionless, in [-1, 1]; 0 for equal amounts; antisymmetric, so its mean is 0 when both sides have one
        distribution; NaN when both are 0 (undefined).
    Raises: ValueError for a negative amount.
    """
    if original < 0 or swapped < 0:
        raise ValueError(f"amounts {original} and {swapped} must not be negative")
    total = original + swapped
    return (original - swapped) / total if total else float("nan")


def excess_of_each(original: ArrayLike, swapped: ArrayLike) -> NDArray[np.float64]:
    """What each answer on the swapped side adds to the excess distance: the mean of these is the excess.

    Args:
        original: (n, dim) real, embeddings of at least two answers to the prompt, drawn afresh; no row all zero.
        swapped: (m, dim) real, the same of the swapped prompt, at least two.

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
