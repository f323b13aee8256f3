"""Points with intervals under one another: one number of several runs, on a scale of what is seen (`LEAST_SHARE`)."""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.display import number
from benchmarks.figures.marks import mark, whisker
from benchmarks.figures.panels import Panel, Point, Scale, all_numbers, keep_finite, ticks
from benchmarks.figures.svg import WIDE, Element, add, canvas, fitted, hint, kind_of, markup, text, width_of

ROW, FOOT, HEAD = 38.0, 22.0, 6.0
SIDE = 14.0
"""Left and right of the scale, for half a label."""
LEAST_SHARE = 0.2
"""Least share of the metric's range that the scale holds."""
MOST = 0.75
"""Largest share of a row's width that its number takes from its name."""
ROOM = 0.06
"""Space at either end, as a share of the span that is drawn."""


class Dot(Point, frozen=True, kw_only=True):
    """A number of a run; a dot without a number shows its words, which say why."""

    name: str


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
    bottom = HEAD + ROW * len(chart.dots)
    description = "; ".join(f"{dot.name}: {dot.words}" for dot in chart.dots)
    picture = canvas(width, bottom + FOOT, chart.title, description=description, kind=kind_of(width))
    panel = Panel(group=picture, left=SIDE, right=width - SIDE, top=HEAD, bottom=bottom)
    scale = _scale(chart, panel)
    panel.draw_axis_below(scale, *ticks(scale.low, scale.high, max(2, int((panel.right - panel.left) / 60))))
    if chart.neutral is not None:
        panel.draw_upright("even", scale.at(chart.neutral))
    for place, dot in enumerate(chart.dots):
        _draw_dot(picture, dot, scale, HEAD + ROW * place, chart.places)
    return markup(picture)


def _scale(chart: Chart, panel: Panel) -> Scale:
    drawn = all_numbers(chart.dots) + keep_finite([chart.neutral]) or [chart.low, chart.high]
    low, high, reach = min(drawn), max(drawn), chart.high - chart.low
    room = max(ROOM * (high - low), (LEAST_SHARE * reach - (high - low)) / 2)
    low, high = max(min(chart.low, low), low - room), min(max(chart.high, high), high + room)
    return Scale(low=low, high=high, start=panel.left, end=panel.right)


def _draw_dot(picture: Element, dot: Dot, scale: Scale, top: float, places: int) -> None:
    row = add(picture, "g", class_="dot-row", data_row=dot.name)
    hint(row, f"{dot.name}: {dot.words}")
    value, room = dot.drawable, scale.end - scale.start
    label = fitted(dot.words if value is None else _number(dot, places), MOST * room, 11)
    name = fitted(dot.name, room - width_of(label, 11) - 12, 12)
    text(row, scale.start, top + 13, name, size=12, class_="halo")
    text(row, scale.end, top + 13, label, size=11, class_="soft halo", text_anchor="end")
    if value is not None:
        whisker(row, scale, dot.interval, top + 25, is_upright=False)
        mark(row, 0, scale.at(value), top + 25)


def _number(dot: Dot, places: int) -> str:
    if dot.interval is None:
        return f"{number(dot.value, places)}, no interval"
    return f"{number(dot.value, places)} ({number(dot.lower, places)} to {number(dot.upper, places)})"
