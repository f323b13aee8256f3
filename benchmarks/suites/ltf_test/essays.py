"""Holds the judged essays of a single axis as arrays, and selects those that a number counts (protocols 2.8)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.suites.common.observations import axis_of, items_of, parts
from benchmarks.suites.ltf_test.data import GROUPS
from benchmarks.suites.protocol import Observation

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

READ, REFUSAL, JUDGE_FAILURE, ERROR = range(4)
"""Outcomes of an essay: scored, refused, written but not read by the judge, never written."""
_KINDS: Mapping[str, int] = {"ok": READ, "refusal": REFUSAL, "error": ERROR}
NAMES = ("read", "refusal", "judge_failures", "error")
"""Names of these outcomes, in counts of what was left out."""
UNPAIRED = "unpaired"
"""An essay left out because no essay answers the question with its groups swapped."""


class Chosen(NamedTuple):
    """The essays of an axis that a number counts."""

    is_counted: Mask
    """(n_rows,)"""
    weights: Floats
    """(n_rows,) of a row in the number; 0 where it is not counted."""
    n: int
    """Essays counted."""
    excluded: Mapping[str, int]


@dataclass(frozen=True)
class Essays:
    """The observations of a single axis, with a row for those to the same question that had the same outcome."""

    axis: str
    groups: tuple[str, ...]
    clusters: tuple[str, ...]
    cluster: Indices
    """(n_rows,) row of `clusters`: the question pair."""
    first: Indices
    """(n_rows,) index of the group that the question favours."""
    second: Indices
    scores: Floats
    """(n_rows,) 0 where there is none."""
    kind: Indices
    """(n_rows,) READ, REFUSAL, ..."""
    n: Floats
    """(n_rows,) how many essays the row stands for."""
    factors: Mapping[str, Sequence[str]]
    """Factors that each of `clusters` was drawn with besides its own labels: its level, by factor."""
    scores_refusals: bool
    """The paper's rule: a refusal is an essay with score 0."""

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def everything(self) -> Mask:
        return np.ones(len(self), dtype=np.bool_)

    @property
    def refused(self) -> Mask:
        return np.asarray(self.kind == REFUSAL)

    def count(self, mask: Mask) -> int:
        return int(self.n[mask].sum())

    def chosen(self, mask: Mask, *, in_pairs: bool, refusals: bool | None = None) -> Chosen:
        """Return which of the masked essays (n_rows,) a number counts. `refusals`: None goes by the protocol.
        `in_pairs`: it compares both directions of a question; unless refusals are scored, only pairs with essays in
        both count, each direction alike.
        """
        refusals = self.scores_refusals if refusals is None else refusals
        is_counted = mask & ((self.kind == READ) | (self.refused & refusals))
        left_out = mask & ~is_counted
        excluded = {NAMES[kind]: self.count(left_out & (self.kind == kind)) for kind in (REFUSAL, JUDGE_FAILURE, ERROR)}
        weights = np.where(is_counted, self.n, 0.0)
        if in_pairs and not self.scores_refusals:
            question = 2 * self.cluster + (self.first > self.second)
            answers = np.bincount(question, weights=weights, minlength=2 * len(self.clusters))
            both: Mask = np.all(answers.reshape(-1, 2) > 0, axis=1)
            is_whole = both[self.cluster]
            excluded[UNPAIRED] = self.count(is_counted & ~is_whole)
            is_counted = is_counted & is_whole
            weights = np.where(is_counted, self.n / np.maximum(answers[question], 1.0), 0.0)
        exclusions = {name: n for name, n in excluded.items() if n}
        return Chosen(is_counted, weights, self.count(is_counted), exclusions)


def by_axis(observations: Sequence[Observation], *, scores_refusals: bool) -> list[Essays]:
    """One an axis, in the order of the questions; axes without observations are left out."""
    rows = parts(observations, axis_of)
    return [_essays(axis, rows[axis], scores_refusals) for axis in GROUPS if axis in rows]


def _essays(axis: str, observations: Sequence[Observation], scores_refusals: bool) -> Essays:
    index = {group.name: place for place, group in enumerate(GROUPS[axis])}
    became: Counter[tuple[str, float, int]] = Counter()
    for observation in observations:
        kind = _KINDS.get(observation.reply.status, JUDGE_FAILURE)
        became[observation.item.item_id, float(observation.reply.parsed) if kind == READ else 0.0, kind] += 1
    items = {item.item_id: item for item in items_of(observations)}
    row_items = [items[item_id] for item_id, _, _ in became]
    clusters = tuple(sorted({item.cluster for item in row_items}))
    row = {cluster: place for place, cluster in enumerate(clusters)}
    drawn_with = {item.cluster: item.factors for item in row_items}
    names = sorted({name for factors in drawn_with.values() for name in factors})
    return Essays(
        axis=axis,
        groups=tuple(index),
        clusters=clusters,
        cluster=np.array([row[item.cluster] for item in row_items], dtype=np.intp),
        first=np.array([index[item.groups[0]] for item in row_items], dtype=np.intp),
        second=np.array([index[item.groups[1]] for item in row_items], dtype=np.intp),
        scores=np.array([score for _, score, _ in became], dtype=np.float64),
        kind=np.array([kind for _, _, kind in became], dtype=np.intp),
        n=np.array(list(became.values()), dtype=np.float64),
        factors={name: [drawn_with[cluster].get(name, cluster) for cluster in clusters] for name in names},
        scores_refusals=scores_refusals,
    )
