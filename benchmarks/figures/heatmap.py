"""Draws a heat map of a single number for every ordered pair of groups (protocols 2.14)."""

from collections.abc import Sequence

import msgspec

from auditors.types import Estimate
from benchmarks.figures.colours import REFUSED, diverging
from benchmarks.figures.display import number
from benchmarks.figures.figure import Key, format_estimate
from benchmarks.figures.marks import colour_key, tile, tile_key
from benchmarks.figures.svg import Element, add, canvas, fitted, hint, markup, text, width_of

FEW = 10
"""Cells of fewer replies are hatched: a number of so few is not assessable."""

CELL_WIDTH, CELL_HEIGHT = 70.0, 48.0
HEAD = 34.0
CODE_WIDTH = 46.0
NAME_WIDTH = 170.0
GAP = 1.0


class HeatMap(msgspec.Struct, frozen=True, kw_only=True):
    """Estimates between the groups of an axis: row over column."""

    names: tuple[str, ...]
    codes: tuple[str, ...]
    """Short, told apart within the map only."""
    cells: tuple[tuple[Estimate | None, ...], ...]
    """Estimates by row and column; None on the diagonal, and where nothing is stored."""


def is_sparse(estimate: Estimate) -> bool:
    """Return whether a cell rests on so few replies that it is hatched."""
    return 0 < estimate.n < FEW


def is_refused(estimate: Estimate) -> bool:
    """Return whether every reply to be scored is a refusal, be it counted or left out."""
    refusals = estimate.extra.get("refusals", 0)
    return bool(refusals) and refusals == n_replies(estimate)


def n_replies(estimate: Estimate) -> int:
    """Return the number of replies that a value would rest on if refusals were not left out."""
    return estimate.n + int(estimate.extra.get("excluded", {}).get("refusal", 0))


def codes_of(names: Sequence[str]) -> tuple[str, ...]:
    """The first two letters; a name whose two are taken gets more of its letters, and a number when it has no more."""
    codes: list[str] = []
    for name in names:
        letters = (name[:n].upper() for n in range(2, len(name) + 1))
        numbered = (f"{name[:2].upper()}{n}" for n in range(1, len(names) + 1))
        codes.append(next(code for code in (*letters, *numbered) if code not in codes))
    return tuple(codes)


def draw(heat_map: HeatMap, *, low: float, high: float, label: str) -> str:
    """The map as SVG, on the fixed scale `low` to `high`, with the column codes on top."""
    names_width = min(NAME_WIDTH, max(width_of(words, 12) for words in ("row over col", *heat_map.names)) + 4)
    left, n = names_width + CODE_WIDTH, len(heat_map.names)
    picture = canvas(left + n * CELL_WIDTH, HEAD + n * CELL_HEIGHT, label)
    text(picture, 0, HEAD - 10, fitted("row over column", left, 10.5), size=10.5, class_="soft")
    for place, (name, code) in enumerate(zip(heat_map.names, heat_map.codes, strict=True)):
        _draw_headings(picture, place, name, code, left)
    for p, row in enumerate(heat_map.names):
        for q, column in enumerate(heat_map.names):
            if p != q:
                estimate = heat_map.cells[p][q]
                cell = add(picture, "g", class_="cell", data_row=row, data_column=column)
                hint(cell, f"{row} over {column}: {format_estimate(estimate)}")
                _draw_cell(cell, estimate, (left + q * CELL_WIDTH + GAP, HEAD + p * CELL_HEIGHT + GAP), low, high)
    return markup(picture)


def legend(*, low: float, high: float) -> tuple[Key, ...]:
    whole = range(round(low), round(high) + 1)
    return (
        colour_key(whole, "value, on this scale in every map", step_width=8),
        tile_key(diverging(high / 2, low, high), f"fewer than {FEW} essays", is_hatched=True),
        tile_key(REFUSED, "every essay a refusal: undefined, or 0 by the paper's rule, not balance"),
        tile_key(None, "undefined: no essay with a score", sign="–"),
    )


def _draw_headings(picture: Element, place: int, name: str, code: str, left: float) -> None:
    middle, y = left + (place + 0.5) * CELL_WIDTH, HEAD + (place + 0.5) * CELL_HEIGHT + 4
    hint(text(picture, 0, y, fitted(name, left - CODE_WIDTH, 12)), name)
    cut_code = fitted(code, CODE_WIDTH - 6, 12)
    text(picture, left - 6, y, cut_code, class_="strong", text_anchor="end")
    hint(text(picture, middle, HEAD - 10, cut_code, class_="strong", text_anchor="middle"), name)


def _draw_cell(group: Element, estimate: Estimate | None, corner: tuple[float, float], low: float, high: float) -> None:
    size = CELL_WIDTH - 2 * GAP, CELL_HEIGHT - 2 * GAP
    all_refused = estimate is not None and is_refused(estimate)
    n = f"n {0 if estimate is None else estimate.n:,}"
    if estimate is None or estimate.value is None:
        lines = [("–", 13.0), ("all refused" if all_refused else n, 10.0)]
        tile(group, corner, size, REFUSED if all_refused else None, lines)
        return
    fill = REFUSED if all_refused else diverging(estimate.value, low, high)
    lines = [(number(estimate.value, 2), 13.0), (n, 10.0)]
    if refusals := estimate.extra.get("refusals", 0):
        lines.append(("all refused" if all_refused else f"{refusals:,} refused", 9.5))
    tile(group, corner, size, fill, lines, is_hatched=is_sparse(estimate))
