"""Numbers over steps: panels side by side, in each a line a series with intervals, and levels for reference."""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.display import number
from benchmarks.figures.series import dash, mark, style
from benchmarks.figures.svg import Element, add, canvas, fitted, hint, markup, points, text

WIDTH, HEIGHT, GAP = 430.0, 250.0, 40.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 18.0, 30.0, 40.0
SHIFT = 5.0
"""Pixels by which the points of each further series stand to the right, so that intervals do not hide each other."""
N_TICKS = 5


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One number; left out where `value` is None."""

    step: float
    value: float | None
    lower: float | None = None
    upper: float | None = None
    words: str
    """What a reader sees who points at it."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A dashed line across a panel, and what it is."""

    value: float
    words: str


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    heading: str
    series: tuple[tuple[Point, ...], ...]
    """In the order of the legend."""
    first: int = 0
    """Number of the first series in the legend."""
    levels: tuple[Level, ...] = ()
    places: int = 1
    """Decimals of the labels."""


class _Scale(msgspec.Struct, frozen=True, kw_only=True):
    low: float
    high: float
    start: float
    end: float
    """Pixels of both ends."""

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def draw(panels: Sequence[Panel], *, label: str, axis: str = "step") -> str:
    """The panels side by side as SVG, each with a scale of its own that holds 0, all intervals and all levels.

    Args:
        panels: at least one.
        label: read out in place of the picture.
        axis: what stands under the steps.
    """
    picture = canvas(len(panels) * WIDTH + (len(panels) - 1) * GAP, HEIGHT, label)
    for place, panel in enumerate(panels):
        _draw_panel(add(picture, "g", class_="panel", data_panel=panel.heading), panel, place * (WIDTH + GAP), axis)
    return markup(picture)


def _draw_panel(group: Element, panel: Panel, left: float, axis: str) -> None:
    every = [point for series in panel.series for point in series]
    steps = sorted({point.step for point in every})
    ends = [end for one in every for end in (one.value, one.lower, one.upper) if end is not None]
    low, high = _around([0.0, *ends, *(level.value for level in panel.levels)])
    inner = left + LEFT, left + WIDTH - RIGHT
    down = _Scale(low=low, high=high, start=HEIGHT - BOTTOM, end=TOP)
    most = max(steps[-1], 1.0) if steps else 1.0
    across = _Scale(low=0.0, high=most, start=inner[0] + 12, end=inner[1] - 14)
    hint(text(group, left, 14, fitted(panel.heading, WIDTH, 13), size=13, class_="strong"), panel.heading)
    for tick in range(N_TICKS):
        value = low + (high - low) * tick / (N_TICKS - 1)
        y = down.at(value)
        add(group, "line", class_="ring", x1=inner[0], x2=inner[1], y1=y, y2=y)
        text(group, inner[0] - 6, y + 4, number(value, panel.places), size=10, class_="soft", text_anchor="end")
    add(group, "line", class_="axis", x1=inner[0], x2=inner[1], y1=down.at(0.0), y2=down.at(0.0))
    for step in steps:
        x = across.at(step)
        text(group, x, HEIGHT - BOTTOM + 16, number(step, 0), size=10, class_="soft", text_anchor="middle")
    text(group, inner[1], HEIGHT - 6, axis, size=11, class_="soft", text_anchor="end")
    for level in panel.levels:
        y = down.at(level.value)
        add(group, "line", class_="even", x1=inner[0], x2=inner[1], y1=y, y2=y)
        text(
            group,
            inner[1],
            y - 4,
            fitted(level.words, WIDTH - LEFT, 10),
            size=10,
            class_="soft halo",
            text_anchor="end",
        )
    for place, series in enumerate(panel.series):
        _draw_series(group, series, panel.first + place, place * SHIFT, across, down)


def _draw_series(
    group: Element, series: Sequence[Point], number_of: int, shift: float, across: _Scale, down: _Scale
) -> None:
    known = [(across.at(one.step) + shift, down.at(one.value), one) for one in series if one.value is not None]
    line = points([(x, y) for x, y, _ in known])
    add(group, "polyline", class_=f"outline line {style(number_of)}", points=line, stroke_dasharray=dash(number_of))
    for x, y, one in known:
        drawn = add(group, "g", data_step=number(one.step, 0), data_series=str(number_of))
        hint(drawn, one.words)
        if one.lower is not None and one.upper is not None:
            low, high = down.at(one.lower), down.at(one.upper)
            path = f"M{x - 3:.2f} {low:.2f}h6M{x:.2f} {low:.2f}V{high:.2f}M{x - 3:.2f} {high:.2f}h6"
            add(drawn, "path", class_="whisker", d=path)
        mark(drawn, number_of, x, y)


def _around(values: Sequence[float]) -> tuple[float, float]:
    """Ends of a scale that holds all of them, with a little room."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 1.0
    return low - room * (low < 0), high + room
