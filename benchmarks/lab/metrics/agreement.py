"""Agreement of raters on items: exact agreement, Cohen's and Fleiss' kappa, Krippendorff's alpha, and their intervals.
Each coefficient is 1 - D_o / D_e, disagreement observed over expected by chance, and undefined where D_e is 0 (all
ratings one value). Sums of items make it, so items can be resampled: in whole clusters, e.g. all groups of an exchange.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auditors.metrics.bootstrap import N_RESAMPLES, Statistic, cluster_bootstrap
from auditors.metrics.clustered import FEWEST_TELLING, clustered_share
from auditors.metrics.intervals import Agreement, Interval
from auditors.metrics.spread import ratio

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

Level = Literal["nominal", "ordinal", "interval"]
"""Difference of ratings: nominal 1, ordinal the squared number of ratings between, interval the squared difference."""

Disagreements = Callable[[Floats], tuple[Floats, Floats]]
"""Sums (..., k) to D_o and D_e, each (...); neither of them negative, D_e NaN without ratings."""

MOST_VALUES = 20
"""Different values that a coefficient of categories takes; what has more is measured, at level "interval"."""
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Ratings:
    """Ratings of items by any number of raters, one after the other, in any order; a missing one is not there."""

    values: Floats
    """(n_ratings,) finite."""
    items: Indices
    """(n_ratings,) 0 or more: the item that each is of."""

    def __post_init__(self) -> None:
        if self.values.shape != self.items.shape or self.values.ndim != 1:
            raise ValueError(f"each rating has one item: shapes {self.values.shape} and {self.items.shape}")
        if not np.all(np.isfinite(self.values)):
            raise ValueError("ratings must be finite; leave out those that are missing")

    @classmethod
    def of_table(cls, table: ArrayLike) -> Self:
        """Make ratings from (n_items, n_raters) numbers, NaN for an item that a rater has not rated."""
        cells = np.asarray(table, dtype=np.float64)
        items, raters = np.nonzero(~np.isnan(cells))
        return cls(cells[items, raters], items)

    @property
    def pairable(self) -> Self:
        """Return the ratings of items with two or more; a single rating agrees or disagrees with nothing."""
        if not len(self.items):
            return self
        is_pairable = np.bincount(self.items)[self.items] >= 2
        return type(self)(self.values[is_pairable], self.items[is_pairable])

    def of_items(self, mask: NDArray[np.bool_]) -> Self:
        """Return the ratings of the items where the (n_items,) mask is true, under the items' own numbers."""
        return type(self)(self.values[mask[self.items]], self.items[mask[self.items]])


@dataclass(frozen=True)
class AgreeingPairs:
    """Number of pairs of raters that gave the same value, for each item."""

    agreeing: Floats
    """(n_items,)"""
    pairs: Floats
    """(n_items,) at least 1."""
    items: Indices
    """(n_items,) which they are."""

    @property
    def share(self) -> float:
        """Exact agreement in [0, 1]; NaN without a pair."""
        total = float(self.pairs.sum())
        return float(self.agreeing.sum()) / total if total else float("nan")


@dataclass(frozen=True)
class Coefficient:
    """A chance-corrected coefficient of agreement: at most 1; 0 = as much as by chance, negative = less."""

    name: str
    sums: Floats
    """(n_items, k)"""
    pairs: AgreeingPairs
    """Pairs of the items in the rows: those with two ratings or more."""
    disagreements: Disagreements
    differing: float
    """Probability that two of all the ratings, drawn by chance, differ."""

    @property
    def value(self) -> float:
        """NaN without items, or where all ratings are one value."""
        return float(self.of(self.sums.sum(axis=0)))

    def of(self, sums: Floats) -> Floats:
        """(...) from sums over items (..., k)."""
        return np.asarray(1 - ratio(*self.disagreements(sums)))


