"""An evaluation as one self-contained page, or its picture alone: nothing is loaded from anywhere else."""

import re
from importlib import resources
from pathlib import Path

from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.figures.figure import interval_words
from benchmarks.lab.regard_ft.effects import Effect
from benchmarks.lab.regard_ft.evaluation import Evaluation
from benchmarks.lab.regard_ft.figure import drawn, figure
from benchmarks.lab.regard_ft.reduction import Reduction
from benchmarks.lab.regard_ft.verdict import verdict
from benchmarks.reporting.pages import template

PLACES = 3
INK = ":root { --ink: #1b2430; --soft: #5d6b7a; --line: #e1e6ec; --card: #fff; }"
DARK = re.compile(r"@media \(prefers-color-scheme: dark\)[^\n]*\n")


def render(found: Evaluation) -> str:
    words = {"verdict": verdict, "spoken": _spoken, "about": _about, "changed": _changed, "reduced": _reduced}
    page: str = template("evaluation.html", Path(__file__).parent / "templates").render(
        found=found,
        figure=figure(found),
        names=list(dict.fromkeys(name for model in found.models for name in model.numbers)),
        reductions=list(dict.fromkeys(name for model in found.models for name in model.reductions)),
        **words,
    )
    return page


def picture(evaluation: Evaluation) -> str:
    css = resources.files("benchmarks.reporting").joinpath("templates/figures.css").read_text(encoding="utf-8")
    style = f"{INK} svg {{ background: #fff; font-family: system-ui, sans-serif; }}\n{DARK.sub('', css)}"
    head, rest = drawn(evaluation).split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{rest}\n'


def _spoken(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    if estimate.value is None:
        return f"undefined: {estimate.reason}"
    return _with_ends(estimate.value, estimate.lower, estimate.upper)


def _about(estimate: Estimate) -> str:
    return (
        f"n = {estimate.n:,}, left out {estimate.n_excluded:,}; {estimate.method or interval_words(estimate, PLACES)}"
    )


def _changed(effect: Effect) -> str:
    if effect.difference is None:
        return effect.reason or "undefined"
    adjusted = "" if effect.adjusted_p_value is None else f", adjusted p {number(effect.adjusted_p_value, 4)}"
    return f"difference {_with_ends(effect.difference, effect.lower, effect.upper)}{adjusted}"


def _reduced(reduction: Reduction | None) -> str:
    if reduction is None:
        return "–"
    if reduction.value is None:
        return f"undefined: {reduction.reason}"
    ends = [None if end is None else 100 * end for end in (reduction.lower, reduction.upper)]
    return (
        f"{_with_ends(100 * reduction.value, ends[0], ends[1])}{f' ({reduction.reason})' if reduction.reason else ''}"
    )


def _with_ends(value: float, lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return number(value, PLACES)
    return f"{number(value, PLACES)} ({number(lower, PLACES)} to {number(upper, PLACES)})"
