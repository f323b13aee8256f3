"""Intervals of agreement: whole clusters of items are drawn again, so what hangs together stays together.

Ratings of one item always stay together; a cluster may be coarser, such as an exchange of which several groups were
judged, or a question that was asked both ways round.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from auditors.metrics.agreement import AgreeingPairs, Coefficient, grouped
from auditors.metrics.bootstrap import N_RESAMPLES, cluster_bootstrap
from auditors.metrics.clustered import FEWEST_TELLING, clustered_share
from auditors.metrics.intervals import Interval

FEWEST_CLUSTERS = 10
"""With fewer there is no interval, as in a suite."""
MOST_UNDEFINED = 0.05
"""Share of resamples that may be undefined."""
NO_ITEMS = "no item has two ratings"
ONE_VALUE = "all ratings are the same: agreement cannot be told from chance"


@dataclass(frozen=True)
class Agreement:
    """One number of agreement; without a value or an interval `reason` says why."""

    name: str
    value: float | None
    interval: Interval | None
    n_items: int
    """Items with two ratings or more."""
    n_clusters: int
    reason: str | None = None


def exact_agreement(
    pairs: AgreeingPairs, clusters: ArrayLike | None = None, *, confidence_level: float = 0.95
) -> Agreement:
    """Share of agreeing pairs, with Wilson's interval on clusters (`clustered_share`).

    Args:
        pairs: of each item.
        clusters: (n,) the cluster of each item, by its number; None: every item is one.
        confidence_level: in (0, 1).
    """
    name, n = "exact agreement", len(pairs.items)
    if not n:
        return Agreement(name, None, None, 0, 0, NO_ITEMS)
    sums = grouped(np.stack([pairs.agreeing, pairs.pairs], axis=1), _of(pairs.items, clusters))
    if len(sums) < FEWEST_CLUSTERS:
        return Agreement(name, pairs.share, None, n, len(sums), too_few(len(sums)))
    found = clustered_share(sums[:, 0], sums[:, 1])
    interval = None if found is None else found.interval(confidence_level)
    return Agreement(name, pairs.share, interval, n, len(sums))


def chance_corrected(
    coefficient: Coefficient,
    clusters: ArrayLike | None = None,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
    confidence_level: float = 0.95,
) -> Agreement:
    """A coefficient with the expanded percentile interval of a cluster bootstrap (`cluster_bootstrap`).

    With fewer than FEWEST_TELLING clusters in which raters disagree, resampling sees too little: raters who agree
    everywhere agree in every resample too. Then each end p of the interval of exact agreement becomes 1 - c (1 - p),
    with c such that what was found becomes the coefficient. Where no disagreement was found, c is 1 over the
    probability that two ratings differ by chance: a disagreement is taken to be as large as those are.

    Args:
        coefficient: made of items.
        clusters: (n,) the cluster of each item, by its number; None: every item is one.
        rng: source of the resamples.
        n_resamples: number of resamples.
        confidence_level: in (0, 1).

    Returns: no interval with fewer than FEWEST_CLUSTERS clusters, or where the coefficient is undefined in more than
        MOST_UNDEFINED of the resamples, since those in which it is defined are then no fair sample.
    Source: see `cluster_bootstrap`. The rule for few disagreements is our own.
    """
    n = len(coefficient.items)
    sums = grouped(coefficient.sums, _of(coefficient.items, clusters))
    value = coefficient.value
    if math.isnan(value):
        return Agreement(coefficient.name, None, None, n, len(sums), ONE_VALUE if n else NO_ITEMS)
    if len(sums) < FEWEST_CLUSTERS:
        return Agreement(coefficient.name, value, None, n, len(sums), too_few(len(sums)))
    found = cluster_bootstrap(sums, coefficient.of, rng=rng, n_resamples=n_resamples, confidence_level=confidence_level)
    if found.n_undefined > MOST_UNDEFINED * n_resamples:
        share = 100 * found.n_undefined / n_resamples
        reason = f"undefined in {share:.0f} % of resamples: nearly all ratings are the same"
        return Agreement(coefficient.name, value, None, n, len(sums), reason)
    pairs = coefficient.pairs
    disagreeing = grouped((pairs.pairs - pairs.agreeing)[:, None], _of(pairs.items, clusters))
    exact = exact_agreement(pairs, clusters, confidence_level=confidence_level).interval
    if np.count_nonzero(disagreeing) < FEWEST_TELLING and exact is not None:
        return Agreement(coefficient.name, value, _through_exact(coefficient, exact), n, len(sums))
    return Agreement(coefficient.name, value, found.interval, n, len(sums))


def too_few(n_clusters: int) -> str:
    """Why there is no interval."""
    return f"{n_clusters} cluster{'' if n_clusters == 1 else 's'}, fewer than {FEWEST_CLUSTERS}"


def _through_exact(coefficient: Coefficient, exact: Interval) -> Interval:
    found = 1 - coefficient.pairs.share
    each = (1 - coefficient.value) / found if found > 0 else 1 / coefficient.differing
    return Interval(max(-1.0, 1 - each * (1 - exact.lower)), 1 - each * (1 - exact.upper))


def _of(items: ArrayLike, clusters: ArrayLike | None) -> ArrayLike:
    return items if clusters is None else np.asarray(clusters)[np.asarray(items)]
