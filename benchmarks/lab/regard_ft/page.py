"""An evaluation as a self-contained page, or its picture alone: Figure 5 with intervals (protocols 2.13)."""

from pathlib import Path

from auditors.types import Estimate
from benchmarks.figures.display import number, with_ends
from benchmarks.figures.figure import Figure, alone, drawn_as, interval_words
from benchmarks.figures.marks import Line, draw_lines, line_key
from benchmarks.figures.panels import Panel, Point, all_numbers, lay_out, spanning
from benchmarks.figures.svg import markup, text
from benchmarks.lab.regard_ft.effects import ANSWERED, GAP, Effect
from benchmarks.lab.regard_ft.evaluation import Evaluation
from benchmarks.lab.regard_ft.reduction import Reduction
from benchmarks.lab.regard_ft.verdict import own_pairs, verdict
from benchmarks.reporting.pages import template

LEGEND = (
    (GAP, "PairFav(woman, man), a refusal is an essay with score 0"),
    (ANSWERED, "PairFav(woman, man) among answered essays"),
    ("accuracy/ambig", "BBQ accuracy, ambiguous questions"),
    ("accuracy/disambig", "BBQ accuracy, disambiguated questions"),
)
N_GAPS = 2
"""Number of entries of the legend on the left."""

SIZE, PANEL_GAP = (430.0, 250.0), 40.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 18.0, 30.0, 40.0


def figure(evaluation: Evaluation) -> Figure:
    """Two panels; what the paper prints is a level on the left, and words on the right."""
    published = evaluation.published
    reading = (
        "Left, 0 is a model that treats essays for women and for men equally. Step 0 is the base model. Bars are 95 % "
        "intervals."
    )
    parts = alone(drawn(evaluation), "What the training changed", reading)
    notes = [own_pairs(evaluation.about)] if published is None else []
    if published is not None:
        notes.append(
            f"Published: a gap {number(100 * published.reduction)} % smaller and {number(published.accuracy_gain)} "
            f"points more BBQ accuracy ({published.source}). Neither the values behind them nor the split of BBQ are "
            "printed: the dashed level is the gap of this base model made smaller by as much, and no level stands for "
            "the accuracy."
        )
    if evaluation.about.data == "embedded":
        notes.append("BBQ: embedded items, not comparable with published numbers.")
    if evaluation.about.judge_fault:
        notes.append(f"Judge not validated: {evaluation.about.judge_fault}.")
    keys = tuple(line_key(place, words) for place, (_, words) in enumerate(LEGEND))
    return Figure(title="Steps, gap and accuracy", keys=keys, parts=parts, notes=tuple(notes))


def drawn(evaluation: Evaluation) -> str:
    lines = [
        Line(name=words, points=tuple(drawn_as(Point, model.numbers.get(name)) for model in evaluation.models))
        for name, words in LEGEND
    ]
    heads = [(float(model.step), f"step {model.step}") for model in evaluation.models]
    label = f"Gap between women and men and BBQ accuracy by training step. {lines[0].describe(dict(heads).values())}."
    headings = ("PairFav(woman, man)", "BBQ accuracy, %")
    picture, groups = lay_out(headings, columns=2, size=SIZE, gap=PANEL_GAP, room=SIZE[0], label=label)
    # Panels side by side, each with a scale of its own that holds 0, all intervals and all levels.
    sides = ((0, lines[:N_GAPS], _published(evaluation)), (N_GAPS, lines[N_GAPS:], ()))
    for (first, of_side, levels), (group, left, _) in zip(sides, groups, strict=True):
        numbers = [0.0, *all_numbers(point for line in of_side for point in line.points), *(at for at, _ in levels)]
        across = spanning([0.0, 1.0, *dict(heads)], left + LEFT, left + SIZE[0] - RIGHT, room=0.05)
        box = Panel(group=group, x=across, y=spanning(numbers, SIZE[1] - BOTTOM, TOP, room=0.06, low=0.0))
        box.level("axis", 0.0)
        for value, meaning in levels:
            place = across.end, box.y.at(value) - 4
            box.level("even", value)
            text(group, *place, meaning, size=10, room=SIZE[0] - LEFT, class_="soft halo", text_anchor="end")
        draw_lines(box, heads, of_side, room=(across.end - across.start) / len(heads), first=first)
    return markup(picture)


def _published(evaluation: Evaluation) -> tuple[tuple[float, str], ...]:
    gap = evaluation.base.numbers.get(GAP)
    published = evaluation.published
    if gap is None or gap.value is None or published is None:
        return ()
    share, value = number(100 * published.reduction), gap.value * (1 - published.reduction)
    return ((value, f"published reduction: {share} %"),)


PLACES = 3


def render(found: Evaluation) -> str:
    page: str = template("evaluation.html", Path(__file__).parent / "templates").render(
        found=found,
        figure=figure(found),
        names=list(dict.fromkeys(name for model in found.models for name in model.numbers)),
        reductions=list(dict.fromkeys(name for model in found.models for name in model.reductions)),
        verdict=verdict,
        format_number=_format_number,
        about=_about,
        changed=_changed,
        reduced=_reduced,
    )
    return page


def _format_number(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    if estimate.value is None:
        return f"undefined: {estimate.reason}"
    return with_ends(estimate.value, estimate.lower, estimate.upper, PLACES)


def _about(estimate: Estimate) -> str:
    method = estimate.method or interval_words(estimate, PLACES)
    return f"n = {estimate.n:,}, left out {estimate.n_excluded:,}; {method}"


def _changed(effect: Effect) -> str:
    if effect.difference is None:
        return effect.reason or "undefined"
    adjusted = "" if effect.adjusted_p_value is None else f", adjusted p {number(effect.adjusted_p_value, 4)}"
    return f"difference {with_ends(effect.difference, effect.lower, effect.upper, PLACES)}{adjusted}"


def _reduced(reduction: Reduction | None) -> str:
    if reduction is None:
        return "–"
    if reduction.value is None:
        return f"undefined: {reduction.reason}"
    lower, upper = (None if end is None else 100 * end for end in (reduction.lower, reduction.upper))
    reason = f" ({reduction.reason})" if reduction.reason else ""
    return with_ends(100 * reduction.value, lower, upper, PLACES) + reason
