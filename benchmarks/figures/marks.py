"""Marks of pictures and keys of legends. Runs differ in number, mark and dash; colour only helps."""

from collections.abc import Iterable, Sequence
from math import cos, pi, sin
from typing import Any

import msgspec

from benchmarks.figures.figure import Key
from benchmarks.figures.panels import Panel, Point, Scale
from benchmarks.figures.svg import Element, add, canvas, hint, markup, paragraph, points, text

N_COLOURS = 6
"""Classes series-0 to series-5 of figures.css; later runs use them again, with another mark and dash."""
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "4 4")
SIDES = (0, 4, 3, 5, 6)
"""Numbers of corners of the marks, for one series after another; 0 is a disc."""
BESIDE = 7.0
"""Pixels between the points of two lines on one place."""
KEY_WIDTH, KEY_HEIGHT = 36.0, 16.0
"""Size of a key's picture."""


def style(series: int) -> str:
    return f"series-{series % N_COLOURS}"


def dash(series: int) -> str:
    return DASHES[(series + series // N_COLOURS) % len(DASHES)]


def mark(parent: Element | None, series: int, x: float, y: float, *, radius: float = 4) -> Element:
    sides = SIDES[(series + series // N_COLOURS) % len(SIDES)]
    if not sides:
        return add(parent, "circle", class_=f"mark {style(series)}", cx=x, cy=y, r=radius)
    angles = [2 * pi * corner / sides - pi / 2 for corner in range(sides)]
    corners = [(x + radius * cos(angle), y + radius * sin(angle)) for angle in angles]
    return add(parent, "polygon", class_=f"mark {style(series)}", points=points(corners))


def whisker(
    parent: Element, scale: Scale, ends: tuple[float, float] | None, at: float, *, is_upright: bool, kind: str = ""
) -> None:
    """Draw an interval, if it is not None, with a bar at each end that the scale holds. `at`: its pixel on the other
    axis; `kind`: "thin" is for many beside each other.
    """
    if ends is None:
        return
    low, high = map(scale.at, ends)
    bars, half = [scale.at(end) for end in ends if scale.holds(end)], 2 if kind else 3
    if is_upright:
        path = f"M{at:.2f} {low:.2f}V{high:.2f}" + "".join(f"M{at - half:.2f} {bar:.2f}h{2 * half}" for bar in bars)
    else:
        path = f"M{low:.2f} {at:.2f}H{high:.2f}" + "".join(f"M{bar:.2f} {at - half:.2f}v{2 * half}" for bar in bars)
    add(parent, "path", class_=f"whisker {kind}".rstrip(), d=path)


def dot(group: Element, series: int, x: float, point: Point, y_scale: Scale, about: str = "", **style: Any) -> float:
    """Draw a defined number with its upright interval, its words after `about` being its hint; return its pixel
    from the top. `style`: `radius` of the mark, `kind` of the interval.
    """
    y = y_scale.at(point.value or 0.0)
    hint(group, about + point.words)
    whisker(group, y_scale, point.interval, x, is_upright=True, kind=style.pop("kind", ""))
    mark(group, series, x, y, **style)
    return y


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a run or a model: a point a place, also where it is undefined."""

    name: str
    points: tuple[Point, ...]

    def describe(self, heads: Iterable[str]) -> str:
        """Return all points in words. `heads`: names of the places."""
        pairs = zip(heads, self.points, strict=True)
        return f"{self.name}: " + ", ".join(f"{head} {point.words}" for head, point in pairs)


def draw_lines(
    panel: Panel, heads: Sequence[tuple[float, str]], lines: Sequence[Line], *, room: float, first: int = 0
) -> None:
    """Draw lines over named places of `panel.x`, `room` pixels wide each, the points of a place beside each other so
    that no interval hides another; undefined points are left out. `first`: number of the first line in the legend.
    """
    panel.axis_left(panel.y.ticks())
    for at, words in heads:
        place = panel.x.at(at), panel.y.start + 16
        paragraph(panel.group, *place, words, room=room, most=2, size=9, class_="strong", text_anchor="middle")
    beside = min(BESIDE, (room - 10) / max(1, len(lines)))
    for number, line in enumerate(lines):
        series, shift = first + number, beside * (number - (len(lines) - 1) / 2)
        pairs = zip(heads, line.points, strict=True)
        defined = [(panel.x.at(at) + shift, words, p) for (at, words), p in pairs if p.drawable is not None]
        joined = points([(x, panel.y.at(p.value or 0.0)) for x, _, p in defined])
        dashed = {"points": joined, "stroke_dasharray": dash(series)}
        add(panel.group, "polyline", class_=f"outline line {style(series)}", **dashed)
        for x, words, point in defined:
            group = add(panel.group, "g", data_series=str(series))
            dot(group, series, x, point, panel.y, f"{line.name}, {words}: ")


def key(words: str, *shapes: Element, width: float = KEY_WIDTH) -> Key:
    """Return an entry of a legend: a small picture of the shapes, and the words that explain them."""
    swatch = canvas(width, KEY_HEIGHT, None)
    swatch.extend(shapes)
    return Key(svg=markup(swatch), words=words)


def box_key(kind: str, words: str, height: float = 14.0) -> Key:
    """Return the entry of boxes of a class."""
    return key(words, add(None, "rect", class_=kind, x=1, y=15 - height, width=34, height=height))


def rule_key(kind: str, words: str, *, is_upright: bool = True) -> Key:
    """Return the entry of lines of a class."""
    ends = {"x1": 18, "x2": 18, "y1": 1, "y2": 15} if is_upright else {"x1": 3, "x2": 33, "y1": 8, "y2": 8}
    return key(words, add(None, "line", class_=kind, **ends))


def line_key(series: int, name: str) -> Key:
    line = {"class_": f"outline {style(series)}", "stroke_dasharray": dash(series)}
    return key(name, add(None, "line", x1=1, x2=35, y1=8, y2=8, **line), mark(None, series, 18, 8))


def bar_key(series: int, name: str) -> Key:
    """Return the entry of a run drawn as bars, with the number that its bars carry."""
    bar = add(None, "rect", class_=f"bar-fill {style(series)}", x=14, y=3, width=22, height=10)
    return key(name, text(None, 0, 12, str(series + 1), size=11), bar)
