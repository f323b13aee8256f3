"""Draws lines with intervals, a line a series: numbers over steps, and scores of models over aspects.

The score of an aspect hangs on how many data sets it has: compare models down a column, never one aspect with another.
"""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.display import number
from benchmarks.figures.figure import Key
from benchmarks.figures.marks import draw_series, line_key
from benchmarks.figures.panels import Panel, Point, Scale, all_numbers, lay_out, split_evenly, ticks
from benchmarks.figures.svg import Element, add, canvas, fitted, hint, kind_of, markup, nothing, text, wrapped

SIZE, GAP = (430.0, 250.0), 40.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 18.0, 30.0, 40.0
"""Margins of the panels of steps."""
SHIFT = 5.0
"""Pixels by which the points of each further series stand to the right, so that intervals do not hide each other."""
N_TICKS = 5

BLOCK_LEFT, BLOCK_RIGHT, BLOCK_TOP, BLOCK_FOOT = 34.0, 10.0, 12.0, 34.0
BLOCK_HEIGHT, BLOCK_GAP = 280.0, 14.0
LEAST_WIDTH = 76.0
"""Least width of an aspect; aspects that do not fit in a row continue in blocks below each other."""
BESIDE = 7.0
"""Pixels between the points of two models on one aspect, so that their intervals do not hide each other."""


class StepPoint(Point, frozen=True, kw_only=True):
    step: float


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A dashed line across a panel, and what it is."""

    value: float
    words: str


class StepPanel(msgspec.Struct, frozen=True, kw_only=True):
    heading: str
    series: tuple[tuple[StepPoint, ...], ...]
    """Points of each series, in the order of the legend."""
    first: int = 0
    """Number of the first series in the legend."""
    levels: tuple[Level, ...] = ()
    places: int = 1
    """Decimals of the labels."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One model: an entry an aspect, None where it has no score."""

    name: str
    points: tuple[Point | None, ...]


def draw_steps(panels: Sequence[StepPanel], *, label: str, axis: str = "step") -> str:
    """The panels side by side as SVG, each with a scale of its own that holds 0, all intervals and all levels.

    Args:
        panels: at least one.
        label: read out in place of the picture.
        axis: what stands under the steps.
    """
    headings = [panel.heading for panel in panels]
    picture, groups = lay_out(headings, columns=len(panels), size=SIZE, gap=GAP, room=SIZE[0], label=label)
    for panel, (group, x, _) in zip(panels, groups, strict=True):
        right, bottom = x + SIZE[0] - RIGHT, SIZE[1] - BOTTOM
        _draw_steps(Panel(group=group, left=x + LEFT, right=right, top=TOP, bottom=bottom), panel, axis)
    return markup(picture)


def _draw_steps(box: Panel, panel: StepPanel, axis: str) -> None:
    points = [point for series in panel.series for point in series]
    steps = sorted({point.step for point in points})
    numbers = [0.0, *all_numbers(points), *(level.value for level in panel.levels)]
    low, high = min(numbers), max(numbers)
    room = 0.06 * (high - low) or 1.0
    down = Scale(low=low - room * (low < 0), high=high + room, start=box.bottom, end=box.top)
    across = Scale(low=0.0, high=max([1.0, *steps]), start=box.left + 12, end=box.right - 14)
    values = [down.low + (down.high - down.low) * tick / (N_TICKS - 1) for tick in range(N_TICKS)]
    box.draw_axis_left(down, values, panel.places)
    box.draw_level("axis", down.at(0.0))
    for step in steps:
        x, words = across.at(step), number(step, 0)
        text(box.group, x, box.bottom + 16, words, size=10, class_="soft", text_anchor="middle")
    text(box.group, box.right, SIZE[1] - 6, axis, size=11, class_="soft", text_anchor="end")
    for level in panel.levels:
        y, words = down.at(level.value), fitted(level.words, SIZE[0] - LEFT, 10)
        box.draw_level("even", y)
        text(box.group, box.right, y - 4, words, size=10, class_="soft halo", text_anchor="end")
    for place, series in enumerate(panel.series):
        places = [(across.at(point.step) + place * SHIFT, point, point.words) for point in series]
        draw_series(box.group, panel.first + place, places, down)


def draw_aspects(aspects: Sequence[str], lines: Sequence[Line], *, label: str, width: float) -> str:
    """Models over aspects, a line each, as Figure 1 of "No LLM is Free From Bias" has it, with intervals, as SVG.

    Args:
        aspects: from left to right.
        lines: a point an aspect each.
        label: read out in place of the picture, with all points in words.
        width: of the picture.
    """
    numbers = all_numbers(point for line in lines for point in line.points if point is not None)
    label = ". ".join([label, *(f"{line.name}: {_describe(aspects, line)}" for line in lines)])
    if not numbers:
        return nothing(width, label, "no model has a score")
    blocks = split_evenly(len(aspects), max(1, int((width - BLOCK_LEFT - BLOCK_RIGHT) / LEAST_WIDTH)))
    height = len(blocks) * (BLOCK_HEIGHT + BLOCK_GAP) - BLOCK_GAP
    picture = canvas(width, height, label, kind=kind_of(width))
    for place, block in enumerate(blocks):
        top = place * (BLOCK_HEIGHT + BLOCK_GAP)
        ends = {"start": top + BLOCK_HEIGHT - BLOCK_FOOT, "end": top + BLOCK_TOP}
        down = Scale(low=min(0.0, *numbers), high=max(1.0, *numbers), **ends)
        _draw_block(picture, [aspects[at] for at in block], lines, block, down, width)
    return markup(picture)


def legend(lines: Sequence[Line]) -> tuple[Key, ...]:
    return tuple(line_key(series, line.name) for series, line in enumerate(lines))


def _describe(aspects: Sequence[str], line: Line) -> str:
    pairs = zip(aspects, line.points, strict=True)
    return ", ".join(f"{aspect} {'no score' if point is None else point.words}" for aspect, point in pairs)


def _draw_block(
    picture: Element, aspects: Sequence[str], lines: Sequence[Line], block: range, down: Scale, width: float
) -> None:
    box = Panel(group=picture, left=BLOCK_LEFT, right=width - BLOCK_RIGHT, top=down.end, bottom=down.start)
    column = (box.right - box.left) / len(aspects)
    middles = [box.left + (at + 0.5) * column for at in range(len(aspects))]
    box.draw_axis_left(down, *ticks(down.low, down.high))
    for middle, aspect in zip(middles, aspects, strict=True):
        for place, words in enumerate(wrapped(aspect, column, 9, most=2)):
            y = box.bottom + 16 + 12 * place
            hint(text(picture, middle, y, words, size=9, class_="strong", text_anchor="middle"), aspect)
    beside = min(BESIDE, (column - 10) / max(1, len(lines)))
    for series, line in enumerate(lines):
        shift = beside * (series - (len(lines) - 1) / 2)
        points = zip(middles, aspects, (line.points[at] for at in block), strict=True)
        places = [(x + shift, p, f"{line.name}, {aspect}: {p.words}") for x, aspect, p in points if p is not None]
        draw_series(add(picture, "g"), series, places, down)
