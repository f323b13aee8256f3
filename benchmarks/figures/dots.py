"""Points with intervals under one another: one number of several runs on one scale.

The scale is of what is seen, never of less than a fifth of the metric's range: small differences must not look large.
"""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.display import number
from benchmarks.figures.scales import Scale, known, known_of, ticks
from benchmarks.figures.series import mark
from benchmarks.figures.svg import WIDE, Element, add, canvas, fitted, hint, kind_of, markup, text, width_of

ROW, FOOT, HEAD = 38.0, 22.0, 6.0
SIDE = 14.0
"""Left and right of the scale, for half a label."""
LEAST_SHARE = 0.2
"""Of the metric's range that the scale holds at least."""
MOST = 0.75
"""Of a row that its number takes from its name."""
ROOM = 0.06
"""At either end, as a share of what is seen."""


class Dot(msgspec.Struct, frozen=True, kw_only=True):
    """One number of one run."""

    name: str
    value: float | None
    lower: float | None = None
    upper: float | None = None
    words: str
    """What a reader sees who points at it; where there is no number, why, which is drawn."""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    dots: Sequence[Dot]
    low: float
    """Of the metric, as is `high`."""
    high: float
    neutral: float | None = None
    """Where a dashed line marks the value of a model without fault."""
    places: int = 1
    """Decimals."""


def draw(chart: Chart, width: float = WIDE) -> str:
    """The chart as SVG, `width` pixels wide."""
    bottom = HEAD + ROW * len(chart.dots)
    said = "; ".join(f"{dot.name}: {dot.words}" for dot in chart.dots)
    picture = canvas(width, bottom + FOOT, chart.title, description=said, kind=kind_of(width))
    scale = _scale(chart, width)
    _draw_scale(picture, chart, scale, bottom)
    for place, dot in enumerate(chart.dots):
        _draw_dot(picture, dot, scale, HEAD + ROW * place, chart.places)
    return markup(picture)


def _scale(chart: Chart, width: float) -> Scale:
    """From the least to the most that is drawn, within the range of the metric."""
    seen = [*(end for dot in chart.dots for end in (dot.value, dot.lower, dot.upper)), chart.neutral]
    drawn = known_of(seen) or [chart.low, chart.high]
    low, high, reach = min(drawn), max(drawn), chart.high - chart.low
    room = max(ROOM * (high - low), (LEAST_SHARE * reach - (high - low)) / 2)
    low, high = max(min(chart.low, low), low - room), min(max(chart.high, high), high + room)
    return Scale(low=low, high=high, start=SIDE, end=width - SIDE)


def _draw_scale(picture: Element, chart: Chart, scale: Scale, bottom: float) -> None:
    values, places = ticks(scale.low, scale.high, max(2, int((scale.end - scale.start) / 60)))
    for value in values:
        x = scale.at(value)
        add(picture, "line", class_="ring", x1=x, x2=x, y1=HEAD, y2=bottom)
        text(picture, x, bottom + 15, number(value, places), size=10, class_="soft", text_anchor="middle")
    if chart.neutral is not None:
        x = scale.at(chart.neutral)
        add(picture, "line", class_="even", x1=x, x2=x, y1=HEAD, y2=bottom)


def _draw_dot(picture: Element, dot: Dot, scale: Scale, top: float, places: int) -> None:
    row = add(picture, "g", class_="dot-row", data_row=dot.name)
    hint(row, f"{dot.name}: {dot.words}")
    value, room = known(dot.value), scale.end - scale.start
    shown = fitted(dot.words if value is None else _number(dot, places), MOST * room, 11)
    name = fitted(dot.name, room - width_of(shown, 11) - 12, 12)
    text(row, scale.start, top + 13, name, size=12, class_="halo")
    text(row, scale.end, top + 13, shown, size=11, class_="soft halo", text_anchor="end")
    if value is None:
        return
    y = top + 25
    if dot.lower is not None and dot.upper is not None:
        low, high = scale.at(dot.lower), scale.at(dot.upper)
        path = f"M{low:.2f} {y - 4:.2f}v8M{low:.2f} {y:.2f}H{high:.2f}M{high:.2f} {y - 4:.2f}v8"
        add(row, "path", class_="whisker", d=path)
    mark(row, 0, scale.at(value), y)


def _number(dot: Dot, places: int) -> str:
    if dot.lower is None or dot.upper is None:
        return f"{number(dot.value, places)}, no interval"
    return f"{number(dot.value, places)} ({number(dot.lower, places)} to {number(dot.upper, places)})"
