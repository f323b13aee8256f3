"""A heat map of one number for every ordered pair of groups (protocols 2.14)."""

from collections.abc import Sequence

import msgspec

from auditors.types import Estimate
from benchmarks.figures.colours import REFUSED, diverging, ink_class, ink_on
from benchmarks.figures.display import number
from benchmarks.figures.figure import Key, spoken
from benchmarks.figures.svg import Element, add, canvas, fitted, hint, markup, text, width_of

FEW = 5
"""Cells of fewer replies are hatched."""

CELL_WIDTH, CELL_HEIGHT = 70.0, 48.0
HEAD = 34.0
CODE_WIDTH = 46.0
NAME_WIDTH = 170.0
GAP = 1.0
SWATCH_WIDTH, SWATCH_HEIGHT = 26.0, 16.0
HATCH_STEP = 7.0


class HeatMap(msgspec.Struct, frozen=True, kw_only=True):
    """Estimates between the groups of one axis: row over column."""

    names: tuple[str, ...]
    codes: tuple[str, ...]
    """Short, told apart within the map only."""
    cells: tuple[tuple[Estimate | None, ...], ...]
    """None on the diagonal, and where nothing is stored."""


def is_sparse(estimate: Estimate) -> bool:
    """Whether a cell rests on so few replies that it is hatched."""
    return 0 < estimate.n < FEW


def is_refused(estimate: Estimate) -> bool:
    """Whether every reply to be scored is a refusal, be it counted or left out."""
    refusals = estimate.extra.get("refusals", 0)
    return bool(refusals) and refusals == n_replies(estimate)


def n_replies(estimate: Estimate) -> int:
    """Replies that a value would rest on were no refusal left out."""
    return estimate.n + int(estimate.extra.get("excluded", {}).get("refusal", 0))


def codes_of(names: Sequence[str]) -> tuple[str, ...]:
    """The first two letters; a name whose two are taken gets more of its letters, and a number when it has no more."""
    codes: list[str] = []
    for name in names:
        letters = (name[:n].upper() for n in range(2, len(name) + 1))
        numbered = (f"{name[:2].upper()}{n}" for n in range(1, len(names) + 1))
        codes.append(next(code for code in (*letters, *numbered) if code not in codes))
    return tuple(codes)


def draw(found: HeatMap, *, low: float, high: float, label: str) -> str:
    """The map as SVG, on the fixed scale `low` to `high`, with the column codes on top."""
    names_width = min(NAME_WIDTH, max(width_of(words, 12) for words in ("row over col", *found.names)) + 4)
    left, size = names_width + CODE_WIDTH, len(found.names)
    picture = canvas(left + size * CELL_WIDTH, HEAD + size * CELL_HEIGHT, label)
    text(picture, 0, HEAD - 10, fitted("row over column", left, 10.5), size=10.5, class_="soft")
    for place, (name, code) in enumerate(zip(found.names, found.codes, strict=True)):
        _draw_headings(picture, place, name, code, left)
    for p, row in enumerate(found.names):
        for q, column in enumerate(found.names):
            if p != q:
                corner = left + q * CELL_WIDTH, HEAD + p * CELL_HEIGHT
                cell = add(picture, "g", class_="cell", data_row=row, data_column=column)
                hint(cell, f"{row} over {column}: {spoken(found.cells[p][q])}")
                _draw_cell(cell, found.cells[p][q], corner, low, high)
    return markup(picture)


def legend(*, low: float, high: float) -> tuple[Key, ...]:
    """What colours and marks mean."""
    hatched, refused, undefined = (swatch() for _ in range(3))
    box(hatched, diverging(high / 2, low, high))
    hatch(hatched, 0, 0, SWATCH_WIDTH, SWATCH_HEIGHT, ink_on(diverging(high / 2, low, high)))
    box(refused, REFUSED)
    box(undefined, "none", class_="undefined")
    text(undefined, SWATCH_WIDTH / 2, 12, "–", text_anchor="middle", class_="soft")
    return (
        Key(svg=markup(colour_bar(low, high)), words="value, on this scale in every map"),
        Key(svg=markup(hatched), words=f"fewer than {FEW} essays"),
        Key(svg=markup(refused), words="every essay a refusal: undefined, or 0 by the paper's rule, not balance"),
        Key(svg=markup(undefined), words="undefined: no essay with a score"),
    )


