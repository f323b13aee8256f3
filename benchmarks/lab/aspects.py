"""Draws scores of models over aspects, a line with intervals each: compare models on an aspect, not across aspects."""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.figure import Key
from benchmarks.figures.marks import draw_series, line_key
from benchmarks.figures.panels import Panel, Point, Scale, all_numbers, split_evenly, ticks
from benchmarks.figures.svg import Element, add, canvas, hint, kind_of, markup, nothing, text, wrapped

BLOCK_LEFT, BLOCK_RIGHT, BLOCK_TOP, BLOCK_FOOT = 34.0, 10.0, 12.0, 34.0
BLOCK_HEIGHT, BLOCK_GAP = 280.0, 14.0
LEAST_WIDTH = 76.0
"""Least width of an aspect; aspects that do not fit in a row continue in blocks below each other."""
BESIDE = 7.0
"""Pixels between the points of two models on one aspect, so that their intervals do not hide each other."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One model: an entry an aspect, None where it has no score."""

    name: str
    points: tuple[Point | None, ...]


def draw_aspects(aspects: Sequence[str], lines: Sequence[Line], *, label: str, width: float) -> str:
    """Draw models over aspects as SVG, as Figure 1 of "No LLM is Free From Bias"; `label` gets all points in words."""
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
