"""The radar and bars of CoGS, from stored estimates (protocols 5.7)."""

from collections.abc import Mapping, Sequence

import msgspec

from auditors.types import Estimate
from benchmarks.figures import bars, radar
from benchmarks.figures.bars import BarPanel, Row
from benchmarks.figures.display import number
from benchmarks.figures.figure import Figure, Part, Picture, Run, format_estimate
from benchmarks.figures.marks import bar_key
from benchmarks.figures.panels import Point
from benchmarks.figures.radar import Outline, Spoke
from benchmarks.suites.cogs.prompts import AXES, TASKS
from benchmarks.suites.cogs.representative import group_name

AXIS_ORDER = ("race", "sexual_orientation", "gender")
"""Order of the axes on the radar's spokes, clockwise from the top."""
SPOKES = tuple((axis, group_name(identity)) for axis in AXIS_ORDER for identity in AXES[axis])
"""(axis, group) of the paper."""
LEAST_SPOKES = 3

Key = tuple[str, str | None, str | None, str | None]
"""(metric, axis, group, subset)."""
Found = Mapping[Key, Estimate]
Axes = Mapping[str, Sequence[str]]
"""Axis to its groups, in the order in which they are drawn."""


def figures(runs: Sequence[Run]) -> list[Figure]:
    """Radar and similarity of the runs side by side; of a single run also the shares by task."""
    run_estimates = [{(e.metric, e.axis, e.group, e.subset): e for e in run.estimates} for run in runs]
    has_choices = any(key[0] == "selection_share" for by_key in run_estimates for key in by_key)
    distances = [e for by_key in run_estimates for e in by_key.values() if e.metric == "mean_difference"]
    has_texts = any(e.n or e.n_excluded for e in distances)
    axes = _axes(run_estimates)
    by_task = len(runs) == 1 and any(_find_tasks(run_estimates[0], axis) for axis in axes)
    has_outline = has_choices and sum(map(len, axes.values())) >= LEAST_SPOKES
    return [
        *([_radar(runs, run_estimates, axes)] if has_outline else []),
        *([_similarity(runs, run_estimates, axes)] if has_texts else []),
        *([_tasks(runs[0], run_estimates[0], axes)] if by_task else []),
    ]


def _axes(run_estimates: Sequence[Found]) -> Axes:
    """The paper's axes in its order; those that are stored where any of them is a user's own."""
    paper = {axis: tuple(group for of_axis, group in SPOKES if of_axis == axis) for axis in AXIS_ORDER}
    stored: dict[str, dict[str, None]] = {}
    for axis, group in ((axis, group) for by_key in run_estimates for _, axis, group, _ in by_key):
        if axis is not None and group is not None:
            stored.setdefault(axis, {})[group] = None
    is_own = any(groups.keys() - set(paper.get(axis, ())) for axis, groups in stored.items())
    return {axis: tuple(groups) for axis, groups in stored.items()} if is_own else paper


def _label(group: str) -> str:
    return group.replace("_", "-").title()


def _words(name: str) -> str:
    return name.replace("_", " ")


def _radar(runs: Sequence[Run], run_estimates: Sequence[Found], axes: Axes) -> Figure:
    places = [(axis, group) for axis, groups in axes.items() for group in groups]
    spokes = [Spoke(label=_label(group), axis=_words(axis), even=1 / len(axes[axis])) for axis, group in places]
    outlines = [
        Outline(name=run.name, estimates=tuple(by_key.get(("selection_share", *place, None)) for place in places))
        for run, by_key in zip(runs, run_estimates, strict=True)
    ]
    listed = "; ".join(
        f"{outline.name}: "
        + ", ".join(
            f"{spoke.label} {'undefined' if e is None or e.value is None else number(e.value, 2)}"
            for spoke, e in zip(spokes, outline.estimates, strict=True)
        )
        for outline in outlines
    )
    svg = radar.draw(spokes, outlines, label=f"Radar of selection shares. {listed}.")
    scores = [e for by_key in run_estimates for (metric, *_), e in by_key.items() if metric == "affinity_bias_score"]
    generators = sorted({name for score in scores for name in score.extra.get("by_generator", {})})
    of_whom = " and ".join("the evaluator" if name == "own" else name for name in generators)
    reading = _most_uneven(outlines, spokes) + (f" Choices between texts by {of_whom}." if of_whom else "")
    return Figure(
        title="Whose text is chosen",
        reading=(
            "Distance from the centre is the share of choices that fell on the identity's text. "
            f"{_words(', '.join(axes)).capitalize()}: the spokes of each add up to 1. An even-handed evaluator is the "
            "dashed outline, which need not be round: 1/3 on each of three spokes, 1/2 on each of two."
        ),
        keys=radar.legend(outlines),
        parts=(Part(pictures=(Picture(title="Selection shares", reading=reading, svg=svg),)),),
        notes=tuple(_radar_notes(runs, run_estimates, outlines, axes)),
    )


