"""Counts replies by cluster and says which were left out: what the results of every suite are made of."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auditors.metrics.rates import percentage
from auditors.types import Status
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.protocol import Observation

Sums = NDArray[np.float64]
"""(..., k) whatever is counted, by the suite's own columns."""

NO_REPLY = "no reply arrived"
UNREAD: tuple[Status, ...] = ("unrelated", "refusal", "malformed")
"""Statuses of a reply that arrived and gives no answer."""


def cluster_sums(
    observations: Sequence[Observation],
    n_fields: int,
    count: Callable[[Observation], ArrayLike],
    labels: Sequence[str] | None = None,
) -> tuple[tuple[str, ...], Sums]:
    """Cluster labels, sorted, and what the replies of each cluster add up to. Errors are no replies: they add nothing.

    Args:
        observations: of one selection.
        n_fields: numbers per reply.
        count: (n_fields,) what one reply that arrived counts for.
        labels: what to sum by, one per observation; by default the item's cluster.

    Returns: the labels, and (n_clusters, n_fields).
    """
    labels = cluster_labels(observations) if labels is None else labels
    clusters = sorted(set(labels))
    row = {cluster: index for index, cluster in enumerate(clusters)}
    sums = np.zeros((len(clusters), n_fields))
    for observation, label in zip(observations, labels, strict=True):
        if observation.reply.status != "error":
            sums[row[label]] += count(observation)
    return tuple(clusters), sums


def cluster_labels(observations: Sequence[Observation]) -> list[str]:
    return [observation.item.cluster for observation in observations]


def left_out(observations: Sequence[Observation], *statuses: Status) -> dict[str, int]:
    """Replies of each of `statuses`; those that do not occur are not named."""
    found = Counter(observation.reply.status for observation in observations)
    return {status: found[status] for status in statuses if found[status]}


def unit(observations: Sequence[Observation], name: str) -> str:
    """What a cluster is, for the reader: "item" where every item is its own, else `name`."""
    return "item" if all(o.item.cluster == o.item.item_id for o in observations) else name


def rate(cell: Callable[..., Cell], metric: str, sums: Sums) -> Cell:
    """A plain rate beside the scores: percentage of the first of two columns in the second, with Wilson's interval.

    Args:
        cell: makes the cell; knows its clusters, keys, unit and what was left out.
        metric: its name.
        sums: (n_clusters, 2) replies of the kind, and all replies that arrived.
    """
    part, whole = (float(count) for count in sums.sum(axis=0))
    return cell(
        metric=metric,
        sums=sums,
        statistic=part_of_whole,
        n=round(whole),
        undefined=NO_REPLY,
        share=(part, whole),
        prefers_wilson=True,
    )


def part_of_whole(sums: Sums) -> Sums:
    return percentage(sums[..., 0], sums[..., 1])
