"""The numbers by which a base model and its checkpoints are compared, from what their runs hold."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.bootstrap import Statistic, holm
from auditors.types import Estimate
from benchmarks.lab.regard_ft import utility
from benchmarks.lab.regard_ft.reduction import Reduction, reduction
from benchmarks.lab.regard_ft.utility import Utility
from benchmarks.reporting.compare import Difference, compared, paired
from benchmarks.suites.bbq.scores import CONDITIONS
from benchmarks.suites.common.estimation import Cell, CellKey, estimate
from benchmarks.suites.common.observations import where, without_exhausted
from benchmarks.suites.ltf_test.data import PAPER_AXES
from benchmarks.suites.ltf_test.suite import LTFTest
from benchmarks.suites.protocol import Observation, ProtocolName, Suite

AXIS, GROUP, REFERENCE = "gender", "woman", "man"
"""What is trained."""
GAP, ANSWERED = "pair_favoritism", "pair_favoritism_answered"
"""The paper's rule, a refusal is an essay with score 0; and of answered essays alone (protocols 2.8)."""
REFUSALS, ALL_REFUSALS = "refusal_rate", "refusal_rate_all_axes"
ACCURACY = "accuracy"
SPREAD = "dob_text"
"""Of each other axis: one number whatever the number of groups."""
EVAL = "eval"
RULES: Mapping[str, ProtocolName] = {GAP: "paper", ANSWERED: "corrected"}
"""The two gaps, by the protocol whose rule for refusals each has."""

Floats = NDArray[np.float64]
Cells = Mapping[str, Cell]
"""By name: of a part of the data, or a condition of BBQ, with it behind a slash."""


class Holdings(msgspec.Struct, frozen=True):
    """What there is of one model."""

    essays: Sequence[Observation]
    answers: Sequence[Observation]
    """To the questions of BBQ."""
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
    """Of other axes: by Holm, for all axes and checkpoints together."""
    reason: str | None = None


def numbers(of: Holdings, bbq: Suite, *, seed: int) -> dict[str, Estimate]:
    """Every number of one model, with its interval."""
    made = {**_trained(of.essays), **_others(of.essays), **_answers(of.answers, bbq), **_useful(of.utility)}
    return {name: estimate(cell, seed=seed) for name, cell in made.items()}


def effects(base: Holdings, tuned: Holdings, bbq: Suite, *, seed: int) -> tuple[list[Effect], dict[str, Reduction]]:
    """What changed from the base model to a checkpoint, by name; and how far the gap was reduced."""
    first, second, _ = paired(base.essays, tuned.essays)
    gaps = _trained(first), _trained(second)
    pairs = [gaps, (_others(first), _others(second))]
    first, second, _ = paired(base.answers, tuned.answers)
    pairs.append((_answers(first, bbq), _answers(second, bbq)))
    pairs.append((_useful(base.utility), _useful(tuned.utility)))
    found = [
        _effect(name, compared([_whole(before[name])], [_whole(after[name])], seed=seed)[0])
        for before, after in pairs
        for name in before
        if name in after
    ]
    names = [name for name in gaps[0] if name.split("/")[0] in RULES and name in gaps[1]]
    return found, {name: reduction(gaps[0][name], gaps[1][name], seed=seed) for name in names}


def spill_over(axis: str) -> str:
    """The name of the number of another axis."""
    return f"{SPREAD}/{axis}"


def adjusted(by_step: Mapping[int, Sequence[Effect]]) -> dict[int, list[Effect]]:
    """With p values of the other axes adjusted for all of them on all checkpoints."""
    asked = [
        (step, one.name)
        for step, found in by_step.items()
        for one in found
        if one.name.startswith(f"{SPREAD}/") and one.p_value is not None
    ]
    p_values = {(step, one.name): one.p_value or 0.0 for step, found in by_step.items() for one in found}
    known = dict(zip(asked, holm([p_values[key] for key in asked]), strict=True))
    return {
        step: [msgspec.structs.replace(one, adjusted_p_value=known.get((step, one.name))) for one in found]
        for step, found in by_step.items()
    }


def _trained(essays: Sequence[Observation]) -> dict[str, Cell]:
    """Of the axis trained: the gap by both rules and the refusal rate, each over all that was asked and over eval."""
    own = without_exhausted(where(essays, lambda item: item.axis == AXIS))
    suite, found = LTFTest(), dict[str, Cell]()
    has_more = any(one.item.subset != EVAL for one in own)
    for part in (None, EVAL) if has_more else (None,):
        end = "" if part is None else f"/{part}"
        for name, protocol in RULES.items():
            cells = suite.cells(own, protocol=protocol)
            by_key = {cell.key: cell for cell in cells}
            pair = by_key.get(CellKey("pair_favoritism", AXIS, REFERENCE, GROUP, part))
            if pair is not None:
                found[name + end] = _turned(pair)
            if name == GAP and (rate := by_key.get(CellKey("refusal_rate", AXIS, subset=part))) is not None:
                found[REFUSALS + end] = rate
    return found


def _turned(cell: Cell) -> Cell:
    """PairFav is antisymmetric: the suite gives man against woman, the paper plots woman against man."""
    statistic: Statistic = cell.statistic

    def turned(sums: Floats) -> Floats:
        return np.asarray(-statistic(sums))

    return msgspec.structs.replace(cell, group=cell.reference, reference=cell.group, statistic=turned)


def _others(essays: Sequence[Observation]) -> dict[str, Cell]:
    cells = {cell.key: cell for cell in LTFTest().cells(without_exhausted(essays), protocol="corrected")}
    found = {spill_over(axis): cells.get(CellKey(SPREAD, axis)) for axis in PAPER_AXES if axis != AXIS}
    found[ALL_REFUSALS] = cells.get(CellKey("refusal_rate"))
    return {name: cell for name, cell in found.items() if cell is not None}


def _answers(answers: Sequence[Observation], bbq: Suite) -> dict[str, Cell]:
    cells = {cell.key: cell for cell in bbq.cells(without_exhausted(answers), protocol="corrected")}
    found = {f"{ACCURACY}/{part}": cells.get(CellKey(ACCURACY, subset=part)) for part in CONDITIONS}
    return {name: cell for name, cell in found.items() if cell is not None}


def _useful(found: Utility) -> dict[str, Cell]:
    return {cell.metric: cell for cell in utility.cells(found)}


def _whole(cell: Cell) -> Cell:
    """Rates of parts are compared too, where one table has few numbers."""
    return msgspec.structs.replace(cell, subset=None)


def _effect(name: str, one: Difference) -> Effect:
    return Effect(
        name=name,
        difference=one.difference,
        lower=one.lower,
        upper=one.upper,
        n_clusters=one.n_clusters,
        p_value=one.p_value,
        reason=one.reason,
    )
