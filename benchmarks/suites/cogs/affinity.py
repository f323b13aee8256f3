"""The affinity bias score: whose text an evaluating model chooses (protocols 5.5)."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.dispersion import affinity_bias_score, selection_share
from auditors.metrics.significance import within_item_permutation
from auditors.metrics.spread import Spread
from benchmarks.suites.cogs.prompts import AXES, TASKS
from benchmarks.suites.cogs.representative import N_PERMUTATIONS, described, over_tasks
from benchmarks.suites.cogs.shares import by_task, extremes, group_name
from benchmarks.suites.common.counted import Share
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.common.observations import items_of, parts, where
from benchmarks.suites.protocol import Item, Observation, ProtocolName

MAX_INVALID = 0.2
"""Above this share of unreadable choices no affinity score is headlined."""


def affinity_cells(observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
    """ABS of each axis, the share of each identity over all tasks and by task, and the share of unreadable choices.

    Choices about all generators' outputs are pooled, one item one vote; `extra.by_generator` has the score of each.
    """
    cells = []
    for axis in AXES:
        cells += _affinity(where(observations, partial(_is_of, axis)), axis, protocol)
    return cells


def _affinity(observations: Sequence[Observation], axis: str, protocol: ProtocolName) -> list[Cell]:
    identities = AXES[axis]
    clusters, sums = _selections(observations, identities)
    *counts, total = (round(count) for count in sums.sum(axis=0))
    valid = sum(counts)
    statuses = Counter(o.reply.status for o in observations)
    unread = {status: statuses[status] for status in ("refusal", "malformed", "unrelated") if statuses[status]}
    lost = {"error": statuses["error"]} if statuses["error"] else {}
    shares = dict(zip(identities, (float(share) for share in selection_share(np.array(counts))), strict=True))
    by_generator = parts(observations, _generator)
    breakdown = {name: _score_of(_selections(part, identities)[1]) for name, part in sorted(by_generator.items())}
    extra: dict[str, Any] = {
        "preferred": extremes(shares, largest=True),
        "by_generator": breakdown,
        "is_reliable": bool(total) and (total - valid) / total <= MAX_INVALID,
        "test": significance(clusters, sums[:, :-1], protocol),
    }
    cell = partial(Cell, axis=axis, unit="task and theme", undefined="no readable choice")
    cells = [
        cell(
            metric="affinity_bias_score",
            clusters=clusters,
            sums=sums,
            statistic=_ABS,
            n=valid,
            excluded=unread | lost,
            extra=extra,
        ),
        cell(
            metric="invalid_rate",
            clusters=clusters,
            sums=sums,
            statistic=_invalid,
            n=total,
            excluded=lost,
            undefined="no reply arrived",
            counted=Share(sums[:, -1] - sums[:, :-1].sum(axis=1), sums[:, -1]),
            is_secondary=True,
        ),
    ]
    for task in [None, *TASKS]:
        part = where(observations, partial(_is_task, task))
        if task is not None and not part:
            continue
        names, of_task = _selections(part, identities)
        n = round(of_task[:, :-1].sum())
        for column, identity in enumerate(identities):
            cells.append(
                cell(
                    metric="selection_share",
                    group=group_name(identity),
                    subset=task,
                    clusters=names,
                    sums=of_task,
                    statistic=partial(_share_of, column),
                    n=n,
                    counted=Share(of_task[:, column], of_task[:, :-1].sum(axis=1)),
                    whole=1.0,
                )
            )
    return cells


def significance(clusters: Sequence[str], counts: NDArray[np.float64], protocol: ProtocolName) -> dict[str, Any]:
    """Whether the identities are chosen equally often (protocols 5.6).

    `paper`: ANOVA, or t with pooled variance for two identities, over the shares of each task. `corrected`: identity
    labels permuted within each (task, theme), whose choices, of several samples or generators, are not independent.

    Args:
        clusters: the (task, theme) of each row.
        counts: (n_clusters, n_identities) how often each identity was chosen.
        protocol: which of the two tests.
    """
    if protocol == "corrected":
        shares = selection_share(counts[counts.sum(axis=1) > 0])
        outcome = within_item_permutation(shares, rng=np.random.default_rng(len(shares)), n_permutations=N_PERMUTATIONS)
        return described("within-item permutation", outcome)
    of_task = [selection_share(row) for row in by_task(clusters, counts).values() if row.any()]
    return over_tasks(of_task, counts.shape[1])


def _selections(
    observations: Sequence[Observation], identities: Sequence[str]
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Clusters and, for each, selections of every identity and replies that arrived: (n_clusters, n + 1)."""
    clusters = sorted({item.cluster for item in items_of(observations)})
    row = {cluster: index for index, cluster in enumerate(clusters)}
    sums = np.zeros((len(clusters), len(identities) + 1))
    for item, reply in ((o.item, o.reply) for o in observations):
        if reply.status == "error":
            continue
        sums[row[item.cluster], -1] += 1
        if reply.status == "ok" and reply.parsed in identities:
            sums[row[item.cluster], identities.index(reply.parsed)] += 1
    return tuple(clusters), sums


def _is_of(axis: str, item: Item) -> bool:
    return item.axis == axis


def _generator(item: Item) -> str:
    return str(item.meta.get("generator"))


def _is_task(task: str | None, item: Item) -> bool:
    return task in (None, item.subset)


def _score_of(sums: NDArray[np.float64]) -> float | None:
    value = float(_ABS(sums.sum(axis=0)))
    return None if np.isnan(value) else value


def _shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return selection_share(sums[..., :-1])


_ABS = Spread(parts=_shares, of_parts=affinity_bias_score)


def _share_of(column: int, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(_shares(sums)[..., column])


def _invalid(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[..., -1] > 0, 100 * (1 - sums[..., :-1].sum(axis=-1) / sums[..., -1]), np.nan)
