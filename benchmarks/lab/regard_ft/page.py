"""An evaluation as one self-contained page, or its picture alone: nothing is loaded from anywhere else."""

import re
from importlib import resources

import jinja2

from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.figures.figure import interval_words
from benchmarks.lab.regard_ft.effects import Effect
from benchmarks.lab.regard_ft.evaluation import Evaluation
from benchmarks.lab.regard_ft.figure import drawn, figure
from benchmarks.lab.regard_ft.reduction import Reduction
from benchmarks.lab.regard_ft.verdict import verdict

PLACES = 3
INK = ":root { --ink: #1b2430; --soft: #5d6b7a; --line: #e1e6ec; --card: #fff; }"
DARK = re.compile(r"@media \(prefers-color-scheme: dark\)[^\n]*\n")


def render(found: Evaluation) -> str:
    """The page: verdicts, the figure, every number."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PackageLoader("benchmarks.lab.regard_ft", "templates"),
                jinja2.PackageLoader("benchmarks.reporting", "templates"),
            ]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = {"verdict": verdict, "spoken": _spoken, "about": _about, "changed": _changed, "reduced": _reduced}
    page: str = environment.get_template("evaluation.html").render(
        found=found,
        figure=figure(found),
        names=list(dict.fromkeys(name for model in found.models for name in model.numbers)),
        reductions=list(dict.fromkeys(name for model in found.models for name in model.reductions)),
        **words,
    )
    return page


def picture(found: Evaluation) -> str:
    """The picture alone, as an SVG file on white."""
    css = resources.files("benchmarks.reporting").joinpath("templates/figures.css").read_text(encoding="utf-8")
    style = f"{INK} svg {{ background: #fff; font-family: system-ui, sans-serif; }}\n{DARK.sub('', css)}"
    head, rest = drawn(found).split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{rest}\n'


def _spoken(one: Estimate | None) -> str:
    if one is None:
        return "–"
    if one.value is None:
        return f"undefined: {one.reason}"
    return _with_ends(one.value, one.lower, one.upper)


def _about(one: Estimate) -> str:
    return f"n = {one.n:,}, left out {one.n_excluded:,}; {one.method or interval_words(one, PLACES)}"


def _changed(one: Effect) -> str:
    if one.difference is None:
        return one.reason or "undefined"
    adjusted = "" if one.adjusted_p_value is None else f", adjusted p {number(one.adjusted_p_value, 4)}"
    return f"difference {_with_ends(one.difference, one.lower, one.upper)}{adjusted}"


def _reduced(one: Reduction | None) -> str:
    if one is None:
        return "–"
    if one.value is None:
        return f"undefined: {one.reason}"
    ends = [None if end is None else 100 * end for end in (one.lower, one.upper)]
    return f"{_with_ends(100 * one.value, ends[0], ends[1])}{f' ({one.reason})' if one.reason else ''}"


def _with_ends(value: float, lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return number(value, PLACES)
    return f"{number(value, PLACES)} ({number(lower, PLACES)} to {number(upper, PLACES)})"