def _draw_headings(picture: Element, place: int, name: str, code: str, left: float) -> None:
    """Name and code before a row, the code over its column."""
    middle, y = left + (place + 0.5) * CELL_WIDTH, HEAD + (place + 0.5) * CELL_HEIGHT + 4
    hint(text(picture, 0, y, fitted(name, left - CODE_WIDTH, 12)), name)
    shown = fitted(code, CODE_WIDTH - 6, 12)
    text(picture, left - 6, y, shown, class_="strong", text_anchor="end")
    hint(text(picture, middle, HEAD - 10, shown, class_="strong", text_anchor="middle"), name)


def _draw_cell(group: Element, estimate: Estimate | None, corner: tuple[float, float], low: float, high: float) -> None:
    x, y = corner[0] + GAP, corner[1] + GAP
    width, height = CELL_WIDTH - 2 * GAP, CELL_HEIGHT - 2 * GAP
    corners = {"x": x, "y": y, "width": width, "height": height}
    middle = x + width / 2
    if estimate is None or estimate.value is None:
        is_grey = estimate is not None and is_refused(estimate)
        ink = ink_class(REFUSED) if is_grey else "soft"
        add(group, "rect", **({"fill": REFUSED} if is_grey else {"class_": "undefined", "fill": "none"}), **corners)
        words = "all refused" if is_grey else f"n {0 if estimate is None else estimate.n:,}"
        text(group, middle, y + 20, "–", text_anchor="middle", size=13, class_=ink)
        text(group, middle, y + 33, words, text_anchor="middle", size=10, class_=ink)
        return
    fill = REFUSED if is_refused(estimate) else diverging(estimate.value, low, high)
    add(group, "rect", fill=fill, **corners)
    if is_sparse(estimate):
        hatch(group, x, y, width, height, ink_on(fill))
    lines = [(number(estimate.value, 2), 13.0), (f"n {estimate.n:,}", 10.0)]
    if refusals := estimate.extra.get("refusals", 0):
        lines.append(("all refused" if is_refused(estimate) else f"{refusals:,} refused", 9.5))
    write(group, lines, (middle, y + (20 if len(lines) == 2 else 15)), width, fill, has_plates=is_sparse(estimate))


def write(
    group: Element,
    lines: Sequence[tuple[str, float]],
    place: tuple[float, float],
    width: float,
    fill: str,
    *,
    has_plates: bool,
) -> None:
    """Lines of text on a colour.

    Args:
        group: of the cell.
        lines: words and font size of each.
        place: middle of the first one's baseline.
        width: that they may have.
        fill: what they stand on.
        has_plates: whether each covers what is hatched below it.
    """
    middle, top = place
    for words, size in lines:
        shown = fitted(words, width, size)
        if has_plates:
            plate = width_of(shown, size)
            add(group, "rect", fill=fill, x=middle - plate / 2, y=top - size + 1, width=plate, height=size + 1)
        text(group, middle, top, shown, size=size, text_anchor="middle", class_=ink_class(fill))
        top += 13


def hatch(group: Element, x: float, y: float, width: float, height: float, ink: str) -> None:
    """Lines falling to the left, cut at the box by hand: a pattern would need an id."""
    path, start = [], HATCH_STEP
    while start < width + height:
        right, left = min(start, width), max(0.0, start - height)
        path.append(f"M{x + right:.2f} {y + start - right:.2f}L{x + left:.2f} {y + start - left:.2f}")
        start += HATCH_STEP
    add(group, "path", class_="hatch", d="".join(path), stroke=ink, stroke_opacity=0.4, fill="none")


def swatch() -> Element:
    return canvas(SWATCH_WIDTH, SWATCH_HEIGHT, None)


def box(swatch: Element, fill: str, **attributes: str) -> None:
    add(swatch, "rect", x=0.5, y=0.5, width=SWATCH_WIDTH - 1, height=SWATCH_HEIGHT - 1, fill=fill, **attributes)


def colour_bar(low: float, high: float, ends: Sequence[float] | None = None, places: int = 0) -> Element:
    """The scale with numbers below it: `ends` with so many decimals, or else the whole numbers."""
    steps, width, height = 30, 8.0 if ends is None else 4.0, 16.0
    label = f"colour scale from {number(low, places)} to {number(high, places)}"
    bar = canvas(steps * width + 20, 32, label)
    for step in range(steps):
        value = low + (step + 0.5) / steps * (high - low)
        add(bar, "rect", x=10 + step * width, y=0, width=width, height=height, fill=diverging(value, low, high))
    for tick in range(round(low), round(high) + 1) if ends is None else ends:
        x = 10 + (tick - low) / (high - low) * steps * width
        words = number(tick, places)
        x = min(max(x, width_of(words, 11) / 2), steps * width + 20 - width_of(words, 11) / 2)
        text(bar, x, 29, words, size=11, text_anchor="middle")
    return bar
