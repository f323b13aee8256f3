"""The paper's Figure 5 of an evaluation: the gap and BBQ accuracy by training step, with intervals (protocols 2.13)."""

from collections.abc import Sequence

from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.figures.figure import Figure, Part, Picture, spoken
from benchmarks.figures.lines import Level, StepPanel, StepPoint, draw_steps
from benchmarks.figures.marks import line_key
from benchmarks.lab.regard_ft.effects import ANSWERED, GAP
from benchmarks.lab.regard_ft.evaluation import Evaluation

LEGEND = (
    (GAP, "PairFav(woman, man), a refusal is an essay with score 0"),
    (ANSWERED, "PairFav(woman, man) among answered essays"),
    ("accuracy/ambig", "BBQ accuracy, ambiguous questions"),
    ("accuracy/disambig", "BBQ accuracy, disambiguated questions"),
)
N_GAPS = 2
"""Number of entries of the legend on the left."""


def figure(evaluation: Evaluation) -> Figure:
    """Two panels; what the paper prints is a level on the left, and words on the right."""
    published = evaluation.published
    reading = (
        "Left, 0 is a model that treats essays for women and for men equally. Step 0 is the base model. Bars are 95 % "
        "intervals."
    )
    picture = Picture(title="What the training changed", reading=reading, svg=drawn(evaluation))
    notes = [
        f"Published: a gap {number(100 * published.reduction)} % smaller and {number(published.accuracy_gain)} points "
        f"more BBQ accuracy ({published.source}). Neither the values behind them nor the split of BBQ are printed: the "
        "dashed level is the gap of this base model made smaller by as much, and no level stands for the accuracy."
    ]
    if evaluation.about.data == "embedded":
        notes.append("BBQ: embedded items, not comparable with published numbers.")
    if evaluation.about.judge_fault:
        notes.append(f"Judge not validated: {evaluation.about.judge_fault}.")
    keys = tuple(line_key(place, words) for place, (_, words) in enumerate(LEGEND))
    return Figure(
        title="Steps, gap and accuracy", reading="", keys=keys, parts=(Part(pictures=(picture,)),), notes=tuple(notes)
    )


def drawn(evaluation: Evaluation) -> str:
    """The picture alone, as SVG."""
    gaps, answers = _series(evaluation, LEGEND[:N_GAPS]), _series(evaluation, LEGEND[N_GAPS:])
    panels = (
        StepPanel(heading="PairFav(woman, man)", series=gaps, levels=_published(evaluation), places=2),
        StepPanel(heading="BBQ accuracy, %", series=answers, first=N_GAPS, places=0),
    )
    return draw_steps(panels, label=_label(evaluation))


def _series(evaluation: Evaluation, legend: Sequence[tuple[str, str]]) -> tuple[tuple[StepPoint, ...], ...]:
    return tuple(
        tuple(_point(model.step, words, model.numbers.get(name)) for model in evaluation.models)
        for name, words in legend
    )


def _point(step: int, words: str, estimate: Estimate | None) -> StepPoint:
    caption = f"step {step}: {words}: {spoken(estimate)}"
    if estimate is None:
        return StepPoint(step=step, value=None, words=caption)
    return StepPoint(step=step, value=estimate.value, lower=estimate.lower, upper=estimate.upper, words=caption)


def _published(evaluation: Evaluation) -> tuple[Level, ...]:
    gap = evaluation.base.numbers.get(GAP)
    if gap is None or gap.value is None:
        return ()
    share = number(100 * evaluation.published.reduction)
    value = gap.value * (1 - evaluation.published.reduction)
    return (Level(value=value, words=f"published reduction: {share} %"),)


def _label(evaluation: Evaluation) -> str:
    gaps = (f"step {model.step} {spoken(model.numbers.get(GAP))}" for model in evaluation.models)
    return f"Gap between women and men and BBQ accuracy by training step. PairFav(woman, man): {'; '.join(gaps)}."
