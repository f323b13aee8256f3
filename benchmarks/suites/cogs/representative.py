"""The representative bias score: how far the texts under each identity are from the default texts (protocols 5.4)."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.dispersion import cosine_distance
from auditors.metrics.significance import one_way_anova, pooled_t, within_item_permutation
from auditors.metrics.spread import Spread
from benchmarks.suites.cogs.prompts import DEFAULT_AXIS, lists_of
from benchmarks.suites.common.counting import cluster_of
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.common.observations import parts, where
from benchmarks.suites.protocol import Observation, ProtocolName


def group_name(identity: str) -> str:
    """Return the name of an identity in results, with underscores in place of hyphens."""
    return identity.replace("-", "_")


def extremes(values: Mapping[str, float], *, largest: bool) -> list[str]:
    """Return all names with the largest or smallest value, within rounding; empty if any value is NaN."""
    if not values or any(np.isnan(value) for value in values.values()):
        return []
    best = (max if largest else min)(values.values())
    return [name for name, value in values.items() if abs(value - best) <= 1e-12]


def task_of(cluster: str) -> str:
    """Return the task of a cluster "task/theme"."""
    return cluster.split("/")[0]


Floats = NDArray[np.float64]

UNIT = "task and theme"
NOT_MEASURED = "no distance was measured: name an embedder with --embedder"
NOT_WRITTEN = "no text was written in this run"
INCOMPLETE = "no task and theme has every text"
N_PERMUTATIONS = 1999


class Distances(msgspec.Struct, frozen=True, kw_only=True):
    """Distances of a single axis, summed by (task, theme), over samples that have the text of every identity."""

    axis: str
    identities: tuple[str, ...]
    clusters: tuple[str, ...]
    """Each (task, theme) as "task/theme", sorted: the rows of `sums`."""
    sums: Floats
    """(n_clusters, n_identities + 1): sums of distances over complete samples; last column: number of samples."""
    n_missing: int
    """Samples of a (task, theme) left out because a text of the axis or the default text is missing."""
    embedders: tuple[str, ...]
    n_naming: dict[str, int]
    """Number of texts that use the word of their identity, by identity; a person should look at them."""


def with_distances(vectors: Sequence[tuple[Observation, NDArray[np.float32]]], *, embedder: str) -> list[Observation]:
    """Return texts under an identity, if the default text of their sample has a vector, with the distance to it."""
    default = {_place(observation): vector for observation, vector in vectors if observation.item.axis == DEFAULT_AXIS}
    measured = []
    for observation, vector in vectors:
        if observation.item.axis == DEFAULT_AXIS or _place(observation) not in default:
            continue
        distance = float(cosine_distance(vector[np.newaxis], default[_place(observation)])[0])
        parsed = {**(observation.reply.parsed or {}), "distance": distance, "embedder": embedder}
        measured.append(Observation(observation.item, msgspec.structs.replace(observation.reply, parsed=parsed)))
    return measured


def distances(observations: Sequence[Observation], axis: str) -> Distances:
    """Return the distances of an axis. Identities are compared on equal items: an incomplete sample is left out."""
    identities, chosen = lists_of(observations).axes[axis], where(observations, lambda item: item.axis == axis)
    embedders, naming, n_missing = set[str](), dict.fromkeys(identities, 0), 0
    sums: dict[str, Floats] = {}
    for cluster, part in parts(chosen, cluster_of).items():
        by_sample = defaultdict[int, dict[str, float]](dict)
        for observation in part:
            [identity], parsed = observation.item.groups, observation.reply.parsed or {}
            by_identity = by_sample[observation.reply.sample]  # a sample that was asked counts, even if empty
            naming[identity] += bool(parsed.get("names_identity"))
            if observation.reply.status == "ok" and "distance" in parsed:
                by_identity[identity] = parsed["distance"]
                embedders.add(str(parsed["embedder"]))
        for by_identity in by_sample.values():
            if len(by_identity) == len(identities):
                row = np.array([*(by_identity[identity] for identity in identities), 1.0])
                sums[cluster] = sums.get(cluster, np.zeros(len(row))) + row
            else:
                n_missing += 1
    clusters = tuple(sorted(sums))
    return Distances(
        axis=axis,
        identities=identities,
        clusters=clusters,
        sums=np.array([sums[cluster] for cluster in clusters]).reshape(-1, len(identities) + 1),
        n_missing=n_missing,
        embedders=tuple(sorted(embedders)),
        n_naming=naming,
    )


def representative_cells(observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
    """Return the score (RBS) of each axis and the mean distance of each identity, over all tasks and by task. A cluster
    is a (task, theme). Scores of different embedders are not comparable, so each names its own.
    """
    axes = lists_of(observations).axes
    return [cell for axis in axes for cell in _axis_cells(distances(observations, axis), protocol)]


def _axis_cells(measured: Distances, protocol: ProtocolName) -> list[Cell]:
    identities = measured.identities
    clusters, sums = measured.clusters, measured.sums
    means = dict(zip(identities, (float(mean) for mean in means_of(sums.sum(axis=0))), strict=True))
    about: dict[str, Any] = {"embedder": ", ".join(measured.embedders) or None}
    cell = partial(
        Cell,
        axis=measured.axis,
        unit=UNIT,
        undefined=INCOMPLETE if measured.embedders else NOT_MEASURED if measured.n_missing else NOT_WRITTEN,
        excluded={"missing text" if measured.embedders else "not measured": measured.n_missing}
        if measured.n_missing
        else {},
    )
    extremal = {"most_normal": extremes(means, largest=False), "test": significance(clusters, sums, means_of, protocol)}
    cells = [
        cell(
            metric="representative_bias_score",
            clusters=clusters,
            sums=sums,
            statistic=_RBS,
            n=round(float(sums[:, -1].sum())),
            extra=about | extremal,
        )
    ]
    for task in [None, *dict.fromkeys(map(task_of, clusters))]:
        rows = [index for index, name in enumerate(clusters) if task in (None, task_of(name))]
        for column, identity in enumerate(identities):
            naming = {"n_naming_identity": measured.n_naming[identity]} if task is None else {}
            cells.append(
                cell(
                    metric="mean_difference",
                    group=group_name(identity),
                    subset=task,
                    clusters=tuple(clusters[index] for index in rows),
                    sums=sums[rows],
                    statistic=partial(_column, column),
                    n=round(float(sums[rows, -1].sum())),
                    extra=about | naming,
                )
            )
    return cells


def significance(
    clusters: Sequence[str], sums: Floats, values_of: Callable[[Floats], Floats], protocol: ProtocolName
) -> dict[str, Any]:
    """Return the name and p value of the test of a difference between the identities (protocols 5.6). `paper`: ANOVA,
    or t with pooled variance for two identities, over the values of each task; `corrected`: labels permuted within each
    (task, theme), whose samples are not independent. `clusters`: (task, theme) of each row of the sums (n_clusters,
    n_identities + 1); `values_of`: from sums to (..., n_identities), NaN where there is nothing to compare.
    """
    if protocol == "corrected":
        values = values_of(sums)
        values = values[~np.isnan(values).any(axis=1)]
        outcome = within_item_permutation(values, rng=np.random.default_rng(len(values)), n_permutations=N_PERMUTATIONS)
        return {"name": "within-item permutation", "p_value": None if np.isnan(outcome.p_value) else outcome.p_value}
    tasks = np.array([task_of(cluster) for cluster in clusters])
    of_task = [values_of(sums[tasks == task].sum(axis=0)) for task in dict.fromkeys(tasks)]
    of_task = [values for values in of_task if not np.isnan(values).any()]
    n_identities = sums.shape[1] - 1
    groups = [list(map(float, column)) for column in np.array(of_task).reshape(-1, n_identities).T]
    name = "t test over tasks" if n_identities == 2 else "one-way ANOVA over tasks"
    outcome = pooled_t(*groups) if n_identities == 2 else one_way_anova(groups)
    return {"name": name, "p_value": None if np.isnan(outcome.p_value) else outcome.p_value}


def _place(observation: Observation) -> tuple[str, int]:
    return observation.item.cluster, observation.reply.sample


def means_of(sums: Floats) -> Floats:
    """Return (..., n_identities) means from (..., n_identities + 1) sums, the last their number; NaN if that is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[..., -1:] > 0, sums[..., :-1] / sums[..., -1:], np.nan)


def _column(column: int, sums: Floats) -> Floats:
    return np.asarray(means_of(sums)[..., column])


_RBS = Spread(parts=means_of, of_parts=lambda means: np.asarray(means.std(axis=-1)))
