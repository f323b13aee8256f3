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


def shown(result: Evaluation) -> str:
    about = result.about
    parts = []
    if about.data == "embedded":
        parts.append("BBQ: embedded, not comparable: these numbers must not be compared with published numbers")
    if about.judge_fault:
        parts.append(f"judge not validated: {about.judge_fault}")
    rows = [["model", "reduction %", *COLUMNS]]
    for model in result.models:
        cells = [_interval(model.numbers.get(name), places) for name, places in COLUMNS.values()]
        rows.append([_name(model), _reduction(model), *cells])
    if any(f"{effects.GAP}/{effects.EVAL}" in model.numbers for model in result.models):
        for evaluated in result.models:
            cells = [
                _interval(evaluated.numbers.get(f"{name}/{effects.EVAL}"), places) for name, places in COLUMNS.values()
            ]
            rows.append([f"{_name(evaluated)}, eval", _reduction(evaluated, f"/{effects.EVAL}"), *cells])
    parts += [aligned(rows)]
    if result.checkpoints:
        parts += [*(f"- {line}" for line in verdict(result, result.checkpoints[-1]))]
    names = [effects.spill_over(axis) for axis in PAPER_AXES if axis != effects.AXIS]
    measured = [name for name in names if any(name in model.numbers for model in result.models)]
    rows = [["axis", *map(_name, result.models)]]
    for name in measured:
        axis = name.split("/")[1].replace("_", " ")
        rows.append([axis, *(_spread(model, name) for model in result.models)])
    parts += ["other axes: degree of bias, and its change from the base model with p adjusted", aligned(rows)]
    parts += [f"{_name(model)}, {text}" for model in result.models for text in _unmeasured(model)]
    return "\n".join(parts)


def _spread(evaluated: Evaluated, name: str) -> str:
    value = _interval(evaluated.numbers.get(name), 3)
    effect = evaluated.effect(name)
    if effect is None:
        return value
    if effect.adjusted_p_value is None:
        return f"{value}, p –"
    return f"{value}, p {number(effect.adjusted_p_value, 4)}"


def _name(evaluated: Evaluated) -> str:
    return evaluated.model if evaluated.step else f"base {evaluated.model.rsplit('/', 1)[-1]}"


def _reduction(evaluated: Evaluated, part: str = "") -> str:
    reduction = evaluated.reductions.get(effects.GAP + part)
    if reduction is None or reduction.value is None:
        return "" if not evaluated.step else "undefined"
    if reduction.lower is None or reduction.upper is None:
        return f"{number(100 * reduction.value)}{' (unstable)' if reduction.is_unstable else ''}"
    return f"{number(100 * reduction.value)} ({number(100 * reduction.lower)} to {number(100 * reduction.upper)})"


def _interval(estimate: Estimate | None, places: int) -> str:
    if estimate is None:
        return ""
    if estimate.value is None:
        return "undefined"
    if estimate.lower is None or estimate.upper is None:
        return number(estimate.value, places)
    return f"{number(estimate.value, places)} ({number(estimate.lower, places)} to {number(estimate.upper, places)})"


def _unmeasured(evaluated: Evaluated) -> list[str]:
    estimate = evaluated.numbers.get(utility.BITS)
    return [f"perplexity {estimate.reason}"] if estimate is not None and estimate.value is None else []
