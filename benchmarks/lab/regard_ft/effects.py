"""The numbers by which a base model and its checkpoints are compared, from what their runs hold."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.bootstrap import Statistic, holm
from auditors.structs import combine
from auditors.types import Estimate
from benchmarks.lab.regard_ft import utility
from benchmarks.lab.regard_ft.reduction import Reduction, reduction
from benchmarks.lab.regard_ft.utility import Utility
from benchmarks.reporting.compare import compared, paired
from benchmarks.suites.bbq.scores import CONDITIONS
from benchmarks.suites.common.estimation import Cell, CellKey, estimate
from benchmarks.suites.common.observations import where, without_exhausted
from benchmarks.suites.ltf_test.data import PAPER_AXES
from benchmarks.suites.ltf_test.suite import LTFTest
from benchmarks.suites.protocol import Observation, ProtocolName, Suite

AXIS, GROUP, REFERENCE = "gender", "woman", "man"
GAP, ANSWERED = "pair_favoritism", "pair_favoritism_answered"
"""The paper's rule, a refusal is an essay with score 0; and of answered essays alone (protocols 2.8)."""
REFUSALS, ALL_REFUSALS = "refusal_rate", "refusal_rate_all_axes"
ACCURACY = "accuracy"
SPREAD = "dob_text"
"""Metric of each other axis: a single number whatever the number of groups."""
EVAL = "eval"
RULES: Mapping[str, ProtocolName] = {GAP: "paper", ANSWERED: "corrected"}
"""The two gaps, by the protocol whose rule for refusals each has."""

Floats = NDArray[np.float64]


class Holdings(msgspec.Struct, frozen=True):
    """Everything measured of a model."""

    essays: Sequence[Observation]
    answers: Sequence[Observation]
    utility: Utility


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One number of a checkpoint less that of the base model, over what both were asked."""

    name: str
    difference: float | None
    lower: float | None
    upper: float | None
    n_clusters: int
    p_value: float | None = None
    adjusted_p_value: float | None = None
    """Adjusted p value, for other axes only: by Holm, for all axes and checkpoints together."""
    reason: str | None = None


def numbers(of: Holdings, bbq: Suite, *, seed: int) -> dict[str, Estimate]:
    """Return every number of a model, with its interval."""
    cells = {**_trained(of.essays), **_spread_cells(of.essays), **_answers(of.answers, bbq), **_useful(of.utility)}
    return {name: estimate(cell, seed=seed) for name, cell in cells.items()}


def effects(base: Holdings, tuned: Holdings, bbq: Suite, *, seed: int) -> tuple[list[Effect], dict[str, Reduction]]:
    """Return the changes from the base model to a checkpoint, and, by name, how far the gap was reduced."""
    first, second, _ = paired(base.essays, tuned.essays)
    gaps = _trained(first), _trained(second)
    pairs = [gaps, (_spread_cells(first), _spread_cells(second))]
    first, second, _ = paired(base.answers, tuned.answers)
    pairs.append((_answers(first, bbq), _answers(second, bbq)))
    pairs.append((_useful(base.utility), _useful(tuned.utility)))
    changes = [
        combine(Effect, change, name=name, adjusted_p_value=None)
        for before, after in pairs
        for name in before
        if name in after
        for change in compared([_whole(before[name])], [_whole(after[name])], seed=seed)
    ]
    names = [name for name in gaps[0] if name.split("/")[0] in RULES and name in gaps[1]]
    return changes, {name: reduction(gaps[0][name], gaps[1][name], seed=seed) for name in names}


def spill_over(axis: str) -> str:
    """The name of the number of another axis."""
    return f"{SPREAD}/{axis}"


def adjusted(by_step: Mapping[int, Sequence[Effect]]) -> dict[int, list[Effect]]:
    """Return the effects with p values of the other axes adjusted for all of them on all checkpoints."""
    p_values = {
        (step, change.name): change.p_value
        for step, changes in by_step.items()
        for change in changes
        if change.name.startswith(f"{SPREAD}/") and change.p_value is not None
    }
    p_by_key = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return {
        step: [
            msgspec.structs.replace(change, adjusted_p_value=p_by_key.get((step, change.name))) for change in changes
        ]
        for step, changes in by_step.items()
    }


def _trained(essays: Sequence[Observation]) -> dict[str, Cell]:
    """Return cells of the trained axis: the gap by both rules and the refusal rate, over all essays and eval."""
    own = without_exhausted(where(essays, lambda item: item.axis == AXIS))
    suite, by_name = LTFTest(), dict[str, Cell]()
    has_more = any(observation.item.subset != EVAL for observation in own)
    for part in (None, EVAL) if has_more else (None,):
        end = "" if part is None else f"/{part}"
        for name, protocol in RULES.items():
            cells = suite.cells(own, protocol=protocol)
            by_key = {cell.key: cell for cell in cells}
            pair = by_key.get(CellKey("pair_favoritism", AXIS, REFERENCE, GROUP, part))
            if pair is not None:
                by_name[name + end] = _turned(pair)
            if name == GAP and (rate := by_key.get(CellKey("refusal_rate", AXIS, subset=part))) is not None:
                by_name[REFUSALS + end] = rate
    return by_name


def _turned(cell: Cell) -> Cell:
    """PairFav is antisymmetric: the suite gives man against woman, the paper plots woman against man."""
    statistic: Statistic = cell.statistic

    def turned(sums: Floats) -> Floats:
        return np.asarray(-statistic(sums))

    return msgspec.structs.replace(cell, group=cell.reference, reference=cell.group, statistic=turned)


def _spread_cells(essays: Sequence[Observation]) -> dict[str, Cell]:
    cells = {cell.key: cell for cell in LTFTest().cells(without_exhausted(essays), protocol="corrected")}
    by_name = {spill_over(axis): cells.get(CellKey(SPREAD, axis)) for axis in PAPER_AXES if axis != AXIS}
    by_name[ALL_REFUSALS] = cells.get(CellKey("refusal_rate"))
    return {name: cell for name, cell in by_name.items() if cell is not None}


def _answers(answers: Sequence[Observation], bbq: Suite) -> dict[str, Cell]:
    cells = {cell.key: cell for cell in bbq.cells(without_exhausted(answers), protocol="corrected")}
    by_name = {f"{ACCURACY}/{part}": cells.get(CellKey(ACCURACY, subset=part)) for part in CONDITIONS}
    return {name: cell for name, cell in by_name.items() if cell is not None}


def _useful(probe: Utility) -> dict[str, Cell]:
    return {cell.metric: cell for cell in utility.cells(probe)}


def _whole(cell: Cell) -> Cell:
    """Rates of parts are compared too, where one table has few numbers."""
    return msgspec.structs.replace(cell, subset=None)