def agreeing_pairs(ratings: Ratings) -> AgreeingPairs:
    """Return exact agreement: the share of pairs of raters of an item that gave the same value (protocols 2.11)."""
    pairable = ratings.pairable
    items, row = np.unique(pairable.items, return_inverse=True)
    sizes = np.bincount(row, minlength=len(items)).astype(np.float64)
    return AgreeingPairs(_same(pairable.values, row, len(items)) / 2, sizes * (sizes - 1) / 2, items)


def cohen_kappa(first: ArrayLike, second: ArrayLike) -> Coefficient:
    """Cohen's kappa, 1 - (1 - p_o) / (1 - p_e), p_e from each rater's own shares, over the items both rated. `first`,
    `second`: (n_items,) values, NaN where missing. Raises ValueError for another shape or more than MOST_VALUES values.
    Source: Cohen 1960, doi:10.1177/001316446002000104; use: protocols 2.11. Deviation: none.
    """
    first_ratings, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if first_ratings.shape != other.shape or first_ratings.ndim != 1:
        raise ValueError(
            f"both raters need the same items: {first_ratings.size} and {other.size} ratings differ in number"
        )
    items = np.flatnonzero(~(np.isnan(first_ratings) | np.isnan(other)))
    values, codes = _coded(np.concatenate([first_ratings[items], other[items]]))
    k, n = len(values), len(items)
    sums = np.zeros((n, k * k))
    sums[np.arange(n), codes[:n] * k + codes[n:]] = 1.0
    equal = (codes[:n] == codes[n:]).astype(np.float64)
    return Coefficient("Cohen's kappa", sums, AgreeingPairs(equal, np.ones(n), items), _cohen, _differing(codes))


def fleiss_kappa(ratings: ArrayLike, items: ArrayLike | None = None) -> Coefficient:
    """Fleiss' kappa, (mean P_i - P_e) / (1 - P_e), with P_i = (sum_j n_ij^2 - r) / (r (r - 1)); undefined for r < 2.
    `ratings`: (n_items, n_categories) counts n_ij of raters who gave item i category j, each row with the sum r;
    `items`: (n_items,) their numbers, None 0, 1, 2... Raises ValueError for another shape, a negative count, or unequal
    sums. Source: Fleiss 1971, doi:10.1037/h0031619. With two raters it is Scott's pi.
    """
    counts = np.asarray(ratings, dtype=np.float64)
    if counts.ndim != 2 or np.any(counts < 0):
        raise ValueError(f"ratings must be counts of shape (n_items, n_categories), not {counts.shape}")
    raters = counts.sum(axis=1)
    if len(set(raters.tolist())) > 1:
        raise ValueError("every item needs the same number of raters")
    if len(counts) and raters[0] < 2:
        counts, raters = counts[:0], raters[:0]
    disagreeing = (raters**2 - np.sum(counts**2, axis=1)) / (raters * (raters - 1))
    sums = np.concatenate([disagreeing[:, None], np.ones((len(counts), 1)), counts], axis=1)
    _, by_chance = _fleiss(sums.sum(axis=0))
    numbers = np.arange(len(counts)) if items is None else np.asarray(items, dtype=np.intp)[: len(counts)]
    pairs = AgreeingPairs(np.sum(counts * (counts - 1), axis=1) / 2, raters * (raters - 1) / 2, numbers)
    return Coefficient("Fleiss' kappa", sums, pairs, _fleiss, float(by_chance))


def counts_of(ratings: Ratings) -> tuple[Floats, Indices]:
    """Counts (n_items, n_categories), item numbers (n_items,), of items rated twice or more; ValueError as `_coded`."""
    pairable = ratings.pairable
    values, codes = _coded(pairable.values)
    items, row = np.unique(pairable.items, return_inverse=True)
    counts = np.bincount(row * len(values) + codes, minlength=len(items) * len(values))
    return counts.reshape(len(items), len(values)).astype(np.float64), items


