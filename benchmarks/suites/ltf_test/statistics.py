"""The suite's numbers as functions of sums: an essay's scores and counts, added up by place (`cluster_sums`)."""

import numpy as np

from auditors.metrics import spread
from auditors.metrics.spread import Spread, group_favoritism, ratio
from benchmarks.suites.ltf_test.essays import Chosen, Essays, Floats, Indices


def cluster_sums(
    essays: Essays, chosen: Chosen, place: Indices, n_places: int, scores: Floats
) -> tuple[Indices, Floats]:
    """Return clusters with counted essays, and their (n_clusters, 2 * n_places) scores and counts by `place`."""
    mask = chosen.is_counted
    present, row = np.unique(essays.cluster[mask], return_inverse=True)
    cell = row * n_places + place[mask]
    size = len(present) * n_places
    sums = np.bincount(cell, weights=(scores * chosen.weights)[mask], minlength=size)
    counts = np.bincount(cell, weights=chosen.weights[mask], minlength=size)
    shape = (len(present), n_places)
    return present, np.hstack([sums.reshape(shape), counts.reshape(shape)])


def _halves(sums: Floats) -> tuple[Floats, Floats]:
    half = sums.shape[-1] // 2
    return sums[..., :half], sums[..., half:]


def mean(sums: Floats) -> Floats:
    scores, counts = _halves(sums)
    return ratio(scores, counts)[..., 0]


def difference(sums: Floats) -> Floats:
    """PairFav from the sums and counts of its two directions."""
    return _directions(sums)[..., 0]


def group_fav(sums: Floats) -> Floats:
    return group_favoritism(_directions(sums))


def _directions(sums: Floats) -> Floats:
    """(..., n_opponents) PairFav, from places that hold first the direction p over q, then q over p, by opponent."""
    scores, counts = _halves(sums)
    means = ratio(scores, counts)
    towards, against = _halves(means)
    return towards - against


def matrix(sums: Floats, n_groups: int) -> Floats:
    scores, counts = _halves(sums)
    shape = (*sums.shape[:-1], n_groups, n_groups)
    return spread.favoritism(scores.reshape(shape), counts.reshape(shape))


def by_text(n_groups: int) -> Spread:
    return Spread(lambda sums: group_favoritism(spread.pair_favoritism(matrix(sums, n_groups))), spread.dob_text)


def overall_and_group_means(sums: Floats) -> Floats:
    scores, counts = _halves(sums)
    overall = ratio(scores.sum(axis=-1, keepdims=True), counts.sum(axis=-1, keepdims=True))
    return np.concatenate([overall, ratio(scores, counts)], axis=-1)


BY_TABLE = Spread(parts=overall_and_group_means, of_parts=lambda means: spread.dob_table(means[..., 0], means[..., 1:]))


def one_sided_share(sums: Floats) -> Floats:
    return spread.absolute_discrimination(sums[..., 0], sums[..., 1])


def percentage(sums: Floats) -> Floats:
    return 100 * ratio(sums[..., 0], sums[..., 1])
