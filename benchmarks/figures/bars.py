"""Horizontal bars with intervals, in panels: one row a group, one bar a run."""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.display import number
from benchmarks.figures.marks import style, whisker
from benchmarks.figures.panels import Panel, Point, Scale, lay_out
from benchmarks.figures.svg import Element, add, fitted, hint, markup, text

PANEL_WIDTH, PANEL_GAP = 272.0, 18.0
HEAD, FOOT = 26.0, 24.0
LABEL_WIDTH, VALUE_WIDTH = 96.0, 42.0
THICKNESS, BAR_GAP, ROW_GAP = 12.0, 3.0, 7.0
TRACK_WIDTH = PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH


class Row(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    bars: tuple[Point, ...]
    """One per run, in the order of the legend."""


class BarPanel(msgspec.Struct, frozen=True, kw_only=True):
    heading: str
    note: str
    """Right of the heading, e.g. the number of replies."""
    rows: tuple[Row, ...]


def draw(
    panels: Sequence[BarPanel],
    *,
    low: float,
    high: float,
    ticks: Sequence[float],
    columns: int,
    label: str,
    reference: float | None = None,
) -> str:
    """Draw panels, `columns` in a line, on `low` <= 0 to `high` > 0; `reference`: an even-handed model's value."""
    height = HEAD + max(sum(map(_height, panel.rows)) for panel in panels) + FOOT
    headings, size = [panel.heading for panel in panels], (PANEL_WIDTH, height)
    room = PANEL_WIDTH - 96
    picture, groups = lay_out(headings, columns=columns, size=size, gap=PANEL_GAP, room=room, label=label)
    for panel, (group, x, y) in zip(panels, groups, strict=True):
        note = fitted(panel.note, 90, 11)
        hint(text(group, x + PANEL_WIDTH, y + 12, note, size=11, class_="soft", text_anchor="end"), panel.note)
        left, top = x + LABEL_WIDTH, y + HEAD
        bottom = top + sum(map(_height, panel.rows))
        box = Panel(group=group, left=left, right=left + TRACK_WIDTH, top=top - 4, bottom=bottom)
        scale = Scale(low=low, high=high, start=box.left, end=box.right)
        box.draw_axis_below(scale, ticks, 1)
        box.draw_upright("axis", scale.at(0))
        if reference is not None:
            box.draw_upright("even", scale.at(reference))
        for row in panel.rows:
            _draw_row(group, row, top, scale)
            top += _height(row)
    return markup(picture)


def _height(row: Row) -> float:
    return len(row.bars) * (THICKNESS + BAR_GAP) + ROW_GAP


def _draw_row(group: Element, row: Row, top: float, scale: Scale) -> None:
    middle = top + (_height(row) - ROW_GAP - BAR_GAP) / 2
    is_numbered = len(row.bars) > 1
    label = fitted(row.label, LABEL_WIDTH - (20 if is_numbered else 8), 12)
    hint(text(group, scale.start - LABEL_WIDTH, middle + 4, label), row.label)
    for series, bar in enumerate(row.bars):
        drawn = add(group, "g", class_="bar-row", data_row=row.label, data_series=str(series))
        hint(drawn, bar.words)
        if is_numbered:
            text(drawn, scale.start - 4, top + 10, str(series + 1), size=10, class_="soft", text_anchor="end")
        _draw_bar(drawn, bar, series, top, scale)
        top += THICKNESS + BAR_GAP


def _draw_bar(drawn: Element, bar: Point, series: int, top: float, scale: Scale) -> None:
    value = bar.drawable
    if value is None:
        text(drawn, scale.at(0) + 4, top + 10, "undefined", size=11, class_="soft halo")
        return
    start, end = sorted((scale.at(0), scale.at(value)))
    fill = f"bar-fill{'' if bar.interval else ' open'} {style(series)}"
    add(drawn, "rect", class_=fill, x=start, y=top, width=end - start, height=THICKNESS)
    whisker(drawn, scale, bar.interval, top + THICKNESS / 2, is_upright=False)
    words = fitted(number(value, 2), VALUE_WIDTH - 6, 11)
    text(drawn, scale.end + VALUE_WIDTH, top + 10, words, size=11, text_anchor="end")
