"""Models against axes: distance from neutral in a metric's unit; hatched if chance or no interval explains it."""

import msgspec

from benchmarks.figures import svg
from benchmarks.figures.colours import diverging
from benchmarks.figures.display import number, signed
from benchmarks.figures.figure import Figure, Key, Part, Picture
from benchmarks.figures.marks import colour_key, tile, tile_key
from benchmarks.figures.panels import Measure, drop_infinite, split_evenly
from benchmarks.figures.svg import NARROW, WIDE, Element, add, canvas, hint, kind_of, markup, nothing, text, wrapped

ROW, HEAD, BLOCK_GAP, GAP = 46.0, 36.0, 16.0, 1.0
NAME_WIDTH, NARROW_NAME_WIDTH = 170.0, 92.0
LEAST_WIDTH, MOST_WIDTH = 74.0, 130.0
"""Width of a column."""
NAMELESS = "(no name)"
NO_COLOUR = diverging(0.0, -1.0, 1.0)


class Cell(Measure, frozen=True, kw_only=True):
    """The number of a model on an axis."""

    chance: float | None = None
    """The value that a model at neutral would show on average, for a number that chance raises above it."""
    n: int | None
    """Number of replies; None where it is not known, as for a printed number."""
    reason: str = ""
    """Why it is undefined."""


class Distances(msgspec.Struct, frozen=True, kw_only=True):
    """One metric."""

    models: tuple[str, ...]
    axes: tuple[str, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    """A row a model, an entry an axis; None where nothing was measured."""
    neutral: float
    places: int = 2
    """Decimals of the distances."""


def is_open(cell: Cell, neutral: float) -> bool:
    """Return whether the interval holds neutral, begins below what chance gives a neutral model, or is missing."""
    chance = drop_infinite(cell.chance)
    if cell.interval is None or cell.interval[0] <= neutral <= cell.interval[1]:
        return True
    return chance is not None and neutral < cell.interval[0] <= chance


def figure(distances: Distances, title: str, low: float, high: float) -> Figure:
    """Return the map as a figure. Colours end at the distance of the farther end of the metric's scale, low to high."""
    farthest = max(high - distances.neutral, distances.neutral - low)
    maps = svg.in_both_widths(lambda width: draw(distances, label=title, farthest=farthest, width=width))
    parts = (Part(pictures=(Picture(title="", reading="", svg=maps),)),)
    return Figure(title=title, reading="", keys=legend(distances, farthest), parts=parts)


def draw(distances: Distances, *, label: str, farthest: float, width: float = WIDE) -> str:
    """Return the map as SVG, in blocks if axes do not fit. `farthest`: distance at the colours' ends, positive."""
    left = NARROW_NAME_WIDTH if width <= NARROW else NAME_WIDTH
    blocks = split_evenly(len(distances.axes), max(1, int((width - left) / LEAST_WIDTH)))
    if not distances.models or not blocks:
        return nothing(width, label, "nothing was measured")
    column = min(MOST_WIDTH, (width - left) / max(map(len, blocks)))
    height = HEAD + ROW * len(distances.models) + BLOCK_GAP
    size = width, len(blocks) * height - BLOCK_GAP
    picture = canvas(*size, label, description=summary(distances), kind=kind_of(width))
    for place, block in enumerate(blocks):
        _draw_block(picture, distances, block, (left, place * height + HEAD), column, farthest)
    return markup(picture)


def legend(distances: Distances, farthest: float) -> tuple[Key, ...]:
    places = distances.places
    words = f"distance from neutral ({number(distances.neutral, places)})"
    return (
        colour_key((-farthest, 0.0, farthest), words, step_width=4, places=places),
        tile_key(NO_COLOUR, "the interval contains the neutral value, or is absent", is_hatched=True),
        tile_key(None, "not enough data: undefined, not 0"),
    )


def summary(distances: Distances) -> str:
    rows = [zip(distances.axes, row, strict=True) for row in distances.cells]
    described = [", ".join(f"{axis} {_describe(distances, cell)}" for axis, cell in row) for row in rows]
    return "; ".join(f"{model}: {cells}" for model, cells in zip(distances.models, described, strict=True))


def _draw_block(
    picture: Element, distances: Distances, block: range, corner: tuple[float, float], column: float, scale: float
) -> None:
    """Draws some of the axes; `corner` is the upper left of the first cell."""
    left, top = corner
    for place, axis in enumerate(distances.axes[block.start : block.stop]):
        lines = wrapped(axis or NAMELESS, column - 2, 10, most=2)
        for line, words in enumerate(lines, start=1 - len(lines)):
            x, y = left + (place + 0.5) * column, top - 8 + 13 * line
            hint(text(picture, x, y, words, size=10, class_="strong", text_anchor="middle"), axis)
    for row, model in enumerate(distances.models):
        y = top + row * ROW
        lines = wrapped(model or NAMELESS, left - 8, 12, most=2)
        for line, words in enumerate(lines):
            hint(text(picture, 0, y + ROW / 2 + 4 + 14 * (line - (len(lines) - 1) / 2), words), model)
        for place, axis_place in enumerate(block):
            cell, axis = distances.cells[row][axis_place], distances.axes[axis_place]
            group = add(picture, "g", class_="cell", data_row=model, data_column=axis)
            hint(group, f"{model}, {axis}: {_describe(distances, cell)}")
            size = column - 2 * GAP, ROW - 2 * GAP
            _draw_cell(group, distances, cell, (left + place * column + GAP, y + GAP), size, scale)


def _draw_cell(
    group: Element,
    distances: Distances,
    cell: Cell | None,
    corner: tuple[float, float],
    size: tuple[float, float],
    scale: float,
) -> None:
    value = None if cell is None else cell.drawable
    if cell is None or value is None:
        tile(group, corner, size, None, [("not enough", 10.0), ("data", 10.0)])
        return
    distance = value - distances.neutral
    lines = [(signed(distance, distances.places), 13.0), (_count(cell.n, "n {:,}"), 10.0)]
    is_hatched = is_open(cell, distances.neutral)
    fill = NO_COLOUR if is_hatched else diverging(distance, -scale, scale)
    tile(group, corner, size, fill, lines, is_hatched=is_hatched)


def _count(n: int | None, form: str = "n = {:,}") -> str:
    return "n not known" if n is None else form.format(n)


def _describe(distances: Distances, cell: Cell | None) -> str:
    def distance(value: float) -> str:
        return signed(value - distances.neutral, distances.places)

    if cell is None:
        return "not enough data: nothing was measured"
    if cell.drawable is None:
        return f"not enough data: {cell.reason or 'no value'}, {_count(cell.n)}"
    words = f"{distance(cell.drawable)} from neutral"
    if cell.interval is None:
        return f"{words}, no interval, {_count(cell.n)}"
    lower, upper = cell.interval
    ends = f"{distance(lower)} to {distance(upper)}"
    if lower <= distances.neutral <= upper:
        ends += ", which holds neutral"
    elif is_open(cell, distances.neutral):
        ends += f", chance alone makes {distance(cell.chance or 0.0)}"
    return f"{words} ({ends}), {_count(cell.n)}"