def krippendorff_alpha(ratings: Ratings, level: Level) -> Coefficient:
    """Krippendorff's alpha: 1 - D_o / D_e for any number of raters, where ratings may be missing; an item of m ratings
    counts m, of a single rating 0. Raises ValueError for more than MOST_VALUES values, but for level "interval".
    Source: Krippendorff 2011, https://repository.upenn.edu/asc_papers/43. Deviation: none.
    """
    pairable = ratings.pairable
    items, row = np.unique(pairable.items, return_inverse=True)
    sizes = np.bincount(row, minlength=len(items)).astype(np.float64)
    name, differing, pairs = f"alpha ({level})", _differing(pairable.values), agreeing_pairs(pairable)
    if level == "interval":
        return Coefficient(name, _moments(pairable.values, row, sizes), pairs, _interval, differing)
    counts, _ = counts_of(pairable)
    if level == "nominal":
        disagreeing = (sizes**2 - np.sum(counts**2, axis=1)) / (sizes - 1)
        return Coefficient(name, np.concatenate([disagreeing[:, None], counts], axis=1), pairs, _nominal, differing)
    coincidences = counts[:, :, None] * counts[:, None, :]
    diagonal = np.arange(counts.shape[1])
    coincidences[:, diagonal, diagonal] -= counts
    coincidences /= (sizes - 1)[:, None, None]
    return Coefficient(name, coincidences.reshape(len(items), counts.shape[1] ** 2), pairs, _ordinal, differing)


def stratified(strata: Sequence[object], coefficient_of: Callable[[NDArray[np.bool_]], Coefficient]) -> Coefficient:
    """Pool a coefficient over items that offer different options: 1 - sum_s n_s D_o,s / sum_s n_s D_e,s, n_s ratings in
    stratum s. Random choices among what is offered have 0; one D_e of all items would call them agreement. `strata`:
    (n_items,) what an item offers, e.g. its axis; `coefficient_of`: of the items of a (n_items,) mask, under their own
    numbers. Source: our own; others: Barlow, Lai and Azen 1991, doi:10.1002/sim.4780100913.
    """
    names, codes = np.unique([str(stratum) for stratum in strata], return_inverse=True)
    parts = [coefficient_of(codes == code) for code in range(max(1, len(names)))]
    if len(parts) == 1:
        return parts[0]
    sizes = [(1 + np.sqrt(1 + 8 * part.pairs.pairs)) / 2 for part in parts]  # ratings an item, from its pairs
    widths = [part.sums.shape[1] + 1 for part in parts]
    ends = np.cumsum(widths)
    sums = np.zeros((sum(len(part.pairs.items) for part in parts), int(ends[-1])))
    row = 0
    for part, size, end, width in zip(parts, sizes, ends, widths, strict=True):
        rows = slice(row, row := row + len(part.pairs.items))
        sums[rows, end - width : end - 1], sums[rows, end - 1] = part.sums, size

    def disagreements(pooled: Floats) -> tuple[Floats, Floats]:
        observed, by_chance = np.zeros(pooled.shape[:-1]), np.zeros(pooled.shape[:-1])
        for part, end, width in zip(parts, ends, widths, strict=True):
            n = pooled[..., end - 1]
            of_part = part.disagreements(pooled[..., end - width : end - 1])
            observed += np.where(n > 0, n * of_part[0], 0.0)
            by_chance += np.where(n > 0, n * of_part[1], 0.0)
        return observed, by_chance

    pairs = AgreeingPairs(
        np.concatenate([part.pairs.agreeing for part in parts]),
        np.concatenate([part.pairs.pairs for part in parts]),
        np.concatenate([part.pairs.items for part in parts]),
    )
    n_ratings = np.array([size.sum() for size in sizes])
    differing = [0.0 if n == 0 else n * part.differing for n, part in zip(n_ratings, parts, strict=True)]
    return Coefficient(parts[0].name, sums, pairs, disagreements, sum(differing) / max(1.0, n_ratings.sum()))


