"""Models against axes: how far each number is from neutral, in the metric's own unit.

A cell whose interval holds neutral, or that has none, is hatched: nothing says that it is apart. So is one whose
interval begins below what chance alone makes of neutral. One without enough data has no colour at all.
"""

import msgspec

from benchmarks.figures.colours import diverging, ink_on
from benchmarks.figures.display import number, signed
from benchmarks.figures.figure import Key
from benchmarks.figures.heatmap import GAP, SWATCH_HEIGHT, SWATCH_WIDTH, box, colour_bar, hatch, swatch, write
from benchmarks.figures.scales import known, known_of
from benchmarks.figures.svg import NARROW, WIDE, Element, add, canvas, hint, kind_of, markup, text, wrapped

ROW, HEAD, BLOCK_GAP = 46.0, 36.0, 16.0
NAME_WIDTH, NARROW_NAME_WIDTH = 170.0, 92.0
LEAST_WIDTH, MOST_WIDTH = 74.0, 130.0
"""Of a column."""
NAMELESS = "(no name)"
UNDEFINED = ("not enough", "data")


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The number of one model on one axis; undefined where `value` is None."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    chance: float | None = None
    """What a model at neutral would show on average, for a number that chance raises above it."""
    n: int | None
    """None where it is not known, as of a number in print."""
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
    """Whether its interval holds neutral, or begins below what chance makes of it, or it has none."""
    lower, upper, chance = known(cell.lower), known(cell.upper), known(cell.chance)
    if lower is None or upper is None or lower <= neutral <= upper:
        return True
    return chance is not None and neutral < lower <= chance


def reach(found: Distances) -> float:
    """The distance at both ends of the colours: the largest that is seen."""
    values = known_of(cell.value for row in found.cells for cell in row if cell is not None)
    return max((abs(value - found.neutral) for value in values), default=0.0) or 1.0


def draw(found: Distances, *, label: str, farthest: float | None = None, width: float = WIDE) -> str:
    """The map as SVG. Axes that have no room beside each other stand in blocks below each other.

    Args:
        found: one metric.
        label: read out in place of the picture.
        farthest: distance at both ends of the colours, positive; None takes the largest that is seen.
        width: of the picture.
    """
    left = NARROW_NAME_WIDTH if width <= NARROW else NAME_WIDTH
    blocks = _blocks(len(found.axes), max(1, int((width - left) / LEAST_WIDTH)))
    column = min(MOST_WIDTH, (width - left) / max(map(len, blocks), default=1))
    height = HEAD + ROW * len(found.models)
    if not found.models or not blocks:
        picture = canvas(width, 24, label, kind=kind_of(width))
        text(picture, 0, 16, "nothing was measured", size=13, class_="soft")
        return markup(picture)
    n = len(blocks)
    picture = canvas(width, n * height + (n - 1) * BLOCK_GAP, label, description=summary(found), kind=kind_of(width))
    scale = reach(found) if farthest is None else farthest
    for place, block in enumerate(blocks):
        _draw_block(picture, found, block, _Place(left=left, top=place * (height + BLOCK_GAP), column=column), scale)
    return markup(picture)


def legend(found: Distances, farthest: float | None = None) -> tuple[Key, ...]:
    """What colours and hatching mean."""
    scale = reach(found) if farthest is None else farthest
    hatched, undefined = swatch(), swatch()
    fill = diverging(scale / 2, -scale, scale)
    box(hatched, fill)
    hatch(hatched, 0, 0, SWATCH_WIDTH, SWATCH_HEIGHT, ink_on(fill))
    box(undefined, "none", class_="undefined")
    bar = colour_bar(-scale, scale, (-scale, 0.0, scale), found.places)
    return (
        Key(svg=markup(bar), words=f"distance from neutral ({number(found.neutral, found.places)})"),
        Key(svg=markup(hatched), words="the interval holds neutral, or there is none"),
        Key(svg=markup(undefined), words="not enough data: undefined, not 0"),
    )


