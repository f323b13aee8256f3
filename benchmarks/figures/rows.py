"""Numbers with intervals in rows: dots on a scale of what is seen, or bars from 0 in panels, a bar a run."""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.display import number, with_ends
from benchmarks.figures.marks import mark, style, whisker
from benchmarks.figures.panels import Panel, Point, Scale, all_numbers, lay_out, spanning
from benchmarks.figures.svg import WIDE, Element, add, canvas, fitted, hint, kind_of, markup, text, width_of

HEAD, LINE, STEP, FOOT = 6.0, 22.0, 16.0, 22.0
"""Pixels above the rows, of a row's words, of each of its marks, and of the axis below."""
SIDE = 14.0
"""Left and right of the scale, for half a label."""
NUMBER = 40.0
"""Right of the scale, for the numbers of several runs."""
LEAST_SHARE = 0.2
"""Least share of the metric's range that the scale of dots holds."""
MOST = 0.75
"""Largest share of a row's width that its number takes from its name."""
ROOM = 0.06
"""Space at either end of a scale of dots, as a share of the span that is drawn."""
PANEL_WIDTH, PANEL_GAP, HEADING = 272.0, 18.0, 20.0
THICKNESS = 12.0


class Dot(Point, frozen=True, kw_only=True):
    """A number of a run; one without a number shows its words, which say why."""

    name: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    dots: tuple[Dot, ...]
    """One per run, in the order of the legend."""


class BarPanel(msgspec.Struct, frozen=True, kw_only=True):
    heading: str
    note: str
    """Right of the heading, e.g. the number of replies."""
    rows: tuple[Row, ...]


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    dots: Sequence[Dot]
    low: float
    """Lower end of the metric's range; `high` is the upper end."""
    high: float
    neutral: float | None = None
    """Value of a model without fault, marked by a dashed line."""
    places: int = 1


def draw(chart: Chart, width: float = WIDE) -> str:
    rows = [Row(label=dot.name, dots=(dot,)) for dot in chart.dots]
    bottom = HEAD + sum(map(_height, rows))
    description = "; ".join(f"{dot.name}: {dot.words}" for dot in chart.dots)
    picture = canvas(width, bottom + FOOT, chart.title, description=description, kind=kind_of(width))
    ends, least = {"low": chart.low, "high": chart.high}, LEAST_SHARE * (chart.high - chart.low)
    x = spanning([*all_numbers(chart.dots), chart.neutral], SIDE, width - SIDE, room=ROOM, least=least, **ends)
    panel = Panel(group=picture, x=x, y=Scale(low=0, high=1, start=HEAD, end=bottom))
    panel.axis_below(x.ticks(max(2, int((x.end - x.start) / 60))))
    if chart.neutral is not None:
        panel.upright("even", chart.neutral)
    _draw_rows(panel, rows, chart.places, kind="dot-row")
    return markup(picture)


def draw_bars(
    panels: Sequence[BarPanel], *, low: float, high: float, columns: int, label: str, even: float | None = None
) -> str:
    """Draw panels, `columns` in a line, on `low` <= 0 to `high` > 0; `even`: an even-handed model's value."""
    heights = [sum(map(_height, panel.rows)) for panel in panels]
    headings, size = [panel.heading for panel in panels], (PANEL_WIDTH, HEADING + HEAD + max(heights) + FOOT)
    room = PANEL_WIDTH - 96
    picture, groups = lay_out(headings, columns=columns, size=size, gap=PANEL_GAP, room=room, label=label)
    for panel, height, (group, left, top) in zip(panels, heights, groups, strict=True):
        text(group, left + PANEL_WIDTH, top + 12, panel.note, size=11, room=90, class_="soft", text_anchor="end")
        numbers = NUMBER if len(panel.rows[0].dots) > 1 else SIDE
        x = Scale(low=low, high=high, start=left + SIDE, end=left + PANEL_WIDTH - numbers)
        first = top + HEADING + HEAD
        box = Panel(group=group, x=x, y=Scale(low=0, high=1, start=first, end=first + height))
        box.axis_below(x.ticks(3))
        box.upright("axis", 0.0)
        if even is not None:
            box.upright("even", even)
        _draw_rows(box, panel.rows, 2, kind="bar-row")
    return markup(picture)


def _height(row: Row) -> float:
    return LINE + STEP * len(row.dots)


def _draw_rows(panel: Panel, rows: Sequence[Row], places: int, *, kind: str) -> None:
    """Draw the name of each row above its marks: a single number beside the name, several beside their marks."""
    x, top, room = panel.x, panel.y.start, panel.x.end - panel.x.start
    for row in rows:
        is_alone = len(row.dots) == 1
        for series, dot in enumerate(row.dots):
            group, y = add(panel.group, "g", class_=kind, data_row=row.label), top + LINE + 4 + STEP * series
            hint(group, f"{dot.name}: {dot.words}")
            rest = room - min(width_of(row.label, 12), room / 2) - 20
            label = fitted(_words_of(dot, places), min(MOST * room, rest), 11) if is_alone else ""
            if series == 0:
                text(group, x.start + 4, top + 14, row.label, room=room - width_of(label, 11) - 16, class_="halo")
            if is_alone:
                text(group, x.end, top + 14, label, size=11, class_="soft halo", text_anchor="end")
            else:
                text(group, x.start - 4, y + 4, str(series + 1), size=10, class_="soft", text_anchor="end")
                if dot.drawable is None:
                    text(group, x.start + 4, y + 4, "undefined", size=11, class_="soft halo")
                else:
                    words = number(dot.value, places)
                    text(group, x.end + NUMBER, y + 4, words, size=11, room=NUMBER - 4, text_anchor="end")
            _draw_mark(group, dot, series, x, y, is_bar=kind == "bar-row")
        top += _height(row)


def _draw_mark(group: Element, dot: Dot, series: int, x: Scale, y: float, *, is_bar: bool) -> None:
    if (value := dot.drawable) is None:
        return
    if is_bar:
        start, end = sorted((x.at(0.0), x.at(value)))
        fill = f"bar-fill{'' if dot.interval else ' open'} {style(series)}"
        add(group, "rect", class_=fill, x=start, y=y - THICKNESS / 2, width=end - start, height=THICKNESS)
    whisker(group, x, dot.interval, y, is_upright=False)
    if not is_bar:
        mark(group, series, x.at(value), y)


def _words_of(dot: Dot, places: int) -> str:
    lower, upper = dot.interval or (None, None)
    return dot.words if dot.drawable is None else with_ends(dot.value, lower, upper, places, ", no interval")