def _cohen(sums: Floats) -> tuple[Floats, Floats]:
    table = _square(sums)
    n = table.sum(axis=(-2, -1))
    observed = n - np.trace(table, axis1=-2, axis2=-1)
    by_chance = n * n - (table.sum(axis=-2) * table.sum(axis=-1)).sum(axis=-1)
    return ratio(observed, n), ratio(by_chance, n * n)


def _fleiss(sums: Floats) -> tuple[Floats, Floats]:
    counts, n = sums[..., 2:], sums[..., 1]
    total = counts.sum(axis=-1)
    return ratio(sums[..., 0], n), ratio(total * total - (counts**2).sum(axis=-1), total * total)


def _nominal(sums: Floats) -> tuple[Floats, Floats]:
    counts = sums[..., 1:]
    n = counts.sum(axis=-1)
    return ratio(sums[..., 0], n), ratio(n * n - (counts**2).sum(axis=-1), n * (n - 1))


def _ordinal(sums: Floats) -> tuple[Floats, Floats]:
    table = _square(sums)
    counts = table.sum(axis=-1)
    n = counts.sum(axis=-1)
    ranks = np.cumsum(counts, axis=-1) - counts / 2
    apart = (ranks[..., :, None] - ranks[..., None, :]) ** 2
    by_chance = (counts[..., :, None] * counts[..., None, :] * apart).sum(axis=(-2, -1))
    return ratio((table * apart).sum(axis=(-2, -1)), n), ratio(by_chance, n * (n - 1))


def _interval(sums: Floats) -> tuple[Floats, Floats]:
    n, total, squares, within = (sums[..., index] for index in range(4))
    spread = 2 * (n * squares - total * total)
    # The same numbers in another order differ in the last bits.
    spread = np.where(spread <= _ROUNDING * n * squares, 0.0, spread)
    return ratio(within, n), ratio(spread, n * (n - 1))


def _moments(values: Floats, row: Indices, sizes: Floats) -> Floats:
    """(n_items, 4): ratings, their sum and sum of squares, and the sum of (x_i - x_j)^2 / (m - 1) within the item."""
    if not len(values):
        return np.zeros((0, 4))
    centred = values - values[0]
    total, squares = (np.bincount(row, weights=weights) for weights in (centred, centred**2))
    apart = np.bincount(row, weights=(centred - (total / sizes)[row]) ** 2)
    within = np.where(_spans(centred, row, len(sizes)), 2 * sizes * apart / (sizes - 1), 0.0)
    return np.stack([sizes, total, squares, within], axis=1)


def _spans(values: Floats, row: Indices, n_items: int) -> NDArray[np.bool_]:
    low, high = np.full(n_items, np.inf), np.full(n_items, -np.inf)
    np.minimum.at(low, row, values)
    np.maximum.at(high, row, values)
    return np.asarray(high > low)