def summary(found: Distances) -> str:
    """The cells in words."""
    return "; ".join(
        f"{model}: " + ", ".join(f"{axis} {_words(found, cell)}" for axis, cell in zip(found.axes, row, strict=True))
        for model, row in zip(found.models, found.cells, strict=True)
    )


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """Of a block: where its columns and rows begin, and how wide a column is."""

    left: float
    top: float
    column: float


def _blocks(n_axes: int, at_once: int) -> list[range]:
    """As few as there can be, and about equally long."""
    if not n_axes:
        return []
    length = -(-n_axes // -(-n_axes // at_once))
    return [range(first, min(first + length, n_axes)) for first in range(0, n_axes, length)]


def _draw_block(picture: Element, found: Distances, block: range, place: _Place, scale: float) -> None:
    for number_of, axis in enumerate(block):
        middle = place.left + (number_of + 0.5) * place.column
        shown = wrapped(found.axes[axis] or NAMELESS, place.column - 2, 10, most=2)
        top = place.top + HEAD - 8 - 13 * (len(shown) - 1)
        for line, words in enumerate(shown):
            drawn = text(picture, middle, top + 13 * line, words, size=10, class_="strong", text_anchor="middle")
            hint(drawn, found.axes[axis])
    for row, model in enumerate(found.models):
        y = place.top + HEAD + row * ROW
        shown = wrapped(model or NAMELESS, place.left - 8, 12, most=2)
        for line, words in enumerate(shown):
            drawn = text(picture, 0, y + ROW / 2 + 4 - 7 * (len(shown) - 1) + 14 * line, words)
            hint(drawn, model)
        for number_of, axis in enumerate(block):
            cell = found.cells[row][axis]
            group = add(picture, "g", class_="cell", data_row=model, data_column=found.axes[axis])
            hint(group, f"{model}, {found.axes[axis]}: {_words(found, cell)}")
            _draw_cell(group, found, cell, (place.left + number_of * place.column, y), place.column, scale)


def _draw_cell(
    group: Element, found: Distances, cell: Cell | None, corner: tuple[float, float], column: float, scale: float
) -> None:
    x, y, width, height = corner[0] + GAP, corner[1] + GAP, column - 2 * GAP, ROW - 2 * GAP
    value = None if cell is None else known(cell.value)
    if cell is None or value is None:
        add(group, "rect", class_="undefined", fill="none", x=x, y=y, width=width, height=height)
        for line, words in enumerate(UNDEFINED):
            place = y + 19 + 13 * line
            text(group, x + width / 2, place, words, size=10, class_="soft", text_anchor="middle")
        return
    distance = value - found.neutral
    fill = diverging(distance, -scale, scale)
    add(group, "rect", fill=fill, x=x, y=y, width=width, height=height)
    has_plates = is_open(cell, found.neutral)
    if has_plates:
        hatch(group, x, y, width, height, ink_on(fill))
    lines = [(signed(distance, found.places), 13.0), (_n(cell.n), 10.0)]
    write(group, lines, (x + width / 2, y + 20), width, fill, has_plates=has_plates)


def _n(n: int | None) -> str:
    return "n not known" if n is None else f"n {n:,}"


def _said_n(n: int | None) -> str:
    return "n not known" if n is None else f"n = {n:,}"


def _words(found: Distances, cell: Cell | None) -> str:
    if cell is None:
        return "not enough data: nothing was measured"
    value, lower, upper = known(cell.value), known(cell.lower), known(cell.upper)
    if value is None:
        return f"not enough data: {cell.reason or 'no value'}, {_said_n(cell.n)}"
    words = f"{signed(value - found.neutral, found.places)} from neutral"
    if lower is None or upper is None:
        return f"{words}, no interval, {_said_n(cell.n)}"
    ends = f"{signed(lower - found.neutral, found.places)} to {signed(upper - found.neutral, found.places)}"
    if lower <= found.neutral <= upper:
        ends += ", which holds neutral"
    elif is_open(cell, found.neutral):
        ends += f", chance alone makes {signed((cell.chance or 0.0) - found.neutral, found.places)}"
    return f"{words} ({ends}), {_said_n(cell.n)}"
