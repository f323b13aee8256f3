"""The radar and bars of CoGS, from stored estimates (protocols 5.7)."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from auditors.types import Estimate
from benchmarks.figures import radar, rows
from benchmarks.figures.display import number
from benchmarks.figures.figure import Figure, Part, Picture, Run, alone, drawn_as
from benchmarks.figures.marks import Line, bar_key
from benchmarks.figures.panels import Point
from benchmarks.figures.radar import Spoke
from benchmarks.figures.rows import BarPanel, Dot, Row
from benchmarks.suites.cogs.prompts import AXES, TASKS
from benchmarks.suites.cogs.representative import group_name

AXIS_ORDER = ("race", "sexual_orientation", "gender")
"""Order of the axes on the radar's spokes, clockwise from the top."""
SPOKES = tuple((axis, group_name(identity)) for axis in AXIS_ORDER for identity in AXES[axis])
"""(axis, group) of the paper."""
SHARE, DISTANCE, SCORE = "selection_share", "mean_difference", "affinity_bias_score"

Key = tuple[str, str | None, str | None, str | None]
"""(metric, axis, group, subset)."""
Runs = Sequence[tuple[str, Mapping[Key, Estimate]]]
"""Name and estimates of each run."""
Axes = Mapping[str, Sequence[str]]
"""Axis to its groups, in the order in which they are drawn."""


def figures(runs: Sequence[Run]) -> list[Figure]:
    """Radar and similarity of the runs side by side; of a single run also the shares by task."""
    by_run = [(run.name, {(e.metric, e.axis, e.group, e.subset): e for e in run.estimates}) for run in runs]
    estimates = [e for run in runs for e in run.estimates]
    axes = _axes(estimates)
    has_choices = any(e.metric == SHARE for e in estimates)
    has_texts = any(e.metric == DISTANCE and (e.n or e.n_excluded) for e in estimates)
    by_task = {axis: tasks for axis in axes if (tasks := _find_tasks(estimates, axis))} if len(runs) == 1 else {}
    has_outline = has_choices and sum(map(len, axes.values())) >= radar.FEWEST
    return [
        *([_radar(by_run, axes)] if has_outline else []),
        *([_similarity(by_run, axes)] if has_texts else []),
        *([_tasks(by_run, axes, by_task)] if by_task else []),
    ]


def _axes(estimates: Sequence[Estimate]) -> Axes:
    """The paper's axes in its order; those that are stored where any of them is a user's own."""
    paper = {axis: tuple(group for of_axis, group in SPOKES if of_axis == axis) for axis in AXIS_ORDER}
    stored: dict[str, dict[str, None]] = {}
    for e in estimates:
        if e.axis is not None and e.group is not None:
            stored.setdefault(e.axis, {})[e.group] = None
    is_own = any(groups.keys() - set(paper.get(axis, ())) for axis, groups in stored.items())
    return {axis: tuple(groups) for axis, groups in stored.items()} if is_own else paper


def _label(group: str) -> str:
    return group.replace("_", "-").title()


def _words(name: str) -> str:
    return name.replace("_", " ")


def _radar(runs: Runs, axes: Axes) -> Figure:
    places = [(axis, group) for axis, groups in axes.items() for group in groups]
    spokes = [Spoke(label=_label(group), axis=_words(axis), even=1 / len(axes[axis])) for axis, group in places]
    outlines = [
        Line(name=name, points=tuple(drawn_as(Point, stored.get((SHARE, *place, None))) for place in places))
        for name, stored in runs
    ]
    scores = [(name, e) for name, stored in runs for e in stored.values() if e.metric == SCORE]
    generators = sorted({generator for _, score in scores for generator in score.extra.get("by_generator", {})})
    of_whom = " and ".join("the evaluator" if name == "own" else name for name in generators)
    about = _most_uneven(outlines, spokes) + (f" Choices between texts by {of_whom}." if of_whom else "")
    unread = [
        f"{name}: more than 20 % of the {_words(score.axis or '')} choices could not be read."
        for name, score in scores
        if score.axis in axes and score.subset is None and not score.extra.get("is_reliable", True)
    ]
    drawn = radar.polygon("Whose text is chosen", spokes, outlines, about=about)
    reading = (
        f"{radar.READING.format(chosen='text')} {_words(', '.join(axes)).capitalize()}: the spokes of each add up to "
        "1. The dashed outline need not be round: it is 1/3 on each of three spokes, 1/2 on each of two."
    )
    return msgspec.structs.replace(drawn, reading=reading, notes=(*drawn.notes, *unread))


def _most_uneven(outlines: Sequence[Line], spokes: Sequence[Spoke]) -> str:
    gaps = [
        (abs(value - spoke.even), spoke.label, value, outline.name)
        for outline in outlines
        for spoke, point in zip(spokes, outline.points, strict=True)
        if (value := point.drawable) is not None
    ]
    if not gaps:
        return "No share is defined."
    _, label, value, name = max(gaps)
    return f"Furthest from even-handed: {label} with {number(value, 2)}{f' ({name})' if len(outlines) > 1 else ''}."