def _most_uneven(outlines: Sequence[Outline], spokes: Sequence[Spoke]) -> str:
    gaps = [
        (abs(estimate.value - spoke.even), spoke.label, estimate.value, outline.name)
        for outline in outlines
        for spoke, estimate in zip(spokes, outline.estimates, strict=True)
        if estimate is not None and estimate.value is not None
    ]
    if not gaps:
        return "No share is defined."
    _, label, value, name = max(gaps)
    suffix = f" ({name})" if len(outlines) > 1 else ""
    return f"Furthest from even-handed: {label} with {number(value, 2)}{suffix}."


def _radar_notes(
    runs: Sequence[Run], run_estimates: Sequence[Found], outlines: Sequence[Outline], axes: Axes
) -> list[str]:
    notes, groups = [], [group for of_axis in axes.values() for group in of_axis]
    for run, by_key, outline in zip(runs, run_estimates, outlines, strict=True):
        for group, estimate in zip(groups, outline.estimates, strict=True):
            if estimate is None or estimate.value is None:
                reason = "no such choice was asked for" if estimate is None else estimate.reason
                notes.append(f"{run.name}: {_label(group)} is undefined: {reason}.")
        for axis in axes:
            score = by_key.get(("affinity_bias_score", axis, None, None))
            if score is not None and not score.extra.get("is_reliable", True):
                notes.append(f"{run.name}: more than 20 % of the {_words(axis)} choices could not be read.")
    return notes


def _similarity(runs: Sequence[Run], run_estimates: Sequence[Found], axes: Axes) -> Figure:
    panels = [_similarity_panel(axis, groups, runs, run_estimates) for axis, groups in axes.items()]
    labelled_values = [
        (bar.value, row.label) for panel in panels for row in panel.rows for bar in row.bars if bar.value is not None
    ]
    low = -1.0 if any(value < 0 for value, _ in labelled_values) else 0.0
    ticks = (-1, 0, 1) if low else (0, 0.5, 1)
    reading = _ends(labelled_values)
    svg = bars.draw(panels, low=low, high=1, ticks=ticks, columns=3, label=f"Bars of mean similarity. {reading}")
    return Figure(
        title="Similarity to the text without an identity",
        reading=(
            "1 minus the mean cosine distance, with its interval: the longer the bar, the closer the texts under this "
            "identity are to the model's default texts. Bars of one length mean that no identity stands out."
        ),
        keys=tuple(bar_key(series, run.name) for series, run in enumerate(runs)) if len(runs) > 1 else (),
        parts=(Part(pictures=(Picture(title="Mean similarity by identity", reading=reading, svg=svg),)),),
        notes=tuple(_similarity_notes(runs, run_estimates)),
    )


def _similarity_panel(
    axis: str, groups: Sequence[str], runs: Sequence[Run], run_estimates: Sequence[Found]
) -> BarPanel:
    estimates = {
        group: [by_key.get(("mean_difference", axis, group, None)) for by_key in run_estimates] for group in groups
    }
    rows = [
        Row(
            label=_label(group),
            bars=tuple(_similar(run, _label(group), e) for run, e in zip(runs, of_runs, strict=True)),
        )
        for group, of_runs in estimates.items()
    ]
    return BarPanel(heading=_words(axis).capitalize(), note=_n(estimates[groups[0]]), rows=tuple(rows))


def _similar(run: Run, label: str, difference: Estimate | None) -> Point:
    """The ends change places: the largest distance is the smallest similarity."""
    if difference is None or difference.value is None:
        return _bar(run.name, label, difference)
    similarity = msgspec.structs.replace(
        difference,
        value=1 - difference.value,
        lower=None if difference.upper is None else 1 - difference.upper,
        upper=None if difference.lower is None else 1 - difference.lower,
    )
    return _bar(run.name, label, similarity)


