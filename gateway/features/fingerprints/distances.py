"""Models against axes: distance from neutral in a metric's unit; hatched if chance or no interval explains it."""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.colours import diverging
from benchmarks.figures.display import number, signed
from benchmarks.figures.figure import Figure, Key, alone
from benchmarks.figures.panels import Point
from benchmarks.figures.svg import NARROW, WIDE, in_both_widths
from benchmarks.figures.tiles import Matrix, Tile, colour_key, tile_key
from benchmarks.figures.tiles import draw as draw_tiles

NAME_WIDTH, NARROW_NAME_WIDTH = 170.0, 92.0
COLUMN = 74.0, 130.0
"""Least and most pixels of a column."""
NAMELESS = "(no name)"
NO_COLOUR = diverging(0.0, -1.0, 1.0)


class Cell(Point, frozen=True, kw_only=True):
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
    if cell.interval is None or cell.interval[0] <= neutral <= cell.interval[1]:
        return True
    return cell.chance is not None and neutral < cell.interval[0] <= cell.chance


def figure(distances: Distances, title: str, low: float, high: float) -> Figure:
    """Return the map as a figure. Colours end at the distance of the farther end of the metric's scale, low to high."""
    farthest = max(high - distances.neutral, distances.neutral - low)
    maps = in_both_widths(lambda width: draw(distances, label=title, farthest=farthest, width=width))
    return Figure(title=title, keys=legend(distances, farthest), parts=alone(maps))


def draw(distances: Distances, *, label: str, farthest: float, width: float = WIDE) -> str:
    """Return the map as SVG, in blocks if axes do not fit. `farthest`: distance at the colours' ends, positive."""

    def tiles(model: str, cells: Sequence[Cell | None]) -> list[Tile]:
        pairs = zip(distances.axes, cells, strict=True)
        return [_tile(distances, f"{model}, {axis}", cell, farthest) for axis, cell in pairs]

    matrix = Matrix(
        rows=_named(distances.models),
        columns=_named(distances.axes),
        tiles=list(map(tiles, distances.models, distances.cells)),
        left=NARROW_NAME_WIDTH if width <= NARROW else NAME_WIDTH,
        column=COLUMN,
    )
    return draw_tiles(matrix, label=label, width=width)


def legend(distances: Distances, farthest: float) -> tuple[Key, ...]:
    places = distances.places
    words = f"distance from neutral ({number(distances.neutral, places)})"
    return (
        colour_key((-farthest, 0.0, farthest), words, step_width=4, places=places),
        tile_key(NO_COLOUR, "the interval contains the neutral value, or is absent", is_hatched=True),
        tile_key(None, "not enough data: undefined, not 0"),
    )


def _named(names: Sequence[str]) -> list[str]:
    return [name or NAMELESS for name in names]


def _tile(distances: Distances, about: str, cell: Cell | None, farthest: float) -> Tile:
    words = f"{about}: {_describe(distances, cell)}"
    if cell is None or cell.drawable is None:
        return Tile(words=words, lines=(("not enough", 10.0), ("data", 10.0)))
    distance = cell.drawable - distances.neutral
    is_hatched = is_open(cell, distances.neutral)
    return Tile(
        words=words,
        lines=((signed(distance, distances.places), 13.0), (_count(cell.n, "n {:,}"), 10.0)),
        fill=NO_COLOUR if is_hatched else diverging(distance, -farthest, farthest),
        is_hatched=is_hatched,
    )


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
