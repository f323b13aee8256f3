"""The heat maps of the long-text fairness test, from stored estimates (protocols 2.14)."""

from collections.abc import Mapping, Sequence

from auditors.types import Estimate
from benchmarks.figures.colours import REFUSED, diverging
from benchmarks.figures.display import number
from benchmarks.figures.figure import Figure, Part, Picture, Run, format_estimate
from benchmarks.figures.svg import width_of
from benchmarks.figures.tiles import CODE_WIDTH, Matrix, Tile, colour_key, draw, tile_key
from benchmarks.suites.ltf_test.data import CONTROL

FIGURE_GROUPS: Mapping[str, tuple[str, ...]] = {
    "religion": ("christians", "muslims", "hindus", "buddhists", "spiritists"),
    "sexual_orientation": ("heterosexuals", "gays", "lesbians", "asexuals", "pansexuals"),
    "politics": ("republicans", "democrats", "liberals", "conservatives", "progressives"),
    "nationality": ("americans", "russians", "chinese", "indians", "brazilians"),
}
"""Groups in the paper's figures of its long axes, in their order; the other axes show every group."""
FIGURE_AXES = (
    *("gender", "race", "religion", "sexual_orientation", "ability", "socioeconomic", "body_type"),
    *("politics", "age", "nationality"),
)
"""Axes in the order of the paper's figures."""

LOW, HIGH = -1.0, 2.0
"""Ends of the fixed scale: the lowest and highest score of an essay."""
SUBSETS: Mapping[str | None, str] = {None: "all questions asked", "eval": "questions that people marked (eval)"}
FEW = 10
"""Cells of fewer replies are hatched: a number of so few is not assessable."""
COLUMN_WIDTH, NAME_WIDTH = 70.0, 170.0

Pairs = Mapping[tuple[str, str], Estimate]
"""F by (group that the question favours, the other)."""


def figures(runs: Sequence[Run]) -> list[Figure]:
    """Return each axis' maps of all runs side by side: the paper's groups, over all questions and over `eval`."""
    axes = dict.fromkeys(e.axis for run in runs for e in run.estimates if e.metric == "favoritism" and e.axis)
    parts = tuple(_part(runs, axis) for axis in sorted(axes, key=[*FIGURE_AXES, *axes].index))
    if not parts:
        return []
    reading = (
        "Each cell is F, the mean score of essays asked why the row is better than the column: 2 takes the row's side, "
        "0 neither, −1 the column's. A model that treats two groups equally has the same number on both sides of the "
        "diagonal. Point at a cell for its interval."
    )
    keys = (
        colour_key(range(round(LOW), round(HIGH) + 1), "value, on this scale in every map", step_width=8),
        tile_key(diverging(HIGH / 2, LOW, HIGH), f"fewer than {FEW} essays", is_hatched=True),
        tile_key(REFUSED, "every essay a refusal: undefined, or 0 by the paper's rule, not balance"),
        tile_key(None, "undefined: no essay with a score", sign="–"),
    )
    return [Figure(title="Favouritism between groups", reading=reading, keys=keys, parts=parts)]


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
    """Return a map of the paper's groups for each subset and run, and of all groups behind a line to open."""
    by_place = {(s, run.name): pairs for s in SUBSETS for run in runs if (pairs := _pairs(run.estimates, axis, s))}
    of_paper, of_all = [], []
    for (subset, name), pairs in by_place.items():
        everyone = _groups(pairs)
        chosen = [group for group in FIGURE_GROUPS.get(axis, ()) if group in everyone] or everyone
        title = f"{_named(axis)}, {SUBSETS[subset]}" + (f" · {name}" if len(runs) > 1 else "")
        of_paper.append(_picture(title, pairs, chosen))
        of_all.append(_picture(title, pairs, everyone))
    if axis not in FIGURE_GROUPS:
        return Part(pictures=tuple(of_paper))
    n_groups = max(len(_groups(pairs)) for pairs in by_place.values())
    return Part(pictures=tuple(of_paper), summary=f"{_named(axis)}: all {n_groups} groups", more=tuple(of_all))


def _named(axis: str) -> str:
    words = axis.replace("_", " ").capitalize()
    return f"{words} (control: invented groups)" if axis == CONTROL else words


def codes_of(names: Sequence[str]) -> tuple[str, ...]:
    """The first two letters; a name whose two are taken gets more of its letters, and a number when it has no more."""
    codes: list[str] = []
    for name in names:
        letters = (name[:n].upper() for n in range(2, len(name) + 1))
        numbered = (f"{name[:2].upper()}{n}" for n in range(1, len(names) + 1))
        codes.append(next(code for code in (*letters, *numbered) if code not in codes))
    return tuple(codes)


def _picture(title: str, pairs: Pairs, groups: Sequence[str]) -> Picture:
    names, codes = [group.replace("_", " ") for group in groups], codes_of(groups)
    stored = {
        (p, q): pairs.get((groups[p], groups[q])) for p in range(len(groups)) for q in range(len(groups)) if p != q
    }
    tiles = [
        [_tile(f"{row} over {column}", stored[p, q]) if p != q else None for q, column in enumerate(names)]
        for p, row in enumerate(names)
    ]
    reading = _reading([(estimate, f"{codes[p]} over {codes[q]}") for (p, q), estimate in stored.items()])
    left = min(NAME_WIDTH, max(width_of(words, 12) for words in ("row over col", *names)) + 4 + 8) + CODE_WIDTH
    matrix = Matrix(
        rows=names,
        columns=names,
        tiles=tiles,
        codes=codes,
        corner="row over column",
        left=left,
        column=(COLUMN_WIDTH, COLUMN_WIDTH),
    )
    return Picture(title=title, reading=reading, svg=draw(matrix, label=f"Heat map. {title}. {reading}"))


def _tile(about: str, estimate: Estimate | None) -> Tile:
    words = f"{about}: {format_estimate(estimate)}"
    refusals = 0 if estimate is None else estimate.extra.get("refusals", 0)
    all_refused = bool(refusals) and refusals == _n_essays(estimate)
    n = f"n {0 if estimate is None else estimate.n:,}"
    if estimate is None or estimate.value is None:
        lines = (("–", 13.0), ("all refused" if all_refused else n, 10.0))
        return Tile(words=words, lines=lines, fill=REFUSED if all_refused else None)
    refused = "all refused" if all_refused else f"{refusals:,} refused"
    return Tile(
        words=words,
        lines=((number(estimate.value, 2), 13.0), (n, 10.0), *([(refused, 9.5)] if refusals else [])),
        fill=REFUSED if all_refused else diverging(estimate.value, LOW, HIGH),
        is_hatched=0 < estimate.n < FEW,
    )


def _n_essays(estimate: Estimate | None) -> int:
    """Return the number of essays that a value would rest on if refusals were not left out."""
    return 0 if estimate is None else estimate.n + int(estimate.extra.get("excluded", {}).get("refusal", 0))


def _reading(drawn: Sequence[tuple[Estimate | None, str]]) -> str:
    defined = [(e.value, words) for e, words in drawn if e is not None and e.value is not None]
    n = sum(_n_essays(e) for e, _ in drawn)
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
