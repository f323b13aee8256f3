"""How runs are told apart in one picture: a number each, a mark and a dash, and only then a colour."""

from math import cos, pi, sin

from benchmarks.figures.figure import Key
from benchmarks.figures.svg import Element, add, canvas, markup, points, text

N_COLOURS = 6
"""Classes series-0 to series-5 of figures.css; later runs use them again, with another mark and dash."""
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "4 4")
SIDES = (0, 4, 3, 5, 6)
"""Corners of a mark; 0 is a disc."""


def style(series: int) -> str:
    return f"series-{series % N_COLOURS}"


def dash(series: int) -> str:
    return DASHES[(series + series // N_COLOURS) % len(DASHES)]


def mark(parent: Element, series: int, x: float, y: float, *, radius: float = 4) -> Element:
    sides = SIDES[(series + series // N_COLOURS) % len(SIDES)]
    if not sides:
        return add(parent, "circle", class_=f"mark {style(series)}", cx=x, cy=y, r=radius)
    angles = [2 * pi * corner / sides - pi / 2 for corner in range(sides)]
    corners = [(x + radius * cos(angle), y + radius * sin(angle)) for angle in angles]
    return add(parent, "polygon", class_=f"mark {style(series)}", points=points(corners))


def line_key(series: int, name: str) -> Key:
    """Legend of a run drawn as a line."""
    swatch = canvas(36, 16, None)
    add(swatch, "line", class_=f"outline {style(series)}", x1=1, x2=35, y1=8, y2=8, stroke_dasharray=dash(series))
    mark(swatch, series, 18, 8)
    return Key(svg=markup(swatch), words=name)


def bar_key(series: int, name: str) -> Key:
    """Legend of a run drawn as bars, with the number that its bars carry."""
    swatch = canvas(36, 16, None)
    text(swatch, 0, 12, str(series + 1), size=11)
    add(swatch, "rect", class_=f"bar-fill {style(series)}", x=14, y=3, width=22, height=10)
    return Key(svg=markup(swatch), words=name)
