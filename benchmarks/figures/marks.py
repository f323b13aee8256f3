"""Marks of pictures and keys of legends. Runs differ in number, mark and dash; colour only helps."""

from collections.abc import Iterable
from math import cos, pi, sin
from typing import Any

from benchmarks.figures.figure import Key
from benchmarks.figures.panels import Measure, Scale
from benchmarks.figures.svg import Element, add, canvas, hint, markup, points, text

N_COLOURS = 6
"""Classes series-0 to series-5 of figures.css; later runs use them again, with another mark and dash."""
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "4 4")
SIDES = (0, 4, 3, 5, 6)
"""Numbers of corners of the marks, for one series after another; 0 is a disc."""
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


def dot(group: Element, series: int, x: float, measure: Measure, y_scale: Scale, words: str, **style: Any) -> float:
    """Draw a defined number with its upright interval and its text for a reader who points at it; return its pixel
    from the top. `style`: `radius` of the mark, `kind` of the interval.
    """
    y = y_scale.at(measure.value or 0.0)
    hint(group, words)
    whisker(group, y_scale, measure.interval, x, is_upright=True, kind=style.pop("kind", ""))
    mark(group, series, x, y, **style)
    return y


def draw_series(parent: Element, series: int, places: Iterable[tuple[float, Measure, str]], y_scale: Scale) -> None:
    """Draw points with their intervals and the line that joins them; undefined points are left out. `places`: pixels
    from the left, the number there, and its text for a reader who points at it; `y_scale`: the vertical scale.
    """
    defined = [place for place in places if place[1].drawable is not None]
    line = [(x, y_scale.at(measure.value or 0.0)) for x, measure, _ in defined]
    dashed = {"points": points(line), "stroke_dasharray": dash(series)}
    add(parent, "polyline", class_=f"outline line {style(series)}", **dashed)
    for x, measure, words in defined:
        dot(add(parent, "g", data_series=str(series)), series, x, measure, y_scale, words)


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
