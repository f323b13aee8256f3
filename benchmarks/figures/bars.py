"""Horizontal bars with intervals, in panels: one row a group, one bar a run."""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.display import number
from benchmarks.figures.series import style
from benchmarks.figures.svg import Element, add, canvas, fitted, hint, markup, text

PANEL_WIDTH = 272.0
PANEL_GAP = 18.0
HEAD = 26.0
LABEL_WIDTH = 96.0
VALUE_WIDTH = 42.0
THICKNESS, BAR_GAP, ROW_GAP = 12.0, 3.0, 7.0
FOOT = 24.0
TRACK_WIDTH = PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One number of one run; undefined where `value` is None."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    words: str
    """What a reader sees who points at it."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    bars: tuple[Bar, ...]
    """One per run, in the order of the legend."""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    heading: str
    note: str
    """Right of the heading, e.g. the number of replies."""
    rows: tuple[Row, ...]


def draw(
    panels: Sequence[Panel],
    *,
    low: float,
    high: float,
    ticks: Sequence[float],
    columns: int,
    label: str,
    reference: float | None = None,
) -> str:
    """The panels as SVG, `columns` of them in a line.

    Args:
        panels: at least one.
        low: left end of the scale, at most 0. Bars start at 0; what lies beyond an end is cut there, its number is not.
        high: right end, above 0.
        ticks: values with a label under each panel.
        columns: panels in a line.
        label: read out in place of the picture.
        reference: where a dashed line marks the value of an even-handed model.
    """
    height = max(_height(panel) for panel in panels)
    columns = min(columns, len(panels))
    n_lines = -(-len(panels) // columns)
    width = columns * PANEL_WIDTH + (columns - 1) * PANEL_GAP
    picture = canvas(width, n_lines * height + (n_lines - 1) * PANEL_GAP, label)
    for place, panel in enumerate(panels):
        line, column = divmod(place, columns)
        x, y = column * (PANEL_WIDTH + PANEL_GAP), line * (height + PANEL_GAP)
        group = add(picture, "g", class_="panel", data_panel=panel.heading)
        _draw_panel(group, panel, x, y, _Scale(low=low, high=high), ticks, reference)
    return markup(picture)


class _Scale(msgspec.Struct, frozen=True, kw_only=True):
    low: float
    high: float

    def at(self, value: float) -> float:
        """Pixels from the left end of the track."""
        share = (value - self.low) / (self.high - self.low)
        return TRACK_WIDTH * min(1.0, max(0.0, share))


def _row_height(row: Row) -> float:
    return len(row.bars) * (THICKNESS + BAR_GAP) + ROW_GAP


def _height(panel: Panel) -> float:
    return HEAD + sum(_row_height(row) for row in panel.rows) + FOOT


def _draw_panel(
    group: Element,
    panel: Panel,
    x: float,
    y: float,
    scale: _Scale,
    ticks: Sequence[float],
    reference: float | None,
) -> None:
    note = text(group, x + PANEL_WIDTH, y + 12, fitted(panel.note, 90, 11), size=11, class_="soft", text_anchor="end")
    hint(note, panel.note)
    heading = fitted(panel.heading, PANEL_WIDTH - 96, 13)
    hint(text(group, x, y + 12, heading, size=13, class_="strong"), panel.heading)
    left, top = x + LABEL_WIDTH, y + HEAD
    bottom = top + sum(_row_height(row) for row in panel.rows)
    for tick in ticks:
        at = left + scale.at(tick)
        add(group, "line", class_="axis" if tick == 0 else "ring", x1=at, x2=at, y1=top - 4, y2=bottom)
        text(group, at, bottom + 14, number(tick, 1), size=10, class_="soft", text_anchor="middle")
    if reference is not None:
        at = left + scale.at(reference)
        add(group, "line", class_="even", x1=at, x2=at, y1=top - 4, y2=bottom)
    for row in panel.rows:
        _draw_row(group, row, left, top, scale)
        top += _row_height(row)


def _draw_row(group: Element, row: Row, left: float, top: float, scale: _Scale) -> None:
    block = len(row.bars) * (THICKNESS + BAR_GAP) - BAR_GAP
    numbered = len(row.bars) > 1
    room = LABEL_WIDTH - (20 if numbered else 8)
    label = text(group, left - LABEL_WIDTH, top + block / 2 + 4, fitted(row.label, room, 12))
    hint(label, row.label)
    for series, bar in enumerate(row.bars):
        drawn = add(group, "g", class_="bar-row", data_row=row.label, data_series=str(series))
        hint(drawn, bar.words)
        if numbered:
            text(drawn, left - 4, top + 10, str(series + 1), size=10, class_="soft", text_anchor="end")
        _draw_bar(drawn, bar, series, left, top, scale)
        top += THICKNESS + BAR_GAP


def _draw_bar(drawn: Element, bar: Bar, series: int, left: float, top: float, scale: _Scale) -> None:
    if bar.value is None:
        text(drawn, left + scale.at(0) + 4, top + 10, "undefined", size=11, class_="soft halo")
        return
    start, end = sorted((scale.at(0), scale.at(bar.value)))
    has_interval = bar.lower is not None and bar.upper is not None
    fill = f"bar-fill {style(series)}" if has_interval else f"bar-fill open {style(series)}"
    add(drawn, "rect", class_=fill, x=left + start, y=top, width=end - start, height=THICKNESS)
    if bar.lower is not None and bar.upper is not None:
        low, high, middle = left + scale.at(bar.lower), left + scale.at(bar.upper), top + THICKNESS / 2
        path = f"M{low:.2f} {middle - 3:.2f}v6M{low:.2f} {middle:.2f}H{high:.2f}M{high:.2f} {middle - 3:.2f}v6"
        add(drawn, "path", class_="whisker", d=path)
    words = fitted(number(bar.value, 2), VALUE_WIDTH - 6, 11)
    text(drawn, left + TRACK_WIDTH + VALUE_WIDTH, top + 10, words, size=11, text_anchor="end")
