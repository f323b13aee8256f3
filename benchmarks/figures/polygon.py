"""The affinity polygon: whose answers evaluators choose, one outline an evaluator, with the interval of every share."""

import math
from collections.abc import Sequence

from auditors.types import Estimate
from benchmarks.figures import radar
from benchmarks.figures.figure import Figure, Key, Part, Picture, spoken
from benchmarks.figures.radar import Outline, Spoke
from benchmarks.figures.scales import known
from benchmarks.figures.svg import NARROW, WIDE, add, canvas, fitted, hint, kind_of, markup, text

ROW = 18.0
FEWEST = 3
"""Spokes that make a polygon."""


def figure(title: str, spokes: Sequence[Spoke], outlines: Sequence[Outline]) -> Figure:
    """The polygon with its legend; on a narrow page numbers stand at the corners, and the names below.

    Args:
        title: of whom.
        spokes: the identities, axis by axis.
        outlines: an evaluator each, with an estimate a spoke.
    """
    undefined = [
        f"{outline.name}: {spoke.label} is undefined: {'not measured' if one is None else one.reason or 'no reason'}."
        for outline in outlines
        for spoke, one in zip(spokes, outline.estimates, strict=True)
        if one is None or known(one.value) is None
    ]
    picture = Picture(title="Shares of the choices", reading="", svg=draw(spokes, outlines, label=title))
    return Figure(
        title=title,
        reading=(
            "Distance from the centre is the share of choices that fell on the identity's answer, the bar at a corner "
            "its interval. The dashed outline is an even-handed evaluator."
        ),
        keys=(*radar.legend(outlines), _interval_key()),
        parts=(Part(pictures=(picture,)),),
        notes=tuple(undefined),
    )


def draw(spokes: Sequence[Spoke], outlines: Sequence[Outline], *, label: str) -> str:
    """Both widths as SVG; fewer than three identities are said in words, as they span nothing."""
    label = f"{label}. {'; '.join(_said(one, spokes) for one in outlines) or 'No evaluator has chosen yet'}."
    if len(spokes) < FEWEST or not outlines:
        return _nothing(label, "no evaluator has chosen yet" if spokes else "no identities to choose between")
    drawn = radar.draw(spokes, outlines, label=label, has_intervals=True, width=WIDE)
    numbered = [Spoke(label=str(place), axis="", even=one.even) for place, one in enumerate(spokes, start=1)]
    small = radar.draw(numbered, outlines, label=label, has_intervals=True, width=NARROW)
    return drawn + small + _names(spokes)


def _said(outline: Outline, spokes: Sequence[Spoke]) -> str:
    pairs = zip(spokes, outline.estimates, strict=True)
    return f"{outline.name}: " + ", ".join(f"{spoke.label} {_words(one)}" for spoke, one in pairs)


def _words(one: Estimate | None) -> str:
    return spoken(one) if one is None or one.value is None or math.isfinite(one.value) else "undefined: not a number"


def _names(spokes: Sequence[Spoke]) -> str:
    """What the numbers stand for, below the narrow one."""
    picture = canvas(NARROW, ROW * len(spokes) + 4, None, kind="narrow")
    for place, spoke in enumerate(spokes, start=1):
        words = fitted(f"{place}  {spoke.label} ({spoke.axis})", NARROW - 4, 12)
        hint(text(picture, 2, ROW * place - 4, words), spoke.label)
    return markup(picture)


def _nothing(label: str, words: str) -> str:
    drawn = []
    for width in (WIDE, NARROW):
        picture = canvas(width, 24, label, kind=kind_of(width))
        text(picture, 0, 16, words, size=13, class_="soft")
        drawn.append(markup(picture))
    return "".join(drawn)


def _interval_key() -> Key:
    swatch = canvas(36, 16, None)
    add(swatch, "line", class_="vertex series-0", x1=4, x2=32, y1=8, y2=8)
    return Key(svg=markup(swatch), words="interval of a share")
