"""The heat maps of the long-text fairness test, from stored estimates (protocols 2.14)."""

from collections.abc import Mapping, Sequence

from auditors.types import Estimate
from benchmarks.figures import heatmap
from benchmarks.figures.display import number
from benchmarks.figures.figure import Figure, Part, Picture, Run
from benchmarks.figures.heatmap import HeatMap
from benchmarks.suites.ltf_test.data import CONTROL

FIGURE_GROUPS: Mapping[str, tuple[str, ...]] = {
    "religion": ("christians", "muslims", "hindus", "buddhists", "spiritists"),
    "sexual_orientation": ("heterosexuals", "gays", "lesbians", "asexuals", "pansexuals"),
    "politics": ("republicans", "democrats", "liberals", "conservatives", "progressives"),
    "nationality": ("americans", "russians", "chinese", "indians", "brazilians"),
}
"""Groups in the paper's figures of its long axes, in their order; the other axes show every group."""

LOW, HIGH = -1.0, 2.0
"""Ends of the fixed scale: the lowest and highest score of an essay."""
SUBSETS: Mapping[str | None, str] = {None: "all questions asked", "eval": "questions that people marked (eval)"}

Pairs = Mapping[tuple[str, str], Estimate]
"""F by (group that the question favours, the other)."""


def figures(runs: Sequence[Run]) -> list[Figure]:
    """Return each axis' maps of all runs side by side: the paper's groups, over all questions and over `eval`."""
    parts = tuple(_part(runs, axis) for axis in dict.fromkeys(axis for run in runs for axis in _axes(run)))
    if not parts:
        return []
    reading = (
        "Each cell is F, the mean score of essays asked why the row is better than the column: 2 takes the row's side, "
        "0 neither, −1 the column's. A model that treats two groups equally has the same number on both sides of the "
        "diagonal. Point at a cell for its interval."
    )
    keys = heatmap.legend(low=LOW, high=HIGH)
    return [Figure(title="Favouritism between groups", reading=reading, keys=keys, parts=parts)]


def heat_map(estimates: Sequence[Estimate], axis: str, subset: str | None = None, *, full: bool = False) -> HeatMap:
    """Return F between an axis' groups in the paper's figures, or all if `full`; codes differ within the axis only."""
    pairs = _pairs(estimates, axis, subset)
    everyone = _groups(pairs)
    of_paper = [group for group in FIGURE_GROUPS.get(axis, ()) if group in everyone]
    groups = everyone if full or not of_paper else of_paper
    return HeatMap(
        names=tuple(group.replace("_", " ") for group in groups),
        codes=heatmap.codes_of(groups),
        cells=tuple(tuple(pairs.get((p, q)) for q in groups) for p in groups),
    )


def _axes(run: Run) -> list[str]:
    return list(dict.fromkeys(e.axis for e in run.estimates if e.metric == "favoritism" and e.axis))


def _pairs(estimates: Sequence[Estimate], axis: str, subset: str | None) -> Pairs:
    return {
        (e.group, e.reference): e
        for e in estimates
        if (e.metric, e.axis, e.subset) == ("favoritism", axis, subset) and e.group and e.reference
    }


def _groups(pairs: Pairs) -> list[str]:
    """Return the groups in the order of the estimates, which is the axis's own."""
    return list(dict.fromkeys([*(p for p, _ in pairs), *(q for _, q in pairs)]))


def _part(runs: Sequence[Run], axis: str) -> Part:
    pairs = {(run.name, s): found for run in runs for s in SUBSETS if (found := _pairs(run.estimates, axis, s))}
    places = [(run, s) for s in SUBSETS for run in runs if (run.name, s) in pairs]
    few, full = (tuple(_picture(run, axis, s, runs, full=is_full) for run, s in places) for is_full in (False, True))
    if axis not in FIGURE_GROUPS:
        return Part(pictures=few)
    n_groups = max(len(_groups(each)) for each in pairs.values())
    return Part(pictures=few, summary=f"{_named(axis)}: all {n_groups} groups", more=full)


def _named(axis: str) -> str:
    words = axis.replace("_", " ").capitalize()
    return f"{words} (control: invented groups)" if axis == CONTROL else words


def _picture(run: Run, axis: str, subset: str | None, runs: Sequence[Run], *, full: bool) -> Picture:
    drawn_map = heat_map(run.estimates, axis, subset, full=full)
    title = f"{_named(axis)}, {SUBSETS[subset]}" + (f" · {run.name}" if len(runs) > 1 else "")
    reading = _reading(drawn_map)
    svg = heatmap.draw(drawn_map, low=LOW, high=HIGH, label=f"Heat map. {title}. {reading}")
    return Picture(title=title, reading=reading, svg=svg)


def _reading(drawn_map: HeatMap) -> str:
    drawn = [
        (estimate, f"{drawn_map.codes[p]} over {drawn_map.codes[q]}")
        for p, row in enumerate(drawn_map.cells)
        for q, estimate in enumerate(row)
        if p != q
    ]
    defined = [(e.value, words) for e, words in drawn if e is not None and e.value is not None]
    n = sum(heatmap.n_replies(e) for e, _ in drawn if e is not None)
    refusals = sum(e.extra.get("refusals", 0) for e, _ in drawn if e is not None)
    counts = f"{n:,} essay{'' if n == 1 else 's'}, {refusals:,} of them refused"
    if len(defined) < len(drawn):
        counts += f", {len(drawn) - len(defined)} of {len(drawn)} cells undefined"
    if refusals and refusals == n:
        return f"Every essay was refused, which says nothing about balance; {counts}."
    if not defined:
        return f"No value is defined; {counts}."
    (low, at_low), (high, at_high) = min(defined), max(defined)
    if low == high:
        return f"F is {number(low, 2)} in every cell with essays; {counts}."
    return f"From {number(low, 2)} ({at_low}) to {number(high, 2)} ({at_high}); {counts}."
