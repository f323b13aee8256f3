"""Counts replies by cluster and says which were left out: the results of every suite are formed from this."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auditors.metrics.suite_scores import percentage
from auditors.types import Status
from benchmarks.suites.common.counted import Share
from benchmarks.suites.common.estimation import CHANCE, Cell
from benchmarks.suites.common.observations import items_of
from benchmarks.suites.protocol import Choice, Item, Observation

Sums = NDArray[np.float64]
"""(..., k) whatever is counted, by the suite's own columns."""

NO_REPLY = "no reply arrived"
UNREAD: tuple[Status, ...] = ("unrelated", "refusal", "malformed")
"""Statuses of a reply that arrived and gives no answer."""


def cluster_of(item: Item) -> str:
    return item.cluster


def cluster_sums(
    observations: Iterable[Observation],
    n_fields: int,
    count: Callable[[Observation], ArrayLike],
    label: Callable[[Item], str] = cluster_of,
) -> tuple[tuple[str, ...], Sums]:
    """Return sorted labels and the (n_clusters, n_fields) sums of `count` over their replies; errors add nothing."""
    sums_by_label: dict[str, Sums] = {}
    for observation in observations:
        name = label(observation.item)
        if name not in sums_by_label:
            sums_by_label[name] = np.zeros(n_fields)
        if observation.reply.status != "error":
            sums_by_label[name] += np.asarray(count(observation))
    labels = sorted(sums_by_label)
    return tuple(labels), np.array([sums_by_label[name] for name in labels]).reshape(-1, n_fields)


def left_out(observations: Iterable[Observation], *statuses: Status) -> dict[str, int]:
    """Replies of each of `statuses`; those that do not occur are not named."""
    counts_by_status = Counter(observation.reply.status for observation in observations)
    return {status: counts_by_status[status] for status in statuses if counts_by_status[status]}


def unit(observations: Sequence[Observation], name: str) -> str:
    """Return what a cluster is, for the reader: "item" if every item is its own, else `name`."""
    return "item" if all(item.cluster == item.item_id for item in items_of(observations)) else name


def chance_level(observations: Sequence[Observation], is_right: Callable[[Item, Choice], bool]) -> dict[str, float]:
    """Return, for `extra`, the percentage that random choices get right; empty for items without options."""
    right = [[is_right(item, choice) for choice in item.choices] for item in items_of(observations)]
    shares = [sum(options) / len(options) for options in right if options]
    return {CHANCE: 100 * sum(shares) / len(shares)} if shares else {}


def rate(cell: Callable[..., Cell], metric: str, sums: Sums) -> Cell:
    """Return a rate next to the scores. `sums`: (n_clusters, 2) replies of the kind, and all replies that arrived."""
    return cell(
        metric=metric,
        sums=sums,
        statistic=part_of_whole,
        n=round(float(sums[:, 1].sum())),
        undefined=NO_REPLY,
        counted=Share(sums[:, 0], sums[:, 1]),
        is_secondary=True,
    )


def part_of_whole(sums: Sums) -> Sums:
    return percentage(sums[..., 0], sums[..., 1])
