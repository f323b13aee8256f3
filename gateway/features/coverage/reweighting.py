"""The headline number of a finished run with its questions weighted as the traffic that resembles them, by clusters of
prompts (cells): a number about the suite's questions, and not how the model answers users.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.bootstrap import N_RESAMPLES, expanded_tail, is_one_value
from auditors.metrics.spread import Spread
from auditors.types import Estimate
from benchmarks.suites.common.estimation import MAX_UNDEFINED_SHARE, MIN_CLUSTERS, SAME_VALUE, Cell
from benchmarks.suites.protocol import Item
from gateway.features.coverage.figures import CONFIDENCE_LEVEL, Reweighted
from gateway.features.coverage.resemblance import Floats, nearest
from gateway.features.coverage.traffic import FEWEST_UNITS, Compared, Traffic, effective

_NUMBERS_AT_ONCE = 4_000_000


def reweighted(
    cell: Cell,
    items: Sequence[Item],
    run: str,
    model: str,
    own: Estimate,
    traffic: Traffic,
    compared: Compared,
    threshold: float,
    *,
    seed: int = 0,
) -> Reweighted:
    """Return the reweighted number; not assessable, with the reason, where too little traffic or too few clusters bear
    it. Questions count that resemble a prompt, in the cell of the nearest; a question's weight is its cell's share of
    the traffic that resembles the suite over the items there. The interval resamples draws of the traffic, clusters of
    the suite and the levels that these share, at once. `cell`: the number with sums by cluster; `own`: the number as
    the run has it; `threshold`: cosine from which texts resemble each other.
    """
    covered = compared.cosines >= threshold
    by_unit = _by_unit(traffic, covered)
    in_cells = _in_cells(traffic, compared, threshold)
    n_items = Counter(
        item.cluster for item in items if cell.axis in (None, item.axis) and cell.subset in (None, item.subset)
    )
    rows = [row for row, name in enumerate(cell.clusters) if name in in_cells and n_items[name]]
    shares = np.array([in_cells[cell.clusters[row]] for row in rows]).reshape(len(rows), by_unit.shape[1])
    sizes = np.array([float(n_items[cell.clusters[row]]) for row in rows])
    weights = _weights(by_unit.sum(axis=0), shares, sizes)[0]
    heavy = weights * sizes
    is_spoken_for = (shares.sum(axis=0) > 0)[traffic.clusters] & covered
    n_units = len(np.unique(traffic.units[is_spoken_for]))
    represents = float(traffic.weights[is_spoken_for].sum() / traffic.weights.sum())

    def result(value: float | None, ends: tuple[float, float] | None, reason: str | None) -> Reweighted:
        lower, upper = (None, None) if ends is None else ends
        return Reweighted(
            run=run,
            suite=compared.asked.suite,
            model=model,
            **cell.key._asdict(),
            suite_value=own.value,
            suite_lower=own.lower,
            suite_upper=own.upper,
            value=value,
            lower=lower,
            upper=upper,
            represents=represents,
            n=int(is_spoken_for.sum()),
            n_units=n_units,
            n_clusters=int((heavy > 0).sum()),
            n_effective_clusters=effective(heavy),
            reason=reason,
        )

    if cell.not_assessable is not None:
        return result(None, None, f"not assessable: {cell.not_assessable}")
    if isinstance(cell.statistic, Spread):
        return result(None, None, f"not assessable: {cell.metric} is a spread over groups, which takes no weights")
    if not any(name in in_cells or name in n_items for name in cell.clusters):
        return result(None, None, f"not assessable: {cell.metric} is not formed by clusters of items")
    n_effective = effective(by_unit[:, shares.sum(axis=0) > 0].sum(axis=1))
    if n_effective < FEWEST_UNITS - 1e-9:
        reason = f"not assessable: the prompts that resemble its questions are worth {n_effective:.1f} draws"
        return result(None, None, f"{reason}; {FEWEST_UNITS} are needed")
    if effective(heavy) < MIN_CLUSTERS - 1e-9:
        reason = f"not assessable: its questions near to the traffic are worth {effective(heavy):.1f} clusters"
        return result(None, None, f"{reason}; {MIN_CLUSTERS} are needed")
    sums = cell.sums[rows]
    value = float(cell.statistic(weights @ sums))
    if np.isnan(value):
        return result(None, None, cell.undefined)
    levels = [np.unique(factor[rows], return_inverse=True)[1] for factor in cell.factors.values()]
    rng = np.random.default_rng([seed, *run.encode()])
    drawn = np.asarray(cell.statistic(_resampled(by_unit, shares, sizes, sums, levels, rng)))
    defined = drawn[~np.isnan(drawn)]
    if len(defined) < (1 - MAX_UNDEFINED_SHARE) * len(drawn):
        reason = f"not assessable: undefined in {len(drawn) - len(defined)} of {len(drawn)} resamples"
        return result(None, None, reason)
    if is_one_value(defined):
        return result(value, None, SAME_VALUE)
    tail = 100 * expanded_tail(min(len(rows), len(by_unit)), CONFIDENCE_LEVEL)
    lower, upper = np.percentile(defined, [tail, 100 - tail])
    return result(value, (min(float(lower), value), max(float(upper), value)), None)


def _by_unit(traffic: Traffic, covered: NDArray[np.bool_]) -> Floats:
    """(n_units, n_cells) weight of each draw that resembles the suite, in each cell."""
    _, codes = np.unique(traffic.units[covered], return_inverse=True)
    sums = np.zeros((int(codes.max()) + 1 if len(codes) else 0, len(traffic.centres)))
    np.add.at(sums, (codes, traffic.clusters[covered]), traffic.weights[covered])
    return sums


def _in_cells(traffic: Traffic, compared: Compared, threshold: float) -> Mapping[str, Floats]:
    """Returns, by cluster of the suite, the share of its compared questions that is in each cell of the traffic."""
    cosines, indices = nearest(compared.vectors, traffic.vectors)
    share_by_cluster: dict[str, Floats] = {}
    n = Counter(question.cluster for question in compared.asked.chosen)
    for question, cosine, index in zip(compared.asked.chosen, cosines, indices, strict=True):
        own = share_by_cluster.setdefault(question.cluster, np.zeros(len(traffic.centres)))
        if cosine >= threshold:
            own[traffic.clusters[index]] += 1 / n[question.cluster]
    return share_by_cluster


def _weights(of_cells: Floats, shares: Floats, sizes: Floats) -> Floats:
    """Return (..., n_clusters), a reply's weight, from (..., n_cells), (n_clusters, n_cells), (..., n_clusters)."""
    of_cells, sizes = np.atleast_2d(of_cells), np.atleast_2d(sizes)
    in_cell = sizes @ shares
    a_piece = np.divide(of_cells, in_cell, out=np.zeros_like(in_cell), where=in_cell > 0)
    return np.asarray(a_piece @ shares.T)


def _resampled(
    by_unit: Floats,
    shares: Floats,
    sizes: Floats,
    sums: Floats,
    levels: Sequence[NDArray[np.intp]],
    rng: np.random.Generator,
) -> Floats:
    """(N_RESAMPLES, k) weighted sums, of as many draws and clusters as there are, drawn with replacement."""
    n_units, n_clusters = len(by_unit), len(sums)
    resampled = np.empty((N_RESAMPLES, sums.shape[1]))
    step = max(1, _NUMBERS_AT_ONCE // max(n_units, n_clusters))
    for start in range(0, N_RESAMPLES, step):
        size = min(step, N_RESAMPLES - start)
        of_cells = _counts(n_units, size, rng) @ by_unit
        counts = _counts(n_clusters, size, rng)
        for level in levels:
            counts *= _counts(int(level.max()) + 1, size, rng)[:, level]
        resampled[start : start + size] = (counts * _weights(of_cells, shares, counts * sizes)) @ sums
    return resampled


def _counts(n: int, size: int, rng: np.random.Generator) -> Floats:
    return rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
