"""Shares of judgements by group, each corrected by a judge's error rates about that group, and their differences.

A judge that is lenient about one group makes a difference of its own. So each group's share is corrected by the error
rates of its own labels (Rogan and Gladen), never by those of all groups together. Groups of one exchange are judged
together, so what is uncertain in two groups hangs together: a difference takes the correlation of both, between the
clusters of the labels and between those of what was judged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auditors.metrics.agreement import grouped
from auditors.metrics.agreement_intervals import FEWEST_CLUSTERS, too_few
from auditors.metrics.clustered import ClusteredShare, clustered_share
from auditors.metrics.error_rates import ErrorRates, error_rates_by_group, known_rates, known_share
from auditors.metrics.intervals import Interval
from auditors.metrics.rogan_gladen import CorrectedShare, corrected_share

Floats = NDArray[np.float64]
NOT_LABELLED = "no label is about this group"


class Labelled(NamedTuple):
    """Judgements that people have labelled; each (n,)."""

    people: Sequence[bool] | NDArray[np.bool_]
    """Whether people put it above the threshold."""
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
    """By the judge."""
    judged_interval: Interval | None
    """None with too few clusters."""
    rates: ErrorRates | None
    """By which it is corrected; None without a label."""
    corrected: CorrectedShare
    moves: tuple[Floats, Floats] | None
    """What each cluster of the labels, and of what was judged, moves the corrected share by; None without one."""


def shares_by_group(labelled: Labelled, judged: Judged, *, confidence_level: float = 0.95) -> dict[str, GroupShare]:
    """Each group that was judged, by name.

    Args:
        labelled: from which error rates are taken.
        judged: whose shares are corrected; none of them labelled.
        confidence_level: two-sided, in (0, 1).

    Returns: a share without a corrected value says why: no labels of its group, too few of a kind, or a judge that may
        be no better than chance about it.
    """
    rates = error_rates_by_group(*labelled, confidence_level=confidence_level) if len(labelled.groups) else {}
    said, names = np.asarray(judged.judge, dtype=bool), np.asarray(judged.groups)
    found = {}
    for name in map(str, np.unique(names)):
        of = names == name
        sums = grouped(np.stack([of & said, of], axis=1).astype(np.float64), judged.clusters)
        found[name] = _share(name, sums, rates.get(name), confidence_level)
    return found


def share_difference(a: GroupShare, b: GroupShare) -> CorrectedShare:
    """The corrected share of `a` less that of `b`, both from one call of `shares_by_group`.

    Returns: in [-1, 1]; the distances of either share to the ends of its own interval are added as squares, with the
        correlation of both between clusters.
    Source: Zou & Donner 2008, doi:10.1002/sim.3095. That the correlation is the linearised one of clusters is ours.
    """
    for one in (a, b):
        if one.corrected.value is None or one.corrected.interval is None or one.moves is None:
            return CorrectedShare(None, None, f"{one.group}: {one.corrected.reason}")
    first, second = _ends(a), _ends(b)
    r = _correlation(a, b)
    value = first.value - second.value
    below = _joined(first.below, second.above, r)
    above = _joined(first.above, second.below, r)
    return CorrectedShare(value, Interval(max(-1.0, value - below), min(1.0, value + above)))


class _Ends(NamedTuple):
    value: float
    below: float
    """Distance to the lower end."""
    above: float


def _ends(one: GroupShare) -> _Ends:
    value, interval, _ = one.corrected
    if value is None or interval is None:
        raise ValueError(f"{one.group} has no corrected share")
    return _Ends(value, max(0.0, value - interval.lower), max(0.0, interval.upper - value))


def _share(name: str, sums: Floats, rates: ErrorRates | None, confidence_level: float) -> GroupShare:
    n, n_clusters = int(sums[:, 1].sum()), int((sums[:, 1] > 0).sum())
    found = clustered_share(sums[:, 0], sums[:, 1]) if n_clusters >= FEWEST_CLUSTERS else None
    moves = None
    if rates is None:
        corrected = CorrectedShare(None, None, NOT_LABELLED)
    elif found is None:
        corrected = CorrectedShare(None, None, f"judged: {too_few(n_clusters)}")
    else:
        corrected = corrected_share(known_share(found), known_rates(rates), confidence_level=confidence_level)
        moves = _moves(found, rates, corrected)
    return GroupShare(
        group=name,
        n=n,
        n_clusters=n_clusters,
        judged=float(sums[:, 0].sum()) / n,
        judged_interval=None if found is None else found.interval(confidence_level),
        rates=rates,
        corrected=corrected,
        moves=moves,
    )


def _moves(judged: ClusteredShare, rates: ErrorRates, corrected: CorrectedShare) -> tuple[Floats, Floats] | None:
    """To first order: d share = (d q - share d se + (1 - share) d sp) / (se + sp - 1)."""
    se, sp = rates.sensitivity.clustered, rates.specificity.clustered
    if corrected.value is None or se is None or sp is None:
        return None
    youden, share = se.share + sp.share - 1.0, corrected.value
    return ((1.0 - share) * sp.deviations - share * se.deviations) / youden, judged.deviations / youden


def _correlation(a: GroupShare, b: GroupShare) -> float:
    spread = math.sqrt(_covariance(a, a) * _covariance(b, b))
    return min(1.0, max(-1.0, _covariance(a, b) / spread)) if spread > 0 else 0.0


def _covariance(a: GroupShare, b: GroupShare) -> float:
    pairs = zip(a.moves or (), b.moves or (), strict=True)
    return sum(float((one * other).sum()) * len(one) / (len(one) - 1) for one, other in pairs)


def _joined(a: float, b: float, correlation: float) -> float:
    """Length of a difference of two distances with this correlation."""
    return math.sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b))
