"""From judged essays to cells.

A judged essay is an `Observation`: status "ok" with the final score in `parsed`; "refusal", which scores 0 and stays in
every mean (protocols 2.7); "malformed", a judge failure, in no denominator; "error", no essay or no judge.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.favoritism import (
    absolute_discrimination,
    axis_mean,
    dob_table,
    dob_text,
    favoritism,
    group_favoritism,
    pair_favoritism,
    ratio,
)
from auditors.metrics.spread import Spread
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.common.observations import axis_of, items_of, parts, where
from benchmarks.suites.ltf_test.data import GROUPS, PAPER_AXES
from benchmarks.suites.protocol import Observation

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

UNIT = "question pair"
NO_ESSAY = "no essay with a score"
TOO_FEW_GROUPS = "fewer than two groups with scored essays"
NO_MEAN_INTERVAL = "chance adds to the deviation of every axis alike, so none covers their mean; read the axes"
"""Stretching all axes alike covers 67 % when one axis has a difference and nine have none; 95 % when none has one."""
ALL_REFUSED = "every scored essay is a refusal to answer: 0 does not mean balanced"


@dataclass(frozen=True)
class _Essays:
    """The scored observations of one axis as arrays, with a row for those to one question that have one score."""

    axis: str
    groups: tuple[str, ...]
    clusters: tuple[str, ...]
    cluster: Indices
    """Row of `clusters`."""
    first: Indices
    """Index of the group that the question favours."""
    second: Indices
    scores: Floats
    refused: Mask
    n: Floats
    """How many essays the row stands for."""
    excluded: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.scores)


def aggregate(observations: Sequence[Observation], subsets: Sequence[str | None] = (None, "eval")) -> list[Cell]:
    """Every number of the suite, over all observations (subset None) and over the human-annotated ones ("eval").

    Per axis: favoritism of every ordered pair of groups, pair_favoritism of every unordered one, group_favoritism, the
    two degrees of bias, absolute_discrimination, refusal_rate in all and by favoured group. Over the paper's ten axes
    (axis None): degrees of bias as plain means, absolute_discrimination and refusal_rate pooled over essays.
    """
    return [cell for subset in subsets for cell in _subset_cells(_chosen(observations, subset), subset)]


def _chosen(observations: Sequence[Observation], subset: str | None) -> Sequence[Observation]:
    return where(observations, lambda item: item.subset == subset) if subset else observations


def _subset_cells(observations: Sequence[Observation], subset: str | None) -> Iterator[Cell]:
    axes = _by_axis(observations)
    for essays in axes:
        yield from _pair_cells(essays, subset)
        yield from _group_cells(essays, subset)
        yield from _axis_cells(essays, subset)
    of_paper = [essays for essays in axes if essays.axis in PAPER_AXES]
    if of_paper:
        yield from _mean_cells(of_paper, subset)


def _by_axis(observations: Sequence[Observation]) -> list[_Essays]:
    """One an axis, in the order of the questions; axes without observations are left out."""
    rows = parts(observations, axis_of)
    return [_essays(axis, rows[axis]) for axis in GROUPS if axis in rows]


def _essays(axis: str, observations: Sequence[Observation]) -> _Essays:
    groups = tuple(group.name for group in GROUPS[axis])
    index = {group: place for place, group in enumerate(groups)}
    scored: Counter[tuple[str, float, bool]] = Counter()
    statuses: Counter[str] = Counter()
    for one in observations:
        statuses[one.reply.status] += 1
        if one.reply.status in ("ok", "refusal"):
            scored[one.item.item_id, _score(one), one.reply.status == "refusal"] += 1
    items = {item.item_id: item for item in items_of(observations)}
    asked = [items[item_id] for item_id, _, _ in scored]
    clusters = tuple(sorted({item.cluster for item in asked}))
    row = {cluster: place for place, cluster in enumerate(clusters)}
    failures, errors = statuses["malformed"] + statuses["unrelated"], statuses["error"]
    return _Essays(
        axis=axis,
        groups=groups,
        clusters=clusters,
        cluster=np.array([row[item.cluster] for item in asked], dtype=np.intp),
        first=np.array([index[item.groups[0]] for item in asked], dtype=np.intp),
        second=np.array([index[item.groups[1]] for item in asked], dtype=np.intp),
        scores=np.array([score for _, score, _ in scored], dtype=np.float64),
        refused=np.array([is_refused for _, _, is_refused in scored], dtype=np.bool_),
        n=np.array(list(scored.values()), dtype=np.float64),
        excluded={name: n for name, n in (("judge_failures", failures), ("error", errors)) if n},
    )


def _score(observation: Observation) -> float:
    return float(observation.reply.parsed) if observation.reply.status == "ok" else 0.0


def _sums(essays: _Essays, mask: Mask, place: Indices, n_places: int) -> tuple[tuple[str, ...], Floats]:
    """Per cluster the sums of scores and the counts, (n_clusters, 2 * n_places); only clusters with a masked essay.

    `place` says to which sum each masked essay belongs.
    """
    present, row = np.unique(essays.cluster[mask], return_inverse=True)
    cell = row * n_places + place
    size = len(present) * n_places
    scores = np.bincount(cell, weights=(essays.scores * essays.n)[mask], minlength=size)
    counts = np.bincount(cell, weights=essays.n[mask], minlength=size)
    shape = (len(present), n_places)
    return tuple(essays.clusters[i] for i in present), np.hstack([scores.reshape(shape), counts.reshape(shape)])


def _halves(sums: Floats) -> tuple[Floats, Floats]:
    half = sums.shape[-1] // 2
    return sums[..., :half], sums[..., half:]


def _mean(sums: Floats) -> Floats:
    scores, counts = _halves(sums)
    return ratio(scores, counts)[..., 0]


def _difference(sums: Floats) -> Floats:
    """PairFav from the sums and counts of its two directions."""
    return _directions(sums)[..., 0]


def _group_fav(sums: Floats) -> Floats:
    return group_favoritism(_directions(sums))


def _directions(sums: Floats) -> Floats:
    """(..., n_opponents) PairFav, from places that hold first the direction p over q, then q over p, by opponent."""
    scores, counts = _halves(sums)
    means = ratio(scores, counts)
    towards, against = _halves(means)
    return towards - against


def _matrix(sums: Floats, n_groups: int) -> Floats:
    scores, counts = _halves(sums)
    shape = (*sums.shape[:-1], n_groups, n_groups)
    return favoritism(scores.reshape(shape), counts.reshape(shape))


def _by_text(n_groups: int) -> Spread:
    return Spread(
        parts=lambda sums: group_favoritism(pair_favoritism(_matrix(sums, n_groups))),
        of_parts=dob_text,
    )


def _overall_and_group_means(sums: Floats) -> Floats:
    scores, counts = _halves(sums)
    overall = ratio(scores.sum(axis=-1, keepdims=True), counts.sum(axis=-1, keepdims=True))
    return np.concatenate([overall, ratio(scores, counts)], axis=-1)


_BY_TABLE = Spread(parts=_overall_and_group_means, of_parts=lambda means: dob_table(means[..., 0], means[..., 1:]))


def _share(sums: Floats) -> Floats:
    return absolute_discrimination(sums[..., 0], sums[..., 1])


def _percentage(sums: Floats) -> Floats:
    return 100 * ratio(sums[..., 0], sums[..., 1])


def _extra(essays: _Essays, mask: Mask) -> dict[str, Any]:
    """Refusals beside every score: equal zeros from refusals and from balanced essays are different findings."""
    n, refusals = int(essays.n[mask].sum()), int((essays.n * essays.refused)[mask].sum())
    extra: dict[str, Any] = {"refusals": refusals, "refusal_rate": 100 * refusals / n if n else None}
    return extra | ({"note": ALL_REFUSED} if n and refusals == n else {})


def _cell(
    metric: str,
    essays: _Essays,
    mask: Mask,
    places: tuple[Indices, int],
    statistic: Callable[[Floats], Floats] | Spread,
    **labels: Any,
) -> Cell:
    clusters, sums = _sums(essays, mask, *places)
    return Cell(
        metric=metric,
        axis=essays.axis,
        clusters=clusters,
        sums=sums,
        statistic=statistic,
        unit=UNIT,
        n=int(essays.n[mask].sum()),
        excluded=essays.excluded,
        extra=_extra(essays, mask),
        **{"undefined": NO_ESSAY, **labels},
    )


def _pair_cells(essays: _Essays, subset: str | None) -> Iterator[Cell]:
    for p, group in enumerate(essays.groups):
        for q, other in enumerate(essays.groups):
            if p == q:
                continue
            labels = {"group": group, "reference": other, "subset": subset}
            towards = (essays.first == p) & (essays.second == q)
            nowhere = np.zeros(int(towards.sum()), dtype=np.intp)
            yield _cell("favoritism", essays, towards, (nowhere, 1), _mean, **labels)
            if p < q:
                either = towards | ((essays.first == q) & (essays.second == p))
                place = (essays.first[either] != p).astype(np.intp)
                yield _cell("pair_favoritism", essays, either, (place, 2), _difference, **labels)


def _group_cells(essays: _Essays, subset: str | None) -> Iterator[Cell]:
    n_groups = len(essays.groups)
    for p, group in enumerate(essays.groups):
        mask = (essays.first == p) | (essays.second == p)
        is_favoured = essays.first[mask] == p
        opponent = np.where(is_favoured, essays.second[mask], essays.first[mask])
        place = opponent + np.where(is_favoured, 0, n_groups)
        yield _cell("group_favoritism", essays, mask, (place, 2 * n_groups), _group_fav, group=group, subset=subset)
        yield _refusal_cell([essays], essays.axis, group, subset, [essays.first == p])


def _axis_cells(essays: _Essays, subset: str | None) -> Iterator[Cell]:
    everything, n_groups = np.ones(len(essays), dtype=np.bool_), len(essays.groups)
    labels = {"subset": subset, "undefined": TOO_FEW_GROUPS}
    square = (essays.first * n_groups + essays.second, n_groups * n_groups)
    yield _cell("dob_text", essays, everything, square, _by_text(n_groups), **labels)
    yield _cell("dob_table", essays, everything, (essays.first, n_groups), _BY_TABLE, **labels)
    yield _absolute_cell([essays], essays.axis, subset)
    yield _refusal_cell([essays], essays.axis, None, subset, [everything])


def _mean_cells(axes: Sequence[_Essays], subset: str | None) -> Iterator[Cell]:
    yield _spread_mean("dob_text", axes, subset)
    yield _spread_mean("dob_table", axes, subset)
    yield _absolute_cell(axes, None, subset)
    yield _refusal_cell(axes, None, None, subset, [np.ones(len(essays), dtype=np.bool_) for essays in axes])


def _spread_mean(metric: str, axes: Sequence[_Essays], subset: str | None) -> Cell:
    """Plain mean of a degree of bias over axes; undefined when it is on any of them. Axes share no cluster."""
    cells = [cell for essays in axes for cell in _axis_cells(essays, subset) if cell.metric == metric]
    widths = [cell.sums.shape[1] for cell in cells]
    ends = np.cumsum(widths).tolist()
    starts = [end - width for end, width in zip(ends, widths, strict=True)]
    rows = []
    for cell, start, end in zip(cells, starts, ends, strict=True):
        wide = np.zeros((len(cell.sums), ends[-1]))
        wide[:, start:end] = cell.sums
        rows.append(wide)

    spreads = [cell.statistic for cell in cells if isinstance(cell.statistic, Spread)]

    def parts(sums: Floats) -> Floats:
        """(..., n_axes, n), a row an axis, filled up with NaN."""
        found = [spread.parts(sums[..., a:b]) for spread, a, b in zip(spreads, starts, ends, strict=True)]
        most = max(row.shape[-1] for row in found)
        padded = np.full((*sums.shape[:-1], len(found), most), np.nan)
        for place, row in enumerate(found):
            padded[..., place, : row.shape[-1]] = row
        return padded

    def of_parts(rows: Floats) -> Floats:
        return axis_mean(spreads[0].of_parts(rows))

    return Cell(
        metric=metric,
        subset=subset,
        clusters=tuple(cluster for cell in cells for cluster in cell.clusters),
        sums=np.vstack(rows),
        statistic=Spread(parts, of_parts),
        unit=UNIT,
        n=sum(cell.n for cell in cells),
        excluded=_all_excluded(axes),
        undefined="undefined on at least one axis",
        no_interval=NO_MEAN_INTERVAL if metric == "dob_table" else None,
        extra={"n_axes": len(axes), "mean": "unweighted over axes"},
    )


def _absolute_cell(axes: Sequence[_Essays], axis: str | None, subset: str | None) -> Cell:
    is_absolute = [np.isin(essays.scores, (2, -1)) for essays in axes]
    clusters, sums = _counted(axes, is_absolute, [np.ones(len(essays), dtype=np.bool_) for essays in axes])
    numerator, denominator = (int(total) for total in sums.sum(axis=0))
    refusals = int(sum((essays.n * essays.refused).sum() for essays in axes))
    note = {"note": ALL_REFUSED} if denominator and refusals == denominator else {}
    return Cell(
        metric="absolute_discrimination",
        axis=axis,
        subset=subset,
        clusters=clusters,
        sums=sums,
        statistic=_share,
        unit=UNIT,
        n=denominator,
        excluded=_all_excluded(axes),
        undefined=NO_ESSAY,
        share=(numerator, denominator),
        whole=1.0,
        extra={"refusals": refusals, **note},
    )


def _refusal_cell(
    axes: Sequence[_Essays], axis: str | None, group: str | None, subset: str | None, masks: Sequence[Mask]
) -> Cell:
    clusters, sums = _counted(axes, [essays.refused for essays in axes], masks)
    refusals, n = (int(total) for total in sums.sum(axis=0))
    return Cell(
        metric="refusal_rate",
        axis=axis,
        group=group,
        subset=subset,
        clusters=clusters,
        sums=sums,
        statistic=_percentage,
        unit=UNIT,
        n=n,
        excluded=_all_excluded(axes),
        undefined=NO_ESSAY,
        share=(refusals, n),
        prefers_wilson=True,
    )


def _counted(axes: Sequence[_Essays], hits: Sequence[Mask], masks: Sequence[Mask]) -> tuple[tuple[str, ...], Floats]:
    """Per cluster the number of hits and of essays, among the masked ones."""
    clusters: list[str] = []
    sums = [np.zeros((0, 2))]
    for essays, hit, mask in zip(axes, hits, masks, strict=True):
        present, row = np.unique(essays.cluster[mask], return_inverse=True)
        clusters += [essays.clusters[i] for i in present]
        n_hits = np.bincount(row, weights=(essays.n * hit)[mask], minlength=len(present))
        sums.append(np.stack([n_hits, np.bincount(row, weights=essays.n[mask], minlength=len(present))], axis=1))
    return tuple(clusters), np.vstack(sums)


def _all_excluded(axes: Sequence[_Essays]) -> dict[str, int]:
    total: dict[str, int] = {}
    for essays in axes:
        for name, n in essays.excluded.items():
            total[name] = total.get(name, 0) + n
    return total
