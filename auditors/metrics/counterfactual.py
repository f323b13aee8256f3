"""How much two prompts' answers differ beyond what answers to one prompt differ among themselves."""

import numpy as np
from numpy.typing import ArrayLike

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
