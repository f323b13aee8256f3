"""Models over aspects, a line each, as Figure 1 of "No LLM is Free From Bias" has it, with how sure each point is.

The score of an aspect hangs on how many data sets it has: compare models down a column, never one aspect with another.
"""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.display import number
from benchmarks.figures.figure import Key
from benchmarks.figures.scales import Scale, known, known_of, ticks
from benchmarks.figures.series import dash, line_key, mark, style
from benchmarks.figures.svg import Element, add, canvas, fitted, hint, kind_of, markup, points, text, wrapped

LEFT, RIGHT, TOP, FOOT = 34.0, 10.0, 12.0, 34.0
HEIGHT = 280.0
LEAST_WIDTH = 76.0
"""Of an aspect: more of them than have room stand in blocks below each other."""
BESIDE = 7.0
"""Pixels between the points of two models on one aspect, so that their intervals do not hide each other."""
BLOCK_GAP = 14.0


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The score of one model on one aspect."""

    value: float
    lower: float | None = None
    upper: float | None = None
    words: str
    """What a reader sees who points at it."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One model: an entry an aspect, None where it has no score."""

    name: str
    points: tuple[Point | None, ...]


def draw(aspects: Sequence[str], lines: Sequence[Line], *, label: str, width: float) -> str:
    """The plot as SVG; without a point it says so.

    Args:
        aspects: from left to right.
        lines: a point an aspect each.
        label: read out in place of the picture, with all points in words.
        width: of the picture.
    """
    every = [one for line in lines for one in line.points if one is not None]
    spoken = ". ".join([label, *(f"{line.name}: {_said(aspects, line)}" for line in lines)])
    if not every:
        picture = canvas(width, 24, spoken, kind=kind_of(width))
        text(picture, 0, 16, "no model has a score", size=13, class_="soft")
        return markup(picture)
    blocks = _blocks(len(aspects), max(1, int((width - LEFT - RIGHT) / LEAST_WIDTH)))
    height = len(blocks) * HEIGHT + (len(blocks) - 1) * BLOCK_GAP
    picture = canvas(width, height, spoken, kind=kind_of(width))
    ends = known_of(end for one in every for end in (one.value, one.lower, one.upper))
    low, high = min(0.0, *ends), max(1.0, *ends)
    for place, block in enumerate(blocks):
        top = place * (HEIGHT + BLOCK_GAP)
        down = Scale(low=low, high=high, start=top + HEIGHT - FOOT, end=top + TOP)
        _draw_block(picture, [aspects[at] for at in block], [_part(line, block) for line in lines], down, width)
    return markup(picture)


def legend(lines: Sequence[Line]) -> tuple[Key, ...]:
    return tuple(line_key(series, line.name) for series, line in enumerate(lines))


def _part(line: Line, block: range) -> Line:
    return Line(name=line.name, points=tuple(line.points[at] for at in block))


def _blocks(n_aspects: int, at_once: int) -> list[range]:
    length = -(-n_aspects // -(-n_aspects // at_once))
    return [range(first, min(first + length, n_aspects)) for first in range(0, n_aspects, length)]


def _said(aspects: Sequence[str], line: Line) -> str:
    pairs = zip(aspects, line.points, strict=True)
    return ", ".join(f"{aspect} {'no score' if one is None else one.words}" for aspect, one in pairs)


def _draw_block(picture: Element, aspects: Sequence[str], lines: Sequence[Line], down: Scale, width: float) -> None:
    column = (width - LEFT - RIGHT) / len(aspects)
    levels, places = ticks(down.low, down.high)
    for level in levels:
        y = down.at(level)
        add(picture, "line", class_="ring", x1=LEFT, x2=width - RIGHT, y1=y, y2=y)
        text(picture, LEFT - 6, y + 4, number(level, places), size=10, class_="soft", text_anchor="end")
    for at, aspect in enumerate(aspects):
        for line_of, words in enumerate(wrapped(aspect, column, 9, most=2)):
            y = down.start + 16 + 12 * line_of
            drawn = text(picture, LEFT + (at + 0.5) * column, y, words, size=9, class_="strong", text_anchor="middle")
            hint(drawn, aspect)
    beside = min(BESIDE, (column - 10) / max(1, len(lines)))
    for series, line in enumerate(lines):
        shift = beside * (series - (len(lines) - 1) / 2)
        _draw_line(
            picture, series, line, aspects, [LEFT + (at + 0.5) * column + shift for at in range(len(aspects))], down
        )


def _draw_line(
    picture: Element, series: int, line: Line, aspects: Sequence[str], across: Sequence[float], down: Scale
) -> None:
    group = add(picture, "g", data_model=fitted(line.name, 1000, 12))
    places = [(x, down.at(one.value)) for x, one in zip(across, line.points, strict=True) if one is not None]
    add(group, "polyline", class_=f"outline line {style(series)}", points=points(places), stroke_dasharray=dash(series))
    for x, aspect, one in zip(across, aspects, line.points, strict=True):
        if one is None:
            continue
        drawn = add(group, "g", data_aspect=aspect)
        hint(drawn, f"{line.name}, {aspect}: {one.words}")
        lower, upper = known(one.lower), known(one.upper)
        if lower is not None and upper is not None:
            low, high = down.at(lower), down.at(upper)
            path = f"M{x - 3:.2f} {low:.2f}h6M{x:.2f} {low:.2f}V{high:.2f}M{x - 3:.2f} {high:.2f}h6"
            add(drawn, "path", class_="whisker", d=path)
        mark(drawn, series, x, down.at(one.value))
