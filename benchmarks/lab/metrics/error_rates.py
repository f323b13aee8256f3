"""A judge's error rates against people, and shares of judgements corrected for them (Rogan and Gladen): each group by
the rates of its own labels, as leniency about a group makes a difference of its own. Judgements of an exchange are a
cluster: a difference takes the correlation of two groups, in labels and in what was judged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from auditors.metrics.clustered import ClusteredShare, clustered_share, joined_length
from auditors.metrics.intervals import CorrectedShare, Interval, KnownRates, KnownShare, corrected_share
from benchmarks.lab.metrics.agreement import FEWEST_CLUSTERS, grouped, too_few

Floats = NDArray[np.float64]

LEVEL = 0.95
LEAST_LABELS = 30
"""Fewer correct no share."""


@dataclass(frozen=True)
class Rate:
    """A share of judgements that a judge gets right; without a value or an interval `reason` says why."""

    n: int
    """Judgements of the rate's kind."""
    n_clusters: int
    """Clusters that have any."""
    value: float | None
    interval: Interval | None
    reason: str | None
    clustered: ClusteredShare | None
    """Clustered share that a correction needs; None without an interval."""


_NO_RATE = Rate(0, 0, None, None, "no label of this kind", None)


@dataclass(frozen=True)
class ErrorRates:
    """A judge against people, over judgements that are above a threshold or not."""

    sensitivity: Rate
    """Share of the judgements above the threshold by people that the judge puts above it too."""
    specificity: Rate
    """Share of the judgements not above the threshold by people that the judge does not put above it either."""


def error_rates(
    people: Sequence[bool] | NDArray[np.bool_],
    judge: Sequence[bool] | NDArray[np.bool_],
    clusters: ArrayLike | None = None,
) -> ErrorRates:
    """Sensitivity and specificity with Wilson's intervals (`clustered_share`), for a kind in FEWEST_CLUSTERS clusters
    or more. `people`, `judge`: (n,) above the threshold; `clusters`: (n,), None all differ. ValueError: unequal.
    """
    positive, judged = np.asarray(people, dtype=bool), np.asarray(judge, dtype=bool)
    if positive.shape != judged.shape:
        raise ValueError(f"each judgement has both: {positive.size} and {judged.size} differ in number")
    labels = np.arange(len(positive)) if clusters is None else clusters
    return _rates_of(positive, judged, np.ones(len(positive), dtype=bool), labels)


def _rates_of(
    positive: NDArray[np.bool_], judged: NDArray[np.bool_], used: NDArray[np.bool_], clusters: ArrayLike
) -> ErrorRates:
    columns = [used & positive & judged, used & positive, used & ~positive & ~judged, used & ~positive]
    sums = grouped(np.stack(columns, axis=1).astype(np.float64), clusters)
    return ErrorRates(_rate(sums[:, 0], sums[:, 1]), _rate(sums[:, 2], sums[:, 3]))


def rogan_gladen(n_positive: int, n: int, rates: ErrorRates) -> CorrectedShare:
    """Share in [0, 1] above a threshold, corrected (`corrected_share`) by `rates` of labels from other traffic, assumed
    the same in both; no value where `known_rates` has a reason. `n_positive` of `n` independent, unlabelled judgements.
    ValueError: an impossible count.
    """
    if not 0 <= n_positive <= n or n < 1:
        raise ValueError(f"a share needs 0 <= positive <= n and an n of 1 or more, not {n_positive} of {n}")
    judged = KnownShare(value=n_positive / n, effective_n=n)
    return corrected_share(judged, known_rates(rates), confidence_level=LEVEL)


def known_rates(rates: ErrorRates) -> KnownRates:
    """The rates for a correction; only a reason for few labels, no interval, or maybe no better than chance."""
    se, sp = rates.sensitivity, rates.specificity
    counted = KnownRates(n_positive=se.n, n_negative=sp.n)
    if se.value is None or sp.value is None or se.n + sp.n < LEAST_LABELS:
        few = f"{se.n + sp.n} labels, {se.n} of them positive and {sp.n} negative: {LEAST_LABELS} or more are needed"
        return msgspec.structs.replace(counted, reason=f"{few}, of both kinds")
    if se.interval is None or sp.interval is None or se.clustered is None or sp.clustered is None:
        kind, least = min((("positive", se.n_clusters), ("negative", sp.n_clusters)), key=lambda pair: pair[1])
        return msgspec.structs.replace(counted, reason=f"{kind} labels of {least} clusters are too few")
    if se.interval.lower + sp.interval.lower <= 1.0:
        reason = f"the judge may be no better than chance: sensitivity {se.value:.2f}, specificity {sp.value:.2f} "
        return msgspec.structs.replace(counted, reason=f"{reason}over {se.n + sp.n} labels")
    return msgspec.structs.replace(
        counted,
        sensitivity=known_share(se.clustered),
        specificity=known_share(sp.clustered),
        covariance=_covariance(se.clustered.deviations, sp.clustered.deviations),
    )


def known_share(share: ClusteredShare) -> KnownShare:
    degrees = None if math.isinf(share.degrees) else share.degrees
    return KnownShare(value=share.share, effective_n=share.effective_n, degrees=degrees)


