"""A radar of shares, one spoke a group, with an even-handed choice; of several evaluators the affinity polygon."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, cos, isfinite, pi, sin

import msgspec

from auditors.types import Estimate
from benchmarks.figures import svg
from benchmarks.figures.display import number
from benchmarks.figures.figure import Figure, Key, Part, Picture, format_estimate
from benchmarks.figures.marks import dash, key, line_key, mark, style
from benchmarks.figures.panels import drop_infinite, interval_between, keep_finite
from benchmarks.figures.svg import NARROW, WIDE, Element

Place = tuple[float, float]

WIDTH, HEIGHT = 560.0, 400.0
CENTRE: Place = (WIDTH / 2, HEIGHT / 2)
RADIUS = 150.0
CORE = 370.0
"""Width of what is around the rings."""
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


class Spoke(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    axis: str
    even: float
    """The share of an even-handed choice."""


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """One run: an estimate per spoke."""

    name: str
    estimates: tuple[Estimate | None, ...]


def polygon(title: str, spokes: Sequence[Spoke], outlines: Sequence[Outline]) -> Figure:
    """Return the affinity polygon of a model, an outline an evaluator; narrow pages number the corners."""
    undefined = [
        f"{outline.name}: {spoke.label} is undefined: "
        f"{'not measured' if share is None else share.reason or 'no reason'}."
        for outline in outlines
        for spoke, share in zip(spokes, outline.estimates, strict=True)
        if _value(share) is None
    ]
    interval_key = key("interval of a share", svg.add(None, "line", class_="vertex series-0", x1=4, x2=32, y1=8, y2=8))
    picture = Picture(title="Shares of the choices", reading="", svg=draw_polygon(spokes, outlines, label=title))
    return Figure(
        title=title,
        reading=(
            "Distance from the centre is the share of choices that fell on the identity's answer, the bar at a corner "
            "its interval. The dashed outline is an even-handed evaluator."
        ),
        keys=(*legend(outlines), interval_key),
        parts=(Part(pictures=(picture,)),),
        notes=tuple(undefined),
    )


def draw_polygon(spokes: Sequence[Spoke], outlines: Sequence[Outline], *, label: str) -> str:
    """Both widths as SVG; fewer than three identities are described in words, as they span nothing."""
    described = "; ".join(_describe(outline, spokes) for outline in outlines)
    label = f"{label}. {described or 'No evaluator has chosen yet'}."
    if len(spokes) < FEWEST or not outlines:
        words = "no evaluator has chosen yet" if spokes else "no identities to choose between"
        return svg.in_both_widths(lambda width: svg.nothing(width, label, words))
    wide = draw(spokes, outlines, label=label, has_intervals=True, width=WIDE)
    numbered = [Spoke(label=str(place), axis="", even=spoke.even) for place, spoke in enumerate(spokes, start=1)]
    narrow = draw(numbered, outlines, label=label, has_intervals=True, width=NARROW)
    names = svg.canvas(NARROW, ROW * len(spokes) + 4, None, kind="narrow")
    for place, spoke in enumerate(spokes, start=1):
        words = svg.fitted(f"{place}  {spoke.label} ({spoke.axis})", NARROW - 4, 12)
        svg.hint(svg.text(names, 2, ROW * place - 4, words), spoke.label)
    return wide + narrow + svg.markup(names)


def _describe(outline: Outline, spokes: Sequence[Spoke]) -> str:
    pairs = zip(spokes, outline.estimates, strict=True)
    return f"{outline.name}: " + ", ".join(f"{spoke.label} {_words(share)}" for spoke, share in pairs)


def _words(share: Estimate | None) -> str:
    is_number = share is None or share.value is None or isfinite(share.value)
    return format_estimate(share) if is_number else "undefined: not a number"


def draw(
    spokes: Sequence[Spoke],
    outlines: Sequence[Outline],
    *,
    label: str,
    has_intervals: bool = False,
    width: float | None = None,
) -> str:
    """Draw clockwise from the top; an undefined share leaves a gap. `width`: NARROW has only the rings and labels."""
    top = outermost(outlines, has_intervals=has_intervals)
    picture = svg.canvas(WIDTH, HEIGHT, label, kind="" if width is None else svg.kind_of(width))
    if width == NARROW:
        picture.attrib |= {
            "width": f"{NARROW:g}",
            "height": f"{NARROW * HEIGHT / CORE:g}",
            "viewBox": f"{(WIDTH - CORE) / 2:g} 0 {CORE:g} {HEIGHT:g}",
        }
    _draw_rings(picture, len(spokes), top)
    for place, spoke in enumerate(spokes):
        _draw_spoke(picture, place, spoke, len(spokes))
    even = [at(place, len(spokes), spoke.even, top) for place, spoke in enumerate(spokes)]
    svg.add(picture, "polygon", class_="even", points=svg.points(even))
    if has_intervals:
        for series, outline in enumerate(outlines):
            _draw_intervals(picture, series, outline, spokes, top, beside=series - (len(outlines) - 1) / 2)
    for series, outline in enumerate(outlines):
        _draw_outline(picture, series, outline, spokes, top, is_alone=len(outlines) == 1)
    return svg.markup(picture)


def legend(outlines: Sequence[Outline]) -> tuple[Key, ...]:
    even = key("even-handed choice", svg.add(None, "line", class_="even", x1=1, x2=35, y1=8, y2=8))
    return (*(line_key(series, outline.name) for series, outline in enumerate(outlines)), even)


def outermost(outlines: Sequence[Outline], *, has_intervals: bool = False) -> float:
    """The share at the outermost ring, which holds every share and, where they are drawn, every interval."""
    estimates = [share for outline in outlines for share in outline.estimates if share is not None]
    ends = [share.upper for share in estimates] if has_intervals else []
    largest = max(keep_finite([*ends, *(share.value for share in estimates)]), default=0.0)
    return max(N_RINGS, min(round(1 / RING_STEP), ceil(round(largest / RING_STEP, 6)))) * RING_STEP


def at(place: int, n_spokes: int, share: float, top: float) -> Place:
    """Return the place of a share on a spoke; a share beyond the outermost ring lies on that ring."""
    angle = 2 * pi * place / n_spokes
    radius = RADIUS * min(1.0, max(0.0, share / top))
    return CENTRE[0] + radius * sin(angle), CENTRE[1] - radius * cos(angle)


def _draw_rings(picture: Element, n_spokes: int, top: float) -> None:
    for ring in range(1, round(top / RING_STEP) + 1):
        share = ring * RING_STEP
        corners = [at(place, n_spokes, share, top) for place in range(n_spokes)]
        svg.add(picture, "polygon", class_="ring", points=svg.points(corners))
        x, y = at(0, n_spokes, share, top)
        svg.text(picture, x + 4, y + 11, number(share), size=10, class_="soft halo")


def _draw_spoke(picture: Element, place: int, spoke: Spoke, n_spokes: int) -> None:
    x, y = at(place, n_spokes, 1, 1)
    svg.add(picture, "line", class_="ring", x1=CENTRE[0], y1=CENTRE[1], x2=x, y2=y)
    angle = 2 * pi * place / n_spokes
    x, y = x + LABEL_GAP * sin(angle), y - LABEL_GAP * cos(angle)
    side = round(sin(angle), 3)
    anchor = "middle" if side == 0 else "start" if side > 0 else "end"
    room = 2 * min(x, WIDTH - x) if side == 0 else WIDTH - x if side > 0 else x
    # Two lines of text, set so that they grow away from the centre.
    y += {-1: -12, 0: -2, 1: 10}[round(-cos(angle))]
    label = svg.text(picture, x, y, svg.fitted(spoke.label, room, 13), size=13, text_anchor=anchor, class_="strong")
    svg.hint(label, spoke.label)
    if spoke.axis:
        svg.text(picture, x, y + 13, svg.fitted(spoke.axis, room, 10.5), size=10.5, text_anchor=anchor, class_="soft")


def _value(share: Estimate | None) -> float | None:
    return None if share is None else drop_infinite(share.value)


def _draw_intervals(
    picture: Element, series: int, outline: Outline, spokes: Sequence[Spoke], top: float, *, beside: float
) -> None:
    """Draw the intervals along the spokes, moved to the clockwise side so that those of outlines lie apart."""
    for place, (spoke, share) in enumerate(zip(spokes, outline.estimates, strict=True)):
        ends = None if share is None or _value(share) is None else interval_between(share.lower, share.upper)
        if ends is None:
            continue
        angle = 2 * pi * place / len(spokes)
        shift = BESIDE * beside * cos(angle), BESIDE * beside * sin(angle)
        (x1, y1), (x2, y2) = ((x + shift[0], y + shift[1]) for x, y in (at(place, len(spokes), e, top) for e in ends))
        line = svg.add(picture, "line", class_=f"vertex {style(series)}", x1=x1, y1=y1, x2=x2, y2=y2)
        line.set("data-spoke", svg.fit(spoke.label))
        svg.hint(line, f"{outline.name}, {spoke.label}: {format_estimate(share)}")


def _draw_outline(
    picture: Element, series: int, outline: Outline, spokes: Sequence[Spoke], top: float, *, is_alone: bool
) -> None:
    group = svg.add(picture, "g", class_=style(series), data_run=outline.name)
    values = enumerate(map(_value, outline.estimates))
    places = [None if value is None else at(place, len(spokes), value, top) for place, value in values]
    corners = [place for place in places if place is not None]
    line = {"class_": f"outline {style(series)}", "stroke_dasharray": dash(series)}
    if len(corners) == len(spokes):
        svg.add(group, "polygon", points=svg.points(corners), fill_opacity=0.14 if is_alone else 0, **line)
    else:
        for here, there in pairwise([*places, places[0]]):
            if here is not None and there is not None:
                svg.add(group, "polyline", points=svg.points([here, there]), fill="none", **line)
    for spoke, corner, share in zip(spokes, places, outline.estimates, strict=True):
        if corner is not None:
            drawn = mark(group, series, *corner)
            drawn.set("data-spoke", svg.fit(spoke.label))
            svg.hint(drawn, f"{outline.name}, {spoke.label}: {format_estimate(share)}")
