"""The affinity bias score: whose text an evaluating model chooses (protocols 5.5)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.dispersion import affinity_bias_score, selection_share
from auditors.metrics.spread import Spread
from benchmarks.suites.cogs.prompts import Lists, lists_of
from benchmarks.suites.cogs.representative import UNIT, extremes, group_name, significance
from benchmarks.suites.common.counted import Share
from benchmarks.suites.common.counting import cluster_sums, left_out, rate
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.common.observations import axis_of, parts
from benchmarks.suites.protocol import Observation, ProtocolName

MAX_INVALID = 0.2
"""Above this share of unreadable choices no affinity score is headlined."""


def affinity_cells(observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
    """Return ABS and unreadable choices by axis, shares of identities also by task; generators are pooled."""
    by_axis, lists = parts(observations, axis_of), lists_of(observations)
    return [cell for axis in lists.axes for cell in _affinity(by_axis.get(axis, ()), axis, lists, protocol)]


def _affinity(observations: Sequence[Observation], axis: str, lists: Lists, protocol: ProtocolName) -> list[Cell]:
    identities = lists.axes[axis]
    clusters, sums = _selections(observations, identities)
    *counts, total = (round(count) for count in sums.sum(axis=0))
    valid, invalid = sum(counts), sums[:, -1] - sums[:, :-1].sum(axis=1)
    unread, lost = left_out(observations, "refusal", "malformed", "unrelated"), left_out(observations, "error")
    shares = dict(zip(identities, (float(share) for share in selection_share(np.array(counts))), strict=True))
    by_generator = parts(observations, lambda item: str(item.meta.get("generator")))
    scores = {name: _ABS(_selections(part, identities)[1].sum(axis=0)) for name, part in sorted(by_generator.items())}
    extra: dict[str, Any] = {
        "preferred": extremes(shares, largest=True),
        "by_generator": {name: None if np.isnan(score) else float(score) for name, score in scores.items()},
        "is_reliable": bool(total) and (total - valid) / total <= MAX_INVALID,
        "test": significance(clusters, sums, _shares, protocol),
    }
    cell = partial(Cell, axis=axis, unit=UNIT, undefined="no readable choice")
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
        rate(partial(cell, clusters=clusters, excluded=lost), "invalid_rate", np.stack([invalid, sums[:, -1]], axis=1)),
    ]
    by_task = parts(observations, lambda item: item.subset)
    for task in [None, *lists.tasks]:
        part = observations if task is None else by_task.get(task, ())
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


def _selections(
    observations: Sequence[Observation], identities: Sequence[str]
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Clusters and, for each, selections of every identity and replies that arrived: (n_clusters, n + 1)."""

    def count(observation: Observation) -> list[bool]:
        chosen = observation.reply.parsed if observation.reply.status == "ok" else None
        return [*(chosen == identity for identity in identities), True]

    return cluster_sums(observations, len(identities) + 1, count)


def _shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return selection_share(sums[..., :-1])


_ABS = Spread(parts=_shares, of_parts=affinity_bias_score)


def _share_of(column: int, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(_shares(sums)[..., column])