def _rate(right: Floats, of: Floats) -> Rate:
    n, n_clusters = int(of.sum()), int((of > 0).sum())
    if not n:
        return _NO_RATE
    value = float(right.sum() / n)
    share = clustered_share(right, of) if n_clusters >= FEWEST_CLUSTERS else None
    if share is None:
        return Rate(n, n_clusters, value, None, too_few(n_clusters), None)
    return Rate(n, n_clusters, value, share.interval(LEVEL), None, share)


def _covariance(a: Floats, b: Floats) -> float:
    return float((a * b).sum()) * len(a) / (len(a) - 1)


NOT_LABELLED = "no label is about this group"


class Labelled(NamedTuple):
    """Judgements that people have labelled; each (n,)."""

    people: Sequence[bool] | NDArray[np.bool_]
    """True for each judgement that people put above the threshold."""
    judge: Sequence[bool] | NDArray[np.bool_]
    groups: Sequence[str]
    clusters: ArrayLike


class Judged(NamedTuple):
    """Other judgements, which the judge alone has scored; each (n,)."""

    judge: Sequence[bool] | NDArray[np.bool_]
    groups: Sequence[str]
    clusters: ArrayLike


@dataclass(frozen=True)
class GroupShare:
    """One group's share of judgements above the threshold."""

    group: str
    n: int
    n_clusters: int
    judged: float
    judged_interval: Interval | None
    """Interval of the judge's share; None with too few clusters."""
    rates: ErrorRates | None
    """Error rates by which it is corrected; None without a label."""
    corrected: CorrectedShare
    moves: tuple[Floats, Floats] | None
    """Moves of the corrected share by each cluster of labels, and of exchanges; None without a share."""


def shares_by_group(labelled: Labelled, judged: Judged) -> dict[str, GroupShare]:
    """Each group judged, by name, corrected by its labels' rates; a share without a corrected value says why."""
    people, judge = np.asarray(labelled.people, dtype=bool), np.asarray(labelled.judge, dtype=bool)
    labelled_names = np.asarray(labelled.groups)
    # Rates of each group by itself, whose deviations are of the same clusters in the same order.
    rates = {
        str(name): _rates_of(people, judge, labelled_names == name, labelled.clusters)
        for name in np.unique(labelled_names)
    }
    positive, names = np.asarray(judged.judge, dtype=bool), np.asarray(judged.groups)
    shares = {}
    for name in map(str, np.unique(names)):
        of = names == name
        sums = grouped(np.stack([of & positive, of], axis=1).astype(np.float64), judged.clusters)
        shares[name] = _share(name, sums, rates.get(name))
    return shares


def share_difference(a: GroupShare, b: GroupShare) -> CorrectedShare:
    """The corrected share of `a` less that of `b`, in [-1, 1], both from one call of `shares_by_group`. Source: Zou &
    Donner 2008, doi:10.1002/sim.3095 (distances to the ends added as squares); the linearised correlation is ours.
    """
    for group_share in (a, b):
        if group_share.corrected.value is None or group_share.corrected.interval is None or group_share.moves is None:
            return CorrectedShare(None, None, f"{group_share.group}: {group_share.corrected.reason}")
    first, first_below, first_above = _ends(a)
    second, second_below, second_above = _ends(b)
    spread = math.sqrt(_share_covariance(a, a) * _share_covariance(b, b))
    r = min(1.0, max(-1.0, _share_covariance(a, b) / spread)) if spread > 0 else 0.0
    value = first - second
    below, above = joined_length(first_below, second_above, r), joined_length(first_above, second_below, r)
    return CorrectedShare(value, Interval(max(-1.0, value - below), min(1.0, value + above)))


def _ends(group_share: GroupShare) -> tuple[float, float, float]:
    value, interval, _ = group_share.corrected
    if value is None or interval is None:
        raise ValueError(f"{group_share.group} has no corrected share")
    return value, max(0.0, value - interval.lower), max(0.0, interval.upper - value)


def _share(name: str, sums: Floats, rates: ErrorRates | None) -> GroupShare:
    n, n_clusters = int(sums[:, 1].sum()), int((sums[:, 1] > 0).sum())
    share = clustered_share(sums[:, 0], sums[:, 1]) if n_clusters >= FEWEST_CLUSTERS else None
    moves = None
    if rates is None:
        corrected = CorrectedShare(None, None, NOT_LABELLED)
    elif share is None:
        corrected = CorrectedShare(None, None, f"judged: {too_few(n_clusters)}")
    else:
        corrected = corrected_share(known_share(share), known_rates(rates), confidence_level=LEVEL)
        moves = _moves(share, rates, corrected)
    return GroupShare(
        group=name,
        n=n,
        n_clusters=n_clusters,
        judged=float(sums[:, 0].sum()) / n,
        judged_interval=None if share is None else share.interval(LEVEL),
        rates=rates,
        corrected=corrected,
        moves=moves,
    )


def _moves(judged: ClusteredShare, rates: ErrorRates, corrected: CorrectedShare) -> tuple[Floats, Floats] | None:
    """Return the first-order moves of the share: d share = (d q - share d se + (1 - share) d sp) / (se + sp - 1)."""
    se, sp = rates.sensitivity.clustered, rates.specificity.clustered
    if corrected.value is None or se is None or sp is None:
        return None
    youden, share = se.share + sp.share - 1.0, corrected.value
    return ((1.0 - share) * sp.deviations - share * se.deviations) / youden, judged.deviations / youden


def _share_covariance(a: GroupShare, b: GroupShare) -> float:
    return sum(_covariance(move, other) for move, other in zip(a.moves or (), b.moves or (), strict=True))
