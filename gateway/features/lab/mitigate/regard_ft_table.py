"""An evaluation on the terminal: a line for each model, a table of the other axes, then the verdict in words."""

from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.lab.regard_ft import effects, utility
from benchmarks.lab.regard_ft.evaluation import Evaluated, Evaluation
from benchmarks.lab.regard_ft.verdict import verdict
from benchmarks.suites.ltf_test.data import PAPER_AXES
from gateway.terminal.tables import aligned

COLUMNS = {
    "PairFav woman/man": (effects.GAP, 2),
    "answered alone": (effects.ANSWERED, 2),
    "refused %": (effects.REFUSALS, 1),
    "BBQ ambiguous %": ("accuracy/ambig", 1),
    "disambiguated %": ("accuracy/disambig", 1),
    "bits a byte": (utility.BITS, 3),
    "words": (utility.WORDS, 1),
    "neutral refused %": (utility.REFUSALS, 1),
}
"""Name and decimals of each."""


def shown(found: Evaluation) -> str:
    """Everything, summary first."""
    about = found.about
    parts = []
    if about.data == "embedded":
        parts.append("BBQ: embedded, not comparable: these numbers must not be set beside published ones")
    if about.judge_fault:
        parts.append(f"judge not validated: {about.judge_fault}")
    parts += [aligned(_summary(found))]
    if found.checkpoints:
        parts += [*(f"- {line}" for line in verdict(found, found.checkpoints[-1]))]
    parts += ["other axes: degree of bias, and its change from the base model with p adjusted", aligned(_axes(found))]
    parts += [f"{_name(model)}, {text}" for model in found.models for text in _unmeasured(model)]
    return "\n".join(parts)


def _summary(found: Evaluation) -> list[list[str]]:
    rows = [["model", "reduction %", *COLUMNS]]
    for model in found.models:
        cells = [_interval(model.numbers.get(name), places) for name, places in COLUMNS.values()]
        rows.append([_name(model), _reduction(model), *cells])
    if any(f"{effects.GAP}/{effects.EVAL}" in model.numbers for model in found.models):
        for one in found.models:
            cells = [_interval(one.numbers.get(f"{name}/{effects.EVAL}"), places) for name, places in COLUMNS.values()]
            rows.append([f"{_name(one)}, eval", _reduction(one, f"/{effects.EVAL}"), *cells])
    return rows


def _axes(found: Evaluation) -> list[list[str]]:
    names = [effects.spill_over(axis) for axis in PAPER_AXES if axis != effects.AXIS]
    asked = [name for name in names if any(name in model.numbers for model in found.models)]
    rows = [["axis", *map(_name, found.models)]]
    for name in asked:
        axis = name.split("/")[1].replace("_", " ")
        rows.append([axis, *(_spread(model, name) for model in found.models)])
    return rows


def _spread(one: Evaluated, name: str) -> str:
    value = _interval(one.numbers.get(name), 3)
    effect = one.effect(name)
    if effect is None:
        return value
    if effect.adjusted_p_value is None:
        return f"{value}, p –"
    return f"{value}, p {number(effect.adjusted_p_value, 4)}"


def _name(one: Evaluated) -> str:
    return one.model if one.step else f"base {one.model.rsplit('/', 1)[-1]}"


def _reduction(one: Evaluated, part: str = "") -> str:
    found = one.reductions.get(effects.GAP + part)
    if found is None or found.value is None:
        return "" if not one.step else "undefined"
    if found.lower is None or found.upper is None:
        return f"{number(100 * found.value)}{' (unstable)' if found.is_unstable else ''}"
    return f"{number(100 * found.value)} ({number(100 * found.lower)} to {number(100 * found.upper)})"


def _interval(one: Estimate | None, places: int) -> str:
    if one is None:
        return ""
    if one.value is None:
        return "undefined"
    if one.lower is None or one.upper is None:
        return number(one.value, places)
    return f"{number(one.value, places)} ({number(one.lower, places)} to {number(one.upper, places)})"


def _unmeasured(one: Evaluated) -> list[str]:
    found = one.numbers.get(utility.BITS)
    return [f"perplexity {found.reason}"] if found is not None and found.value is None else []
