"""A radar of shares, one spoke a group, an outline an evaluator, with an even-handed choice (protocols 5.7)."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, cos, pi, sin

import msgspec

from benchmarks.figures import svg
from benchmarks.figures.display import number
from benchmarks.figures.figure import Figure, Key, alone
from benchmarks.figures.marks import Line, dash, line_key, mark, rule_key, style
from benchmarks.figures.panels import keep_finite
from benchmarks.figures.svg import NARROW, Element, add, hint, text

Place = tuple[float, float]

WIDTH, HEIGHT = 590.0, 400.0
RADIUS, NARROW_RADIUS = 150.0, 112.0
LABEL_GAP = 14.0
RING_STEP = 0.2
BESIDE = 7.0
"""Pixels between the intervals of two outlines on one spoke."""
N_RINGS = 4
"""Rings to 0.8 as in the paper; another one where a share needs it."""
ROW = 18.0
"""Height of a name below the narrow polygon."""
FEWEST = 3
"""Spokes that make a polygon."""
READING = (
    "Distance from the centre is the share of choices that fell on the identity's {chosen}, the bar at a corner its "
    "interval. The dashed outline is an even-handed evaluator."
)


class Spoke(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    axis: str
    even: float
    """The share of an even-handed choice."""


class Wheel(msgspec.Struct, frozen=True, kw_only=True):
    """A scale of shares on each of `n` spokes, clockwise from the top."""

    n: int
    centre: Place
    radius: float
    top: float
    """Share at the outermost ring."""

    def angle(self, spoke: int) -> float:
        return 2 * pi * spoke / self.n

    def at(self, spoke: int, share: float, beside: float = 0.0) -> Place:
        """Return the place of a share, `beside` pixels clockwise of its spoke; one beyond the last ring lies on it."""
        across, up = sin(self.angle(spoke)), cos(self.angle(spoke))
        length = self.radius * min(1.0, max(0.0, share / self.top))
        return self.centre[0] + length * across + beside * up, self.centre[1] - length * up + beside * across


def polygon(title: str, spokes: Sequence[Spoke], outlines: Sequence[Line], *, about: str = "") -> Figure:
    """Return the affinity polygon, an outline an evaluator; narrow pages number the corners. `about`: a reading."""
    undefined = [
        f"{outline.name}: {spoke.label} is {point.words}."
        for outline in outlines
        for spoke, point in zip(spokes, outline.points, strict=True)
        if point.drawable is None
    ]
    drawn = draw_polygon(spokes, outlines, label=title)
    return Figure(
        title=title,
        reading=READING.format(chosen="answer"),
        keys=_legend(outlines),
        parts=alone(drawn, "Shares of the choices", about),
        notes=tuple(undefined),
    )


def draw_polygon(spokes: Sequence[Spoke], outlines: Sequence[Line], *, label: str) -> str:
    """Both widths as SVG; fewer than three identities are described in words, as they span nothing."""
    described = "; ".join(outline.describe(spoke.label for spoke in spokes) for outline in outlines)
    label = f"{label}. {described or 'No evaluator has chosen yet'}."
    if len(spokes) < FEWEST or not outlines:
        words = "no evaluator has chosen yet" if spokes else "no identities to choose between"
        return svg.in_both_widths(lambda width: svg.nothing(width, label, words))
    numbered = [Spoke(label=str(place), axis="", even=spoke.even) for place, spoke in enumerate(spokes, start=1)]
    names = svg.canvas(NARROW, ROW * len(spokes) + 4, None, kind="narrow")
    for place, spoke in enumerate(spokes, start=1):
        text(names, 2, ROW * place - 4, f"{place}  {spoke.label} ({spoke.axis})", room=NARROW - 4)
    size = NARROW, 2 * (NARROW_RADIUS + 40)
    narrow = _draw(numbered, outlines, label=label, size=size, radius=NARROW_RADIUS)
    return _draw(spokes, outlines, label=label, size=(WIDTH, HEIGHT), radius=RADIUS) + narrow + svg.markup(names)


def _draw(
    spokes: Sequence[Spoke], outlines: Sequence[Line], *, label: str, size: tuple[float, float], radius: float
) -> str:
    """Draw clockwise from the top; an undefined share leaves a gap."""
    picture = svg.canvas(*size, label, kind=svg.kind_of(size[0]))
    wheel = Wheel(n=len(spokes), centre=(size[0] / 2, size[1] / 2), radius=radius, top=_outermost(outlines))
    for ring in range(1, round(wheel.top / RING_STEP) + 1):
        corners = [wheel.at(spoke, ring * RING_STEP) for spoke in range(wheel.n)]
        add(picture, "polygon", class_="ring", points=svg.points(corners))
        x, y = corners[0]
        text(picture, x + 4, y + 11, number(ring * RING_STEP), size=10, class_="soft halo")
    for place, spoke in enumerate(spokes):
        _draw_spoke(picture, place, spoke, wheel, size[0])
    even = [wheel.at(place, spoke.even) for place, spoke in enumerate(spokes)]
    add(picture, "polygon", class_="even", points=svg.points(even))
    for series, outline in enumerate(outlines):
        beside = BESIDE * (series - (len(outlines) - 1) / 2)
        for place, (spoke, point) in enumerate(zip(spokes, outline.points, strict=True)):
            if point.drawable is not None and point.interval is not None:
                (x1, y1), (x2, y2) = (wheel.at(place, end, beside) for end in point.interval)
                line = add(picture, "line", class_=f"vertex {style(series)}", x1=x1, y1=y1, x2=x2, y2=y2)
                hint(line, f"{outline.name}, {spoke.label}: {point.words}")
    for series, outline in enumerate(outlines):
        _draw_outline(picture, series, outline, spokes, wheel, is_filled=len(outlines) == 1)
    return svg.markup(picture)


def _legend(outlines: Sequence[Line]) -> tuple[Key, ...]:
    lines = [line_key(series, outline.name) for series, outline in enumerate(outlines)]
    even = rule_key("even", "even-handed choice", is_upright=False)
    return (*lines, even, rule_key("vertex series-0", "interval of a share", is_upright=False))


def _outermost(outlines: Sequence[Line]) -> float:
    """The share at the outermost ring, which holds every share and every interval."""
    ends = keep_finite(end for outline in outlines for point in outline.points for end in (point.value, point.upper))
    return max(N_RINGS, min(round(1 / RING_STEP), ceil(round(max(ends, default=0.0) / RING_STEP, 6)))) * RING_STEP


def _draw_spoke(picture: Element, place: int, spoke: Spoke, wheel: Wheel, width: float) -> None:
    (x1, y1), (x, y), angle = wheel.centre, wheel.at(place, wheel.top), wheel.angle(place)
    add(picture, "line", class_="ring", x1=x1, y1=y1, x2=x, y2=y)
    x, y = x + LABEL_GAP * sin(angle), y - LABEL_GAP * cos(angle)
    side = round(sin(angle), 3)
    anchor = "middle" if side == 0 else "start" if side > 0 else "end"
    room = 2 * min(x, width - x) if side == 0 else width - x if side > 0 else x
    # Two lines of text, set so that they grow away from the centre.
    y += {-1: -12, 0: -2, 1: 10}[round(-cos(angle))]
    text(picture, x, y, spoke.label, size=13, room=room, text_anchor=anchor, class_="strong")
    text(picture, x, y + 13, spoke.axis, size=10.5, room=room, text_anchor=anchor, class_="soft")


def _draw_outline(
    picture: Element, series: int, outline: Line, spokes: Sequence[Spoke], wheel: Wheel, *, is_filled: bool
) -> None:
    group = add(picture, "g", class_=style(series), data_run=outline.name)
    values = enumerate(point.drawable for point in outline.points)
    places = [None if value is None else wheel.at(place, value) for place, value in values]
    corners = [place for place in places if place is not None]
    line = {"class_": f"outline {style(series)}", "stroke_dasharray": dash(series)}
    if len(corners) == len(spokes):
        add(group, "polygon", points=svg.points(corners), fill_opacity=0.14 if is_filled else 0, **line)
    else:
        for here, there in pairwise([*places, places[0]]):
            if here is not None and there is not None:
                add(group, "polyline", points=svg.points([here, there]), fill="none", **line)
    for spoke, corner, point in zip(spokes, places, outline.points, strict=True):
        if corner is not None:
            hint(mark(group, series, *corner), f"{outline.name}, {spoke.label}: {point.words}")