def _same(values: Floats, row: Indices, n_items: int) -> Floats:
    """Count for each item the ordered pairs of different ratings with the same value; (n_items,)."""
    distinct, codes = np.unique(values, return_inverse=True)
    cells, sizes = np.unique(row * max(1, len(distinct)) + codes, return_counts=True)
    equal = (sizes * (sizes - 1)).astype(np.float64)
    return np.asarray(np.bincount(cells // max(1, len(distinct)), weights=equal, minlength=n_items), dtype=np.float64)


def _differing(values: ArrayLike) -> float:
    _, counts = np.unique(values, return_counts=True)
    return 1.0 - float(np.sum((counts / counts.sum()) ** 2)) if len(counts) else float("nan")


def _coded(values: Floats) -> tuple[Floats, Indices]:
    distinct, codes = np.unique(values, return_inverse=True)
    if len(distinct) > MOST_VALUES:
        raise ValueError(
            f"{len(distinct)} different values are too many for categories: {MOST_VALUES} at most, or level interval"
        )
    return distinct, codes


def _square(sums: Floats) -> Floats:
    k = round(sums.shape[-1] ** 0.5)
    return sums.reshape(*sums.shape[:-1], k, k)


def grouped(sums: Floats, clusters: ArrayLike | Sequence[object]) -> Floats:
    """(n_clusters, k) sums of the rows of each cluster, from (n_items, k)."""
    names, codes = np.unique(np.asarray(clusters), return_inverse=True)
    columns = [np.bincount(codes, weights=column, minlength=len(names)) for column in sums.T]
    return np.stack(columns, axis=1) if columns else np.zeros((len(names), 0))


LEVEL = 0.95
FEWEST_CLUSTERS = 10
"""Fewest clusters with which an interval is given, as in a suite."""
MOST_UNDEFINED = 0.05
"""Share of resamples that may be undefined."""
NO_ITEMS = "no item has two ratings"
ONE_VALUE = "all ratings are the same: agreement cannot be told from chance"


def exact_agreement(pairs: AgreeingPairs, clusters: ArrayLike | Sequence[object] | None = None) -> Agreement:
    """Share of agreeing pairs, with Wilson's interval (`clustered_share`). `clusters`: (n,); None: all differ."""
    name, n = "exact agreement", len(pairs.items)
    if not n:
        return Agreement(name, None, None, 0, 0, NO_ITEMS)
    sums = grouped(np.stack([pairs.agreeing, pairs.pairs], axis=1), _of(pairs.items, clusters))
    if len(sums) < FEWEST_CLUSTERS:
        return Agreement(name, pairs.share, None, n, len(sums), too_few(len(sums)))
    share = clustered_share(sums[:, 0], sums[:, 1])
    interval = None if share is None else share.interval(LEVEL)
    return Agreement(name, pairs.share, interval, n, len(sums))


def agreeing_share(equal: ArrayLike, clusters: ArrayLike | Sequence[object] | None) -> Agreement:
    """Return the share of items that are True, as `exact_agreement`; `clusters`: number or name of each item's."""
    values = np.array(equal, dtype=np.float64)
    return exact_agreement(AgreeingPairs(values, np.ones(len(values)), np.arange(len(values))), clusters)


def chance_corrected(
    coefficient: Coefficient, clusters: ArrayLike | None = None, *, rng: np.random.Generator
) -> Agreement:
    """A coefficient with the expanded percentile interval of `cluster_bootstrap` (see there; `clusters` as in
    `exact_agreement`). No interval with fewer than FEWEST_CLUSTERS clusters, or with the coefficient undefined in more
    than MOST_UNDEFINED of the resamples: the rest are no fair sample.
    Our own rule: with fewer than FEWEST_TELLING clusters in which raters disagree, resampling sees too little. Each end
    p of the interval of exact agreement becomes 1 - c (1 - p), c such that the share observed becomes the coefficient;
    without disagreement c is 1 over the probability that two ratings differ by chance.
    """
    n = len(coefficient.pairs.items)
    sums = grouped(coefficient.sums, _of(coefficient.pairs.items, clusters))
    value = coefficient.value
    if math.isnan(value):
        return Agreement(coefficient.name, None, None, n, len(sums), ONE_VALUE if n else NO_ITEMS)
    if len(sums) < FEWEST_CLUSTERS:
        return Agreement(coefficient.name, value, None, n, len(sums), too_few(len(sums)))
    resampled = cluster_bootstrap(sums, coefficient.of, rng=rng, confidence_level=LEVEL)
    if resampled.n_undefined > MOST_UNDEFINED * N_RESAMPLES:
        share = 100 * resampled.n_undefined / N_RESAMPLES
        reason = f"undefined in {share:.0f} % of resamples: nearly all ratings are the same"
        return Agreement(coefficient.name, value, None, n, len(sums), reason)
    pairs = coefficient.pairs
    disagreeing = grouped((pairs.pairs - pairs.agreeing)[:, None], _of(pairs.items, clusters))
    exact = exact_agreement(pairs, clusters).interval
    if np.count_nonzero(disagreeing) < FEWEST_TELLING and exact is not None:
        share = 1 - pairs.share
        each = (1 - value) / share if share > 0 else 1 / coefficient.differing
        interval = Interval(max(-1.0, 1 - each * (1 - exact.lower)), 1 - each * (1 - exact.upper))
        return Agreement(coefficient.name, value, interval, n, len(sums))
    return Agreement(coefficient.name, value, resampled.interval, n, len(sums))


def bootstrap_interval(
    rows: Floats, differ: Floats, statistic: Statistic, on_which: str, rng: np.random.Generator
) -> tuple[Interval | None, str | None]:
    """An interval by resampling clusters, or why there is none. `differ`: (n_clusters,), not 0 where sides differ."""
    if len(rows) < FEWEST_CLUSTERS:
        return None, too_few(len(rows))
    if np.count_nonzero(differ) < FEWEST_TELLING:
        return None, f"fewer than {FEWEST_TELLING} {on_which}"
    return cluster_bootstrap(rows, statistic, rng=rng).interval, None


def too_few(n_clusters: int) -> str:
    """Return the reason for a missing interval."""
    return f"{n_clusters} cluster{'' if n_clusters == 1 else 's'}, fewer than {FEWEST_CLUSTERS}"


def _of(items: ArrayLike, clusters: ArrayLike | Sequence[object] | None) -> ArrayLike:
    return items if clusters is None else np.asarray(clusters)[np.asarray(items)]


# A judge and people on the same texts.


@dataclass(frozen=True)
class JudgeAgreement:
    """Comparison of a judge with a reference, score by score."""

    labels: tuple[int, ...]
    confusion: NDArray[np.int64]
    """(n_labels, n_labels) counts; row the reference's label, column the judge's."""
    exact: Agreement
    kappa: Agreement

    @property
    def n(self) -> int:
        return int(self.confusion.sum())


def judge_agreement(
    reference: Sequence[int],
    judge: Sequence[int],
    clusters: ArrayLike | None = None,
    *,
    rng: np.random.Generator,
    labels: Sequence[int] = (-1, 0, 1, 2),
    strata: Sequence[object] | None = None,
) -> JudgeAgreement:
    """Compares a judge's labels with a reference's (e.g. people's consensus), judgement by judgement. `clusters`: (n,)
    e.g. the exchange of each judgement; None: all differ. `labels`: all, in order: final scores by default, (0, 1) for
    refusals. `strata`: see `stratified`; None: one. Raises ValueError for sequences of different length or an unknown
    label. Source: Cohen 1960, doi:10.1177/001316446002000104; use: protocols 2.11. Deviation: none.
    """
    unknown = sorted({*reference, *judge} - set(labels))
    if unknown:
        raise ValueError(f"labels must be among {tuple(labels)}, not {unknown[0]}")
    if len(reference) != len(judge):
        raise ValueError(f"a judge is compared text by text: {len(reference)} and {len(judge)} labels differ in number")
    reference_labels, other = np.asarray(reference, dtype=np.float64), np.asarray(judge, dtype=np.float64)
    place = {label: index for index, label in enumerate(labels)}
    rows, columns = ([place[label] for label in sequence] for sequence in (reference, judge))
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (rows, columns), 1)
    kappa = stratified(
        [""] * len(other) if strata is None else strata,
        lambda mask: cohen_kappa(np.where(mask, reference_labels, np.nan), np.where(mask, other, np.nan)),
    )
    return JudgeAgreement(
        tuple(labels),
        confusion,
        agreeing_share(reference_labels == other, clusters),
        chance_corrected(kappa, clusters, rng=rng),
    )
