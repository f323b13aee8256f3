"""A radar of shares, one spoke a group, with the shares of an even-handed choice drawn in (protocols 5.7)."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, cos, pi, sin

import msgspec

from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.figures.figure import Key, spoken
from benchmarks.figures.scales import known, known_of
from benchmarks.figures.series import dash, line_key, mark, style
from benchmarks.figures.svg import NARROW, Element, add, canvas, fit, fitted, hint, kind_of, markup, points, text

Place = tuple[float, float]

WIDTH, HEIGHT = 560.0, 400.0
CENTRE: Place = (WIDTH / 2, HEIGHT / 2)
RADIUS = 150.0
"""Of the outermost ring."""
CORE = 370.0
"""Width of what is around the rings."""
LABEL_GAP = 14.0
RING_STEP = 0.2
BESIDE = 7.0
"""Pixels between the intervals of two outlines on one spoke."""
N_RINGS = 4
"""Rings to 0.8 as in the paper; another one where a share needs it."""


class Spoke(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    axis: str
    """Whose distribution the spoke belongs to."""
    even: float
    """The share of an even-handed choice."""


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """One run: an estimate per spoke."""

    name: str
    estimates: tuple[Estimate | None, ...]


def draw(
    spokes: Sequence[Spoke],
    outlines: Sequence[Outline],
    *,
    label: str,
    has_intervals: bool = False,
    width: float | None = None,
) -> str:
    """The radar as SVG, clockwise from the top. An outline has a gap at a spoke whose share is undefined.

    Args:
        spokes: three or more, else there is nothing to go around.
        outlines: an estimate a spoke each.
        label: read out in place of the picture.
        has_intervals: whether each share has its interval drawn along its spoke, those of several side by side.
        width: None draws it as large as it is; NARROW only what is around the rings, for labels of a few letters.
    """
    top = outermost(outlines, has_intervals=has_intervals)
    picture = canvas(WIDTH, HEIGHT, label, kind="" if width is None else kind_of(width))
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
    add(picture, "polygon", class_="even", points=points(even))
    if has_intervals:
        for series, outline in enumerate(outlines):
            _draw_intervals(picture, series, outline, spokes, top, beside=series - (len(outlines) - 1) / 2)
    for series, outline in enumerate(outlines):
        _draw_outline(picture, series, outline, spokes, top, is_alone=len(outlines) == 1)
    return markup(picture)


def legend(outlines: Sequence[Outline]) -> tuple[Key, ...]:
    swatch = canvas(36, 16, None)
    add(swatch, "line", class_="even", x1=1, x2=35, y1=8, y2=8)
    even = Key(svg=markup(swatch), words="even-handed choice")
    return (*(line_key(series, outline.name) for series, outline in enumerate(outlines)), even)


def outermost(outlines: Sequence[Outline], *, has_intervals: bool = False) -> float:
    """The share at the outermost ring, which holds every share and, where they are drawn, every interval."""
    shares = known_of(
        end
        for outline in outlines
        for one in outline.estimates
        if one is not None
        for end in (one.value, one.upper if has_intervals else None)
    )
    largest = max(shares, default=0.0)
    return max(N_RINGS, min(round(1 / RING_STEP), ceil(round(largest / RING_STEP, 6)))) * RING_STEP


def at(place: int, n_spokes: int, share: float, top: float) -> Place:
    """Where a share lies on a spoke; beyond the outermost ring it stays on it."""
    angle = 2 * pi * place / n_spokes
    radius = RADIUS * min(1.0, max(0.0, share / top))
    return CENTRE[0] + radius * sin(angle), CENTRE[1] - radius * cos(angle)


def _draw_rings(picture: Element, n_spokes: int, top: float) -> None:
    for ring in range(1, round(top / RING_STEP) + 1):
        share = ring * RING_STEP
        corners = [at(place, n_spokes, share, top) for place in range(n_spokes)]
        add(picture, "polygon", class_="ring", points=points(corners))
        x, y = at(0, n_spokes, share, top)
        text(picture, x + 4, y + 11, number(share), size=10, class_="soft halo")


def _draw_spoke(picture: Element, place: int, spoke: Spoke, n_spokes: int) -> None:
    x, y = at(place, n_spokes, 1, 1)
    add(picture, "line", class_="ring", x1=CENTRE[0], y1=CENTRE[1], x2=x, y2=y)
    angle = 2 * pi * place / n_spokes
    x, y = x + LABEL_GAP * sin(angle), y - LABEL_GAP * cos(angle)
    side = round(sin(angle), 3)
    anchor = "middle" if side == 0 else "start" if side > 0 else "end"
    room = 2 * min(x, WIDTH - x) if side == 0 else WIDTH - x if side > 0 else x
    # Two lines of text, set so that they grow away from the centre.
    y += {-1: -12, 0: -2, 1: 10}[round(-cos(angle))]
    label = text(picture, x, y, fitted(spoke.label, room, 13), size=13, text_anchor=anchor, class_="strong")
    hint(label, spoke.label)
    if spoke.axis:
        text(picture, x, y + 13, fitted(spoke.axis, room, 10.5), size=10.5, text_anchor=anchor, class_="soft")


def _draw_intervals(
    picture: Element, series: int, outline: Outline, spokes: Sequence[Spoke], top: float, *, beside: float
) -> None:
    """Along the spokes, `beside` times BESIDE pixels to their clockwise side."""
    for place, (spoke, one) in enumerate(zip(spokes, outline.estimates, strict=True)):
        ends = [] if one is None or known(one.value) is None else known_of([one.lower, one.upper])
        if len(ends) < 2:
            continue
        angle = 2 * pi * place / len(spokes)
        shift = BESIDE * beside * cos(angle), BESIDE * beside * sin(angle)
        (x1, y1), (x2, y2) = ((x + shift[0], y + shift[1]) for x, y in (at(place, len(spokes), e, top) for e in ends))
        line = add(picture, "line", class_=f"vertex {style(series)}", x1=x1, y1=y1, x2=x2, y2=y2)
        line.set("data-spoke", fit(spoke.label))
        hint(line, f"{outline.name}, {spoke.label}: {spoken(one)}")


def _draw_outline(
    picture: Element, series: int, outline: Outline, spokes: Sequence[Spoke], top: float, *, is_alone: bool
) -> None:
    group = add(picture, "g", class_=style(series), data_run=outline.name)
    values = [None if estimate is None else known(estimate.value) for estimate in outline.estimates]
    places = [None if v is None else at(i, len(spokes), v, top) for i, v in enumerate(values)]
    corners = [place for place in places if place is not None]
    line = {"class_": f"outline {style(series)}", "stroke_dasharray": dash(series)}
    if len(corners) == len(spokes):
        add(group, "polygon", points=points(corners), fill_opacity=0.14 if is_alone else 0, **line)
    else:
        for here, there in pairwise([*places, places[0]]):
            if here is not None and there is not None:
                add(group, "polyline", points=points([here, there]), fill="none", **line)
    for spoke, place, estimate in zip(spokes, places, outline.estimates, strict=True):
        if place is not None:
            shown = mark(group, series, *place)
            shown.set("data-spoke", fit(spoke.label))
            hint(shown, f"{outline.name}, {spoke.label}: {spoken(estimate)}")