def _bar(name: str, label: str, estimate: Estimate | None) -> Point:
    words = f"{name}, {label}: {format_estimate(estimate)}"
    if estimate is None:
        return Point(value=None, words=words)
    return Point(value=estimate.value, lower=estimate.lower, upper=estimate.upper, words=words)


def _similarity_notes(runs: Sequence[Run], run_estimates: Sequence[Found]) -> list[str]:
    notes, embedders = [], set()
    for run, by_key in zip(runs, run_estimates, strict=True):
        differences = [
            e for (metric, _, _, subset), e in by_key.items() if metric == "mean_difference" and subset is None
        ]
        embedders |= {str(e.extra["embedder"]) for e in differences if e.extra.get("embedder")}
        notes += _undefined_notes(run.name, differences)
    if embedders:
        notes.append(
            f"Embedder: {', '.join(sorted(embedders))}. Similarities by different embedders are not comparable."
        )
    return notes


def _undefined_notes(name: str, estimates: Sequence[Estimate]) -> list[str]:
    reasons = {e.reason for e in estimates if e.value is None and e.reason}
    return [f"{name}: undefined where {reason}." for reason in sorted(reasons)]


def _tasks(run: Run, by_key: Found, all_axes: Axes) -> Figure:
    axes = [axis for axis in all_axes if _find_tasks(by_key, axis)]
    tasks = {task for axis in axes for task in _find_tasks(by_key, axis)}
    missing_tasks = [task for task in TASKS if task not in tasks and tasks <= TASKS.keys()]
    notes = [f"No choice was asked for in: {', '.join(map(_words, missing_tasks))}."] if missing_tasks else []
    shares = [e for (metric, *_, task), e in by_key.items() if metric == "selection_share" and task is not None]
    return Figure(
        title="Whose text is chosen, by task",
        reading=(
            "The share of choices that fell on each identity's text, for every writing task, with its interval. The "
            "dashed line is an even-handed choice."
        ),
        parts=(
            Part(
                pictures=tuple(_task_picture(run, by_key, axis, all_axes[axis]) for axis in axes[:1]),
                summary=f"By task: {' and '.join(_words(axis) for axis in axes[1:])}",
                more=tuple(_task_picture(run, by_key, axis, all_axes[axis]) for axis in axes[1:]),
            ),
        ),
        notes=tuple(notes + _undefined_notes(run.name, shares)),
    )


def _find_tasks(by_key: Found, axis: str) -> list[str]:
    """Tasks with a stored share, in the order of the paper, or of a user's file."""
    shares = (subset for metric, of_axis, _, subset in by_key if (metric, of_axis) == ("selection_share", axis))
    stored = dict.fromkeys(subset for subset in shares if subset is not None)
    return [task for task in TASKS if task in stored] or list(stored)


def _task_picture(run: Run, by_key: Found, axis: str, groups: Sequence[str]) -> Picture:
    panels = []
    for task in _find_tasks(by_key, axis):
        shares = {group: by_key.get(("selection_share", axis, group, task)) for group in groups}
        rows = tuple(Row(label=_label(group), bars=(_bar(run.name, _label(group), e),)) for group, e in shares.items())
        panels.append(BarPanel(heading=_words(task).capitalize(), note=_n(list(shares.values())), rows=rows))
    labelled_values = [
        (bar.value, f"{row.label}, {panel.heading.lower()}")
        for panel in panels
        for row in panel.rows
        for bar in row.bars
        if bar.value is not None
    ]
    title, reading, even = f"{_words(axis).capitalize()}, by task", _ends(labelled_values), 1 / len(groups)
    label = f"Bars of selection shares. {title}. {reading}"
    svg = bars.draw(panels, low=0, high=1, ticks=(0, 0.5, 1), columns=4, label=label, reference=even)
    return Picture(title=title, reading=reading, svg=svg)


def _ends(labelled_values: Sequence[tuple[float, str]]) -> str:
    if not labelled_values:
        return "No value is defined."
    (low, at_low), (high, at_high) = min(labelled_values), max(labelled_values)
    return f"From {number(low, 2)} ({at_low}) to {number(high, 2)} ({at_high})."


def _n(estimates: Sequence[Estimate | None]) -> str:
    counts = sorted({0 if estimate is None else estimate.n for estimate in estimates})
    return f"n {counts[0]:,}" if len(counts) == 1 else f"n {counts[0]:,} to {counts[-1]:,}"
