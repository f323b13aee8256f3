"""A matrix of tiles, a number and its colour for every row and column, and the legend of its colours."""

from collections.abc import Sequence
from math import inf
from typing import Any

import msgspec

from benchmarks.figures.colours import diverging, ink_class, ink_on
from benchmarks.figures.display import number
from benchmarks.figures.figure import Key
from benchmarks.figures.marks import KEY_HEIGHT, key
from benchmarks.figures.panels import split_evenly
from benchmarks.figures.svg import (
    Element,
    add,
    canvas,
    fitted,
    hint,
    kind_of,
    markup,
    nothing,
    paragraph,
    text,
    width_of,
)  # fmt: skip

HEIGHT, HEAD, BLOCK_GAP, GAP = 48.0, 36.0, 16.0, 1.0
"""Pixels of a row, of the heads above it, between blocks of columns and around a tile."""
CODE_WIDTH = 46.0
KEY_WIDTH = 26.0
HATCH_STEP = 7.0


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    words: str
    """Text shown to a reader who points at it."""
    lines: tuple[tuple[str, float], ...]
    """Two or three lines with their font sizes."""
    fill: str | None = None
    """The colour; None where it is undefined."""
    is_hatched: bool = False


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    rows: Sequence[str]
    columns: Sequence[str]
    tiles: Sequence[Sequence[Tile | None]]
    """A row a row, an entry a column; None where nothing belongs."""
    left: float
    """Pixels of the names of the rows."""
    column: tuple[float, float]
    """Least and most pixels of a column."""
    codes: Sequence[str] = ()
    """Short names of the columns, which are the rows'."""
    corner: str = ""

    def describe(self) -> str:
        """Return all tiles in words."""
        return "; ".join(tile.words for tiles in self.tiles for tile in tiles if tile is not None)


def draw(matrix: Matrix, *, label: str, width: float = inf) -> str:
    """Return the matrix as SVG, in blocks of columns if all do not fit; without a `width` it is as wide as it is."""
    n, left, (least, most) = len(matrix.columns), matrix.left, matrix.column
    blocks = split_evenly(n, max(1, int(min((width - left) / least, n))))
    if not matrix.rows or not blocks:
        return nothing(width, label, "nothing was measured")
    column = min(most, (width - left) / max(map(len, blocks)))
    height = HEAD + HEIGHT * len(matrix.rows) + BLOCK_GAP
    size = left + n * column if width == inf else width, len(blocks) * height - BLOCK_GAP
    picture = canvas(*size, label, description=matrix.describe(), kind="" if width == inf else kind_of(width))
    for place, block in enumerate(blocks):
        _draw_block(picture, matrix, block, place * height + HEAD, column)
    return markup(picture)


def _draw_block(picture: Element, matrix: Matrix, block: range, top: float, column: float) -> None:
    """Draw some of the columns; `top` is the upper edge of the first row."""
    if matrix.corner:
        text(picture, 0, top - 10, matrix.corner, size=10.5, room=matrix.left, class_="soft")
    for place, at in enumerate(block):
        middle = matrix.left + (place + 0.5) * column
        head, size = (matrix.codes[at], 12) if matrix.codes else (matrix.columns[at], 10)
        style: dict[str, Any] = {"size": size, "class_": "strong", "text_anchor": "middle"}
        paragraph(picture, middle, top - 9, head, whole=matrix.columns[at], room=column - 2, most=2, rise=1, **style)
    for row, (name, tiles) in enumerate(zip(matrix.rows, matrix.tiles, strict=True)):
        y = top + row * HEIGHT
        room = matrix.left - 8 - (CODE_WIDTH if matrix.codes else 0)
        paragraph(picture, 0, y + HEIGHT / 2 + 4, name, room=room, most=2, rise=0.5)
        if matrix.codes:
            code: dict[str, Any] = {"room": CODE_WIDTH - 6, "class_": "strong", "text_anchor": "end"}
            text(picture, matrix.left - 6, y + HEIGHT / 2 + 4, matrix.codes[row], **code)
        for place, at in enumerate(block):
            if (tile := tiles[at]) is not None:
                group = add(picture, "g", class_="cell", data_row=name, data_column=matrix.columns[at])
                hint(group, tile.words)
                corner = matrix.left + place * column + GAP, y + GAP
                _draw_tile(group, tile, corner, (column - 2 * GAP, HEIGHT - 2 * GAP))


def _draw_tile(group: Element, tile: Tile, corner: tuple[float, float], size: tuple[float, float]) -> None:
    """Draw a box with its lines, each on a plate that covers the hatching. `corner`: upper left."""
    (x, y), width, fill = corner, size[0], tile.fill
    _draw_box(group, fill, corner, size, is_hatched=tile.is_hatched)
    middle, baseline = x + width / 2, y + (20 if len(tile.lines) == 2 else 15)
    for words, font in tile.lines:
        line = fitted(words, width, font)
        if fill and tile.is_hatched:
            plate = {"x": middle - width_of(line, font) / 2, "width": width_of(line, font)}
            add(group, "rect", fill=fill, y=baseline - font + 1, height=font + 1, **plate)
        ink = "soft" if fill is None else ink_class(fill)
        text(group, middle, baseline, line, size=font, text_anchor="middle", class_=ink)
        baseline += 13


def _draw_box(
    group: Element, fill: str | None, corner: tuple[float, float], size: tuple[float, float], *, is_hatched: bool
) -> None:
    (x, y), (width, height) = corner, size
    kind = {"class_": "undefined"} if fill is None else {}
    add(group, "rect", fill=fill or "none", x=x, y=y, width=width, height=height, **kind)
    if fill is None or not is_hatched:
        return
    # Lines that fall to the left, each cut at the box: an SVG pattern would need an id.
    path, start = [], HATCH_STEP
    while start < width + height:
        right, left = min(start, width), max(0.0, start - height)
        path.append(f"M{x + right:.2f} {y + start - right:.2f}L{x + left:.2f} {y + start - left:.2f}")
        start += HATCH_STEP
    add(group, "path", class_="hatch", d="".join(path), stroke=ink_on(fill), stroke_opacity=0.25, fill="none")


def tile_key(fill: str | None, words: str, *, is_hatched: bool = False, sign: str = "") -> Key:
    """Return the entry of tiles with the colour `fill`; None: of undefined tiles."""
    group = add(None, "g")
    _draw_box(group, fill, (0.5, 0.5), (KEY_WIDTH - 1, KEY_HEIGHT - 1), is_hatched=is_hatched)
    text(group, KEY_WIDTH / 2, 12, sign, text_anchor="middle", class_="soft")
    return key(words, group, width=KEY_WIDTH)


def colour_key(ends: Sequence[float], words: str, *, step_width: float, places: int = 0) -> Key:
    """Return the entry of a colour scale from the first to the last of `ends`, with each of them as a number below."""
    low, high, steps = ends[0], ends[-1], 30
    width = steps * step_width
    bar = canvas(width + 20, 32, f"colour scale from {number(low, places)} to {number(high, places)}")
    for step in range(steps):
        fill = diverging(low + (step + 0.5) / steps * (high - low), low, high)
        add(bar, "rect", x=10 + step * step_width, y=0, width=step_width, height=16, fill=fill)
    for end in ends:
        label = number(end, places)
        half = width_of(label, 11) / 2
        x = min(max(10 + (end - low) / (high - low) * width, half), width + 20 - half)
        text(bar, x, 29, label, size=11, text_anchor="middle")
    return Key(svg=markup(bar), words=words)
