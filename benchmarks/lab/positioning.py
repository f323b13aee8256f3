"""Positioning plot of "No LLM is Free From Bias" (Figure 1): normalised rank scores over aspects, with intervals.
The score is linear in a model's rank sum on an aspect. Its interval goes from the sum of the ranks' lower ends to that
of the upper: right for one data set, wider for several. The extremes that normalise scores are taken as observed.
"""

from collections.abc import Mapping, Sequence

from auditors.metrics.ranking import normalised_rank_scores
from benchmarks.figures.display import number, with_ends
from benchmarks.figures.figure import Figure, alone
from benchmarks.figures.marks import Line, draw_lines, line_key
from benchmarks.figures.panels import Panel, Point, Scale, all_numbers, spanning, split_evenly
from benchmarks.figures.svg import canvas, in_both_widths, kind_of, markup, nothing
from benchmarks.published import tables
from benchmarks.published.tables import NO_INTERVAL
from benchmarks.reporting.leaderboard import Leaderboard

BLOCK_LEFT, BLOCK_RIGHT, BLOCK_TOP, BLOCK_FOOT = 34.0, 10.0, 12.0, 34.0
BLOCK_HEIGHT, BLOCK_GAP = 280.0, 14.0
LEAST_WIDTH = 76.0
"""Least width of an aspect; aspects that do not fit in a row continue in blocks below each other."""
MOST_LINES = 8
"""Models in one plot."""
READING = (
    "0 is the lowest sum of ranks of all, 1 the highest. An aspect with more data sets has larger sums: compare models "
    "down a column only."
)
ALL_EQUAL = "every rank sum is the same: chance could swap all models, or none is apart"

Ends = tuple[float, float]
Key = tuple[str, str]
"""Aspect and model."""


def positioning(board: Leaderboard) -> Figure:
    """Draw the positioning plot of our own runs; models without a rank on an aspect have no point there."""
    sums: dict[Key, float] = {}
    ends: dict[Key, Ends | None] = {}
    for at, aspect in enumerate(board.aspects):
        rows = [row for row in board.rows if row.aspect == aspect and row.is_complete]
        for place, model in enumerate(board.models):
            standing = next(standing for standing in board.standings if standing.model == model)
            score = standing.aspects[at]
            if score is not None:
                sums[aspect, model] = score.rank_sum
                # The ends of the rank sum; none if the rank of some row has no interval.
                lower, upper = ([getattr(row.entries[place], end) for row in rows] for end in ("lower", "upper"))
                is_defined = bool(rows) and None not in lower and None not in upper
                ends[aspect, model] = (float(sum(lower)), float(sum(upper))) if is_defined else None
    shown_models = [standing.model for standing in board.standings][:MOST_LINES]
    notes = [f"The first {MOST_LINES} of {len(board.models)} models."] if len(board.models) > MOST_LINES else []
    aspects = [board.aspects[at] for at in board.shown_aspects]
    aspects.sort(key=[*(rank.aspect for rank in tables.ranks()), *aspects].index)
    return _figure(f"Positioning · {board.title}", aspects, shown_models, sums, ends, notes)


def published_positioning() -> Figure:
    """Draw the positioning plot of the ranks that the paper prints."""
    sums: dict[Key, float] = {}
    for rank in tables.ranks():
        sums[rank.aspect, rank.model] = sums.get((rank.aspect, rank.model), 0.0) + rank.rank
    aspects = list(dict.fromkeys(aspect for aspect, _ in sums))
    models = list(dict.fromkeys(model for _, model in sums))
    notes = [f"{NO_INTERVAL[0].upper()}{NO_INTERVAL[1:]}; it prints no rule of its ranks, and ours gives others."]
    return _figure(f"Published: positioning, {tables.RANKS_SOURCE}", aspects, models, sums, {}, notes)


def _figure(
    title: str,
    aspects: Sequence[str],
    models: Sequence[str],
    sums: Mapping[Key, float],
    ends: Mapping[Key, Ends | None],
    notes: Sequence[str],
) -> Figure:
    scores = normalised_rank_scores(sums)
    low, span = min(sums.values(), default=0.0), max(sums.values(), default=0.0) - min(sums.values(), default=0.0)

    def point(key: Key) -> Point:
        score = scores.get(key)
        if score is None:
            return Point(value=None, words="no score")
        between = ends.get(key)
        lower, upper = (None, None) if between is None else ((end - low) / span for end in between)
        words = f"{with_ends(score, lower, upper, 2, without=' (no interval)')}, rank sum {number(sums[key], 0)}"
        return Point(value=score, lower=lower, upper=upper, words=words)

    lines = [Line(name=model, points=tuple(point((aspect, model)) for aspect in aspects)) for model in models]
    names = [aspect.replace("_", " ") for aspect in aspects]
    svg = in_both_widths(lambda width: draw_aspects(names, lines, label=title, width=width))
    is_equal = bool(sums) and span == 0
    return Figure(
        title=title,
        reading=READING,
        keys=tuple(line_key(series, line.name) for series, line in enumerate(lines)),
        parts=alone(svg),
        notes=(*notes, f"No scores: {ALL_EQUAL}.") if is_equal else tuple(notes),
    )


def draw_aspects(aspects: Sequence[str], lines: Sequence[Line], *, label: str, width: float) -> str:
    """Draw models over aspects as SVG, as Figure 1 of "No LLM is Free From Bias"; `label` gets all points in words."""
    numbers = all_numbers(point for line in lines for point in line.points)
    label = ". ".join([label, *(line.describe(aspects) for line in lines)])
    if not numbers:
        return nothing(width, label, "no model has a score")
    blocks = split_evenly(len(aspects), max(1, int((width - BLOCK_LEFT - BLOCK_RIGHT) / LEAST_WIDTH)))
    height = len(blocks) * (BLOCK_HEIGHT + BLOCK_GAP) - BLOCK_GAP
    picture = canvas(width, height, label, kind=kind_of(width))
    across = Scale(low=0.0, high=max(map(len, blocks)), start=BLOCK_LEFT, end=width - BLOCK_RIGHT)
    for place, block in enumerate(blocks):
        top = place * (BLOCK_HEIGHT + BLOCK_GAP)
        down = spanning([0.0, 1.0, *numbers], top + BLOCK_HEIGHT - BLOCK_FOOT, top + BLOCK_TOP)
        heads = [(at + 0.5, aspects[aspect]) for at, aspect in enumerate(block)]
        of_block = [Line(name=line.name, points=line.points[block.start : block.stop]) for line in lines]
        draw_lines(Panel(group=picture, x=across, y=down), heads, of_block, room=across.at(1.0) - across.start)
    return markup(picture)
