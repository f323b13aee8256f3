"""Finds nearest texts, near-duplicates and clusters by cosine; rows are unit vectors, worked on in blocks."""

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Vectors = NDArray[np.float32]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_COSINES_AT_ONCE = 4_000_000
"""Most cosines of a block: 16 MB."""
_RESTARTS = 4
_ROUNDS = 50


def nearest(rows: Vectors, candidates: Vectors) -> tuple[Floats, Indices]:
    """Return for each row (n, dim) cosine and index of the nearest candidate (m, dim), each (n,); else -1 and 0."""
    cosines, indices = np.full(len(rows), -1.0), np.zeros(len(rows), dtype=np.intp)
    if len(candidates) == 0:
        return cosines, indices
    for block in _blocks(len(rows), len(candidates)):
        block_cosines = rows[block] @ candidates.T
        indices[block] = block_cosines.argmax(axis=1)
        cosines[block] = block_cosines[np.arange(len(block_cosines)), indices[block]]
    return cosines, indices


def nearest_outside(rows: Vectors, labels: Indices, candidates: Vectors, other_labels: Indices) -> Floats:
    """Return the cosine of `nearest` among the candidates with another label than the row's; -1 without any."""
    cosines = np.full(len(rows), -1.0)
    if len(candidates) == 0:
        return cosines
    for block in _blocks(len(rows), len(candidates)):
        block_cosines = rows[block] @ candidates.T
        block_cosines[labels[block, None] == other_labels[None, :]] = -1.0
        cosines[block] = block_cosines.max(axis=1)
    return cosines


def units(rows: Vectors, least: float, senders: Sequence[Hashable | None]) -> Indices:
    """Return labels (n,) of draws: near-duplicates share them, and texts of a sender (None: unknown). A row is one of
    the first row before it that is none and has the cosine `least` to it.
    """
    firsts = np.full(len(rows), -1, dtype=np.intp)
    for index in range(len(rows)):
        if firsts[index] < 0:
            firsts[(firsts < 0) & (rows @ rows[index] >= least)] = index
            firsts[index] = index  # whatever rounding says of its own cosine
    by_sender: dict[Hashable, int] = {}
    own = [index if name is None else by_sender.setdefault(name, index) for index, name in enumerate(senders)]
    starts = np.tile(np.arange(len(rows), dtype=np.intp), 2)
    ends = np.concatenate([firsts, np.array(own, dtype=np.intp)])
    graph = coo_array((np.ones(len(starts), dtype=np.int8), (starts, ends)), shape=(len(rows), len(rows)))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)


def spherical_k_means(rows: Vectors, weights: Floats, k: int, *, seed: int) -> tuple[Indices, Vectors]:
    """Clusters rows (n, dim) with weights (n,) above 0 around at most k centres by cosine (Dhillon and Modha 2001,
    doi:10.1023/A:1007612920971), begun as k-means++ (Arthur and Vassilvitskii 2007). Returns labels (n,) from 0 up and
    unit centres (n_clusters, dim).
    """
    rng = np.random.default_rng(seed)
    beginnings = [_beginning(rows, weights, min(k, len(rows)), rng) for _ in range(_RESTARTS)]
    tried = [_settled(rows, weights, centres) for centres in beginnings]
    best, _ = max(tried, key=lambda solution: round(float(weights @ solution[1]), 6))
    _, labels = np.unique(best, return_inverse=True)
    return labels.astype(np.intp), _centres(rows, weights, labels.astype(np.intp), int(labels.max()) + 1)


def weighted_quantile(values: Floats, weights: Floats, share: float) -> float:
    """The smallest value that at least this share of the weight does not exceed; NaN of nothing."""
    if len(values) == 0:
        return math.nan
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    place = int(np.searchsorted(reached, share * reached[-1] - 1e-12 * reached[-1]))
    return float(values[order][min(place, len(values) - 1)])


def _beginning(rows: Vectors, weights: Floats, k: int, rng: np.random.Generator) -> Vectors:
    chosen = [int(rng.choice(len(rows), p=weights / weights.sum()))]
    farness = 1.0 - rows @ rows[chosen[0]]
    for _ in range(k - 1):
        odds = np.maximum(farness, 0.0) * weights
        if odds.sum() <= 1e-9 * weights.sum():  # every row is one of those chosen
            break
        chosen.append(int(rng.choice(len(rows), p=odds / odds.sum())))
        farness = np.minimum(farness, 1.0 - rows @ rows[chosen[-1]])
    return rows[chosen]


def _settled(rows: Vectors, weights: Floats, centres: Vectors) -> tuple[Indices, Floats]:
    cosines, labels = nearest(rows, centres)
    for _ in range(_ROUNDS):
        present, compact = np.unique(labels, return_inverse=True)
        cosines, moved = nearest(rows, _centres(rows, weights, compact.astype(np.intp), len(present)))
        if np.array_equal(moved, compact):
            break
        labels = moved
    return labels, cosines


def _centres(rows: Vectors, weights: Floats, labels: Indices, k: int) -> Vectors:
    sums = np.zeros((k, rows.shape[1]))
    np.add.at(sums, labels, rows * weights[:, None])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return (sums / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def _blocks(n: int, width: int) -> list[slice]:
    step = max(1, _COSINES_AT_ONCE // max(1, width))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
