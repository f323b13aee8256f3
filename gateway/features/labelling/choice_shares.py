"""Shares of choices that took each identity's text: corners of a polygon (protocols 5.7).
Choices of a cluster depend on each other, so a share is the mean of the clusters' shares, with Wilson's interval for as
many trials as clusters: wide enough under any dependence.
"""

from collections.abc import Iterable, Mapping

import msgspec

from auditors.labelling.tasks import Task
from auditors.metrics.intervals import Interval, wilson_interval


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One choice between identities."""

    axis: str
    names: tuple[str, ...]
    """Identities that could be chosen, each once."""
    chosen: str
    cluster: str
    """Cluster of things that depend on each other, to which the choice belongs."""


class ChoiceShare(msgspec.Struct, frozen=True, kw_only=True):
    """Share of an identity in the choices that offered it."""

    value: float
    lower: float
    upper: float
    n: int
    n_clusters: int


def choice_of(task: Task, chosen: str) -> Choice:
    """Return the choice of a name in a task."""
    names = tuple(sorted(set(task.origin.key["names"])))
    return Choice(axis=task.origin.axis or "", names=names, chosen=chosen, cluster=task.origin.cluster or task.id)


def choice_shares(choices: Iterable[Choice]) -> Mapping[tuple[str, str], ChoiceShare]:
    """Return each offered identity's share, by (axis, name). Raises ValueError for a choice of what was not offered."""
    by_identity: dict[tuple[str, str], dict[str, list[float]]] = {}
    for choice in choices:
        if choice.chosen not in choice.names:
            raise ValueError(f'"{choice.chosen}" was chosen, but is not one of {", ".join(choice.names)}')
        for name in choice.names:
            by_cluster = by_identity.setdefault((choice.axis, name), {})
            by_cluster.setdefault(choice.cluster, []).append(float(name == choice.chosen))
    return {key: _share(list(by_cluster.values())) for key, by_cluster in sorted(by_identity.items())}


def _share(clusters: list[list[float]]) -> ChoiceShare:
    means = [sum(cluster) / len(cluster) for cluster in clusters]
    value = sum(means) / len(means)
    interval = wilson_interval(sum(means), len(means)) or Interval(0.0, 1.0)
    n = sum(map(len, clusters))
    return ChoiceShare(value=value, lower=interval.lower, upper=interval.upper, n=n, n_clusters=len(clusters))
