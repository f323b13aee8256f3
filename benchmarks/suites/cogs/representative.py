"""The representative bias score: how far the texts under each identity are from the default texts (protocols 5.4)."""

from array import array
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.agreement import Outcome, one_way_anova, pooled_t, within_item_permutation
from auditors.metrics.dispersion import cosine_distance
from auditors.metrics.spread import Spread
from benchmarks.suites.cogs.prompts import AXES, DEFAULT_AXIS
from benchmarks.suites.cogs.shares import extremes, group_name
from benchmarks.suites.common.counting import cluster_of
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.common.observations import parts, where
from benchmarks.suites.protocol import Observation, ProtocolName

Floats = NDArray[np.float64]

UNIT = "task and theme"
NOT_MEASURED = "no distance was measured: name an embedder with --embedder"
NOT_WRITTEN = "no text was written in this run"
INCOMPLETE = "no task and theme has every text"
N_PERMUTATIONS = 1999


class Distances(msgspec.Struct, frozen=True, kw_only=True):
    """Distances of one axis: a row for every (task, theme) and sample that has them all, a column per identity."""

    axis: str
    clusters: tuple[str, ...]
    values: Floats
    n_missing: int
    """Rows left out because a text of the axis or the default text is missing."""
    embedders: tuple[str, ...]
    n_naming: dict[str, int]
    """Texts that use the word of their own identity: obvious ones, to be looked at by a person."""


def with_distances(vectors: Sequence[tuple[Observation, NDArray[np.float32]]], *, embedder: str) -> list[Observation]:
    """Texts under an identity, with the cosine distance to the default text of the same task, theme and sample.

    A text whose default text has no vector gets none.
    """
    default = {_place(one): vector for one, vector in vectors if one.item.axis == DEFAULT_AXIS}
    found = []
    for one, vector in vectors:
        if one.item.axis == DEFAULT_AXIS or _place(one) not in default:
            continue
        distance = float(cosine_distance(vector[np.newaxis], default[_place(one)])[0])
        parsed = {**(one.reply.parsed or {}), "distance": distance, "embedder": embedder}
        found.append(Observation(one.item, msgspec.structs.replace(one.reply, parsed=parsed)))
    return found


def distances(observations: Sequence[Observation], axis: str) -> Distances:
    """The distances of one axis; D_i are compared on equal items, so an incomplete (task, theme) is left out whole."""
    identities, chosen = AXES[axis], where(observations, lambda item: item.axis == axis)
    embedders, naming, n_missing = set[str](), dict.fromkeys(identities, 0), 0
    names, rows = list[str](), array("d")
    for cluster, part in parts(chosen, cluster_of).items():
        by_sample = defaultdict[int, dict[str, float]](dict)
        for one in part:
            [identity], parsed = one.item.groups, one.reply.parsed or {}
            found = by_sample[one.reply.sample]  # an asked place counts, whatever came back
            naming[identity] += bool(parsed.get("names_identity"))
            if one.reply.status == "ok" and "distance" in parsed:
                found[identity] = parsed["distance"]
                embedders.add(str(parsed["embedder"]))
        for found in by_sample.values():
            if len(found) == len(identities):
                names.append(cluster)
                rows.extend(found[identity] for identity in identities)
            else:
                n_missing += 1
    return Distances(
        axis=axis,
        clusters=tuple(names),
        values=np.array(rows).reshape(-1, len(identities)),
        n_missing=n_missing,
        embedders=tuple(sorted(embedders)),
        n_naming=naming,
    )


def representative_cells(observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
    """RBS of each axis and the mean difference of each identity, over all tasks and by task.

    A cluster is a (task, theme). Scores of different embedders are not comparable, so each names its own.
    """
    return [cell for axis in AXES for cell in _axis_cells(distances(observations, axis), protocol)]


def _axis_cells(found: Distances, protocol: ProtocolName) -> list[Cell]:
    identities = AXES[found.axis]
    clusters, sums = _summed(found.clusters, found.values)
    means = dict(zip(identities, (float(mean) for mean in _means(sums.sum(axis=0))), strict=True))
    about: dict[str, Any] = {"embedder": ", ".join(found.embedders) or None}
    cell = partial(
        Cell,
        axis=found.axis,
        unit=UNIT,
        undefined=INCOMPLETE if found.embedders else NOT_MEASURED if found.n_missing else NOT_WRITTEN,
        excluded={"missing text" if found.embedders else "not measured": found.n_missing} if found.n_missing else {},
    )
    extremal = {"most_normal": extremes(means, largest=False), "test": significance(found, protocol)}
    cells = [
        cell(
            metric="representative_bias_score",
            clusters=clusters,
            sums=sums,
            statistic=_RBS,
            n=len(found.values),
            extra=about | extremal,
        )
    ]
    for task in [None, *dict.fromkeys(name.split("/")[0] for name in clusters)]:
        rows = [index for index, name in enumerate(clusters) if task in (None, name.split("/")[0])]
        for column, identity in enumerate(identities):
            naming = {"n_naming_identity": found.n_naming[identity]} if task is None else {}
            cells.append(
                cell(
                    metric="mean_difference",
                    group=group_name(identity),
                    subset=task,
                    clusters=tuple(clusters[index] for index in rows),
                    sums=sums[rows],
                    statistic=partial(_mean_of, column),
                    n=round(float(sums[rows, -1].sum())),
                    extra=about | naming,
                )
            )
    return cells


def significance(found: Distances, protocol: ProtocolName) -> dict[str, Any]:
    """Whether the identities' distances differ (protocols 5.6).

    `paper`: ANOVA, or t with pooled variance for two identities, over the task means. `corrected`: identity labels
    permuted within each (task, theme).
    """
    if protocol == "corrected":
        rng = np.random.default_rng(len(found.clusters))
        outcome = within_item_permutation(found.values, rng=rng, n_permutations=N_PERMUTATIONS)
        return described("within-item permutation", outcome)
    tasks = [name.split("/")[0] for name in found.clusters]
    chosen = [found.values[[task == one for one in tasks]].mean(axis=0) for task in dict.fromkeys(tasks)]
    return by_task([list(column) for column in zip(*chosen, strict=True)])


def by_task(groups: list[list[float]]) -> dict[str, Any]:
    """The printed test over one value per task and identity."""
    if len(groups) == 2:
        return described("t test over tasks", pooled_t(*groups))
    return described("one-way ANOVA over tasks", one_way_anova(groups))


def described(name: str, outcome: Outcome) -> dict[str, Any]:
    p_value = None if np.isnan(outcome.p_value) else outcome.p_value
    return {"name": name, "p_value": p_value}


def _place(one: Observation) -> tuple[str, int]:
    return one.item.cluster, one.reply.sample


def _summed(names: Sequence[str], values: Floats) -> tuple[tuple[str, ...], Floats]:
    """By cluster: the sums of distances and the number of rows."""
    clusters = sorted(set(names))
    row = {name: index for index, name in enumerate(clusters)}
    sums = np.zeros((len(clusters), values.shape[1] + 1))
    np.add.at(sums, [row[name] for name in names], np.column_stack([values, np.ones(len(values))]))
    return tuple(clusters), sums


def _means(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[..., -1:] > 0, sums[..., :-1] / sums[..., -1:], np.nan)


def _mean_of(column: int, sums: Floats) -> Floats:
    return np.asarray(_means(sums)[..., column])


def _deviation(parts: Floats) -> Floats:
    return np.asarray(parts.std(axis=-1))


_RBS = Spread(parts=_means, of_parts=_deviation)