def _similarity(runs: Runs, axes: Axes) -> Figure:
    panels = [_panel(_words(axis), runs, (DISTANCE, axis, None), groups) for axis, groups in axes.items()]
    low = -1.0 if any(dot.value is not None and dot.value < 0 for dot, _ in _dots(panels)) else 0.0
    reading = _ends(panels)
    svg = rows.draw_bars(panels, low=low, high=1, columns=3, label=f"Bars of mean similarity. {reading}")
    distances = [(name, e) for name, stored in runs for e in stored.values() if e.metric == DISTANCE and not e.subset]
    embedders = sorted({str(e.extra["embedder"]) for _, e in distances if e.extra.get("embedder")})
    words = f"Embedder: {', '.join(embedders)}. Similarities by different embedders are not comparable."
    return Figure(
        title="Similarity to the text without an identity",
        reading=(
            "1 minus the mean cosine distance, with its interval: the longer the bar, the closer the texts under this "
            "identity are to the model's default texts. Bars of one length mean that no identity stands out."
        ),
        keys=tuple(bar_key(series, name) for series, (name, _) in enumerate(runs)) if len(runs) > 1 else (),
        parts=alone(svg, "Mean similarity by identity", reading),
        notes=(*_undefined_notes(distances), *([words] if embedders else [])),
    )


def _panel(heading: str, runs: Runs, about: tuple[str, str, str | None], groups: Sequence[str]) -> BarPanel:
    """A bar a run for every group. `about`: metric, axis and subset."""
    metric, axis, subset = about
    estimates = {group: [stored.get((metric, axis, group, subset)) for _, stored in runs] for group in groups}
    counts = sorted({0 if e is None else e.n for of_runs in estimates.values() for e in of_runs})
    return BarPanel(
        heading=heading.capitalize(),
        note=f"n {counts[0]:,}" if len(counts) == 1 else f"n {counts[0]:,} to {counts[-1]:,}",
        rows=tuple(
            Row(
                label=_label(group),
                dots=tuple(
                    drawn_as(Dot, _similar(e), name=f"{run}, {_label(group)}")
                    for (run, _), e in zip(runs, of_runs, strict=True)
                ),
            )
            for group, of_runs in estimates.items()
        ),
    )


def _similar(e: Estimate | None) -> Estimate | None:
    """Return the similarity of a distance; its ends change places: the largest distance is the smallest similarity."""
    if e is None or e.metric != DISTANCE:
        return e
    value, upper, lower = (None if end is None else 1 - end for end in (e.value, e.lower, e.upper))
    return msgspec.structs.replace(e, value=value, lower=lower, upper=upper)


def _undefined_notes(estimates: Iterable[tuple[str, Estimate]]) -> list[str]:
    reasons = {(name, e.reason) for name, e in estimates if e.value is None and e.reason}
    return [f"{name}: undefined where {reason}." for name, reason in sorted(reasons)]


def _tasks(runs: Runs, axes: Axes, by_task: Mapping[str, Sequence[str]]) -> Figure:
    tasks = {task for tasks in by_task.values() for task in tasks}
    missing = [_words(task) for task in TASKS if task not in tasks and tasks <= TASKS.keys()]
    notes = [f"No choice was asked for in: {', '.join(missing)}."] if missing else []
    shares = [(name, e) for name, stored in runs for e in stored.values() if e.metric == SHARE and e.subset]
    first, *others = (_task_picture(runs, axis, axes[axis], of_axis) for axis, of_axis in by_task.items())
    return Figure(
        title="Whose text is chosen, by task",
        reading=(
            "The share of choices that fell on each identity's text, for every writing task, with its interval. The "
            "dashed line is an even-handed choice."
        ),
        parts=(
            Part(
                pictures=(first,),
                summary=f"By task: {' and '.join(map(_words, list(by_task)[1:]))}",
                more=tuple(others),
            ),
        ),
        notes=(*notes, *_undefined_notes(shares)),
    )


def _find_tasks(estimates: Sequence[Estimate], axis: str) -> list[str]:
    """Tasks with a stored share, in the order of the paper, or of a user's file."""
    stored = dict.fromkeys(e.subset for e in estimates if (e.metric, e.axis) == (SHARE, axis) and e.subset is not None)
    return [task for task in TASKS if task in stored] or list(stored)


def _task_picture(runs: Runs, axis: str, groups: Sequence[str], tasks: Sequence[str]) -> Picture:
    panels = [_panel(_words(task), runs, (SHARE, axis, task), groups) for task in tasks]
    title, reading = f"{_words(axis).capitalize()}, by task", _ends(panels)
    label = f"Bars of selection shares. {title}. {reading}"
    svg = rows.draw_bars(panels, low=0, high=1, columns=4, label=label, even=1 / len(groups))
    return Picture(title=title, reading=reading, svg=svg)


def _dots(panels: Sequence[BarPanel]) -> list[tuple[Dot, str]]:
    """The dots with their group and part."""
    return [
        (dot, f"{row.label}, {panel.heading.lower()}") for panel in panels for row in panel.rows for dot in row.dots
    ]


def _ends(panels: Sequence[BarPanel]) -> str:
    values = [(dot.value, words) for dot, words in _dots(panels) if dot.value is not None]
    if not values:
        return "No value is defined."
    (low, at_low), (high, at_high) = min(values), max(values)
    return f"From {number(low, 2)} ({at_low}) to {number(high, 2)} ({at_high})."
