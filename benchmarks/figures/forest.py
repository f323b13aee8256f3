"""Points with intervals against one line: a row an estimate, whatever stands beside its name."""

from collections.abc import Sequence

import msgspec

from benchmarks.figures.display import number
from benchmarks.figures.figure import Key
from benchmarks.figures.scales import Scale, known, known_of, ticks
from benchmarks.figures.series import mark
from benchmarks.figures.svg import NARROW, WIDE, Element, add, canvas, fitted, hint, kind_of, markup, text

ROW, NARROW_ROW = 26.0, 52.0
HEAD, FOOT = 8.0, 26.0
NAME_WIDTH, NUMBER_WIDTH = 220.0, 170.0
EDGE = 12.0
"""Between the ends of the scale and what stands beside it."""
NAMELESS = "(no name)"
ROOM = 0.06
"""Beyond the outermost end, as a share of what is seen."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One estimate; undefined where `value` is None."""

    name: str
    note: str = ""
    """After the name, e.g. the number of audits."""
    value: float | None
    lower: float | None = None
    upper: float | None = None
    is_starred: bool = False
    """Whether it is apart from the line after adjustment."""
    reason: str = ""
    """Why it is undefined."""


def draw(
    rows: Sequence[Row],
    *,
    line: float,
    label: str,
    places: int = 2,
    low: float | None = None,
    high: float | None = None,
    width: float = WIDE,
) -> str:
    """The rows as SVG, in the order given.

    Args:
        rows: any number; without any it says so.
        line: the value that they are compared with, e.g. no difference.
        label: read out in place of the picture.
        places: decimals of the numbers.
        low: left end of the scale; None takes what is seen. An interval beyond an end has an arrow there.
        high: right end.
        width: of the picture; a narrow one has names on lines of their own.
    """
    height = NARROW_ROW if width <= NARROW else ROW
    bottom = HEAD + max(1, len(rows)) * height
    picture = canvas(width, bottom + FOOT, label, description=description(rows, places), kind=kind_of(width))
    if not rows:
        text(picture, 0, HEAD + 16, "nothing to compare", size=13, class_="soft")
        return markup(picture)
    frame = _Frame(scale=_scale(rows, line, low, high, width), line=line, places=places, width=width)
    _draw_axis(picture, frame, bottom)
    for place, row in enumerate(rows):
        group = add(picture, "g", class_="forest-row", data_row=row.name)
        hint(group, f"{row.name}: {_words(row, places)}")
        _draw_row(group, row, frame, HEAD + place * height)
    return markup(picture)


def legend(line_words: str) -> tuple[Key, ...]:
    """What dots, bars and the line are.

    Args:
        line_words: what the line stands for, e.g. "no difference".
    """
    estimate, line = canvas(36, 16, None), canvas(36, 16, None)
    add(estimate, "line", class_="interval series-0", x1=2, x2=34, y1=8, y2=8)
    mark(estimate, 0, 18, 8)
    add(line, "line", class_="even", x1=18, x2=18, y1=0, y2=16)
    words = "estimate with its interval, grey where it holds the line"
    return Key(svg=markup(estimate), words=words), Key(svg=markup(line), words=line_words)


def description(rows: Sequence[Row], places: int = 2) -> str:
    """The rows in words, for whoever cannot see them."""
    return "; ".join(f"{row.name}: {_words(row, places)}" for row in rows)


class _Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What all rows share."""

    scale: Scale
    line: float
    places: int
    width: float

    @property
    def is_narrow(self) -> bool:
        return self.width <= NARROW


def _scale(rows: Sequence[Row], line: float, low: float | None, high: float | None, width: float) -> Scale:
    seen = known_of([line, *(end for row in rows for end in (row.value, row.lower, row.upper))])
    room = ROOM * (max(seen) - min(seen)) or 1.0
    start, end = (EDGE, width - EDGE) if width <= NARROW else (NAME_WIDTH + EDGE, width - NUMBER_WIDTH - EDGE)
    left = min(seen) - room if low is None else low
    right = max(seen) + room if high is None else high
    return Scale(low=left, high=right if right > left else left + 1.0, start=start, end=end)


def _draw_axis(picture: Element, frame: _Frame, bottom: float) -> None:
    scale, line = frame.scale, frame.line
    values, places = ticks(scale.low, scale.high)
    for value in values:
        x = scale.at(value)
        add(picture, "line", class_="ring", x1=x, x2=x, y1=HEAD, y2=bottom)
        text(picture, x, bottom + 16, number(value, places), size=10, class_="soft", text_anchor="middle")
    add(picture, "line", class_="axis", x1=scale.start, x2=scale.end, y1=bottom, y2=bottom)
    if scale.holds(line):
        add(picture, "line", class_="even", x1=scale.at(line), x2=scale.at(line), y1=HEAD, y2=bottom)


def _draw_row(group: Element, row: Row, frame: _Frame, top: float) -> None:
    """Name, estimate and number side by side; on a narrow page name, number and estimate below each other."""
    name = row.name or NAMELESS
    name = f"{name} ({row.note})" if row.note else name
    is_undefined = known(row.value) is None
    kind = "soft halo" if is_undefined else "strong halo" if row.is_starred else "halo"
    words = _words(row, frame.places)
    if frame.is_narrow:
        text(group, 0, top + 14, fitted(name, frame.width, 12), class_="halo")
        text(group, 0, top + 29, fitted(words, frame.width, 11), size=11, class_=kind)
    else:
        baseline = top + ROW / 2 + 4
        room = frame.width - NAME_WIDTH if is_undefined else NUMBER_WIDTH
        text(group, 0, baseline, fitted(name, NAME_WIDTH - 6, 12), class_="halo")
        text(group, frame.width, baseline, fitted(words, room, 11), size=11, class_=kind, text_anchor="end")
    if not is_undefined:
        _draw_estimate(group, row, frame, top + 41 if frame.is_narrow else top + ROW / 2)


def _draw_estimate(group: Element, row: Row, frame: _Frame, y: float) -> None:
    scale, lower, upper, value = frame.scale, known(row.lower), known(row.upper), known(row.value)
    if lower is not None and upper is not None:
        is_open = lower <= frame.line <= upper
        kind = "interval open" if is_open else "interval series-0"
        add(group, "line", class_=kind, x1=scale.at(lower), x2=scale.at(upper), y1=y, y2=y)
        for x, side, is_beyond in ((scale.start, -1, lower < scale.low), (scale.end, 1, upper > scale.high)):
            if is_beyond:
                add(group, "path", class_="beyond series-0", d=f"M{x + 7 * side:.2f} {y:.2f}l{-7 * side} -4v8z")
    if value is not None and scale.holds(value):
        mark(group, 0, scale.at(value), y)


def _words(row: Row, places: int) -> str:
    value, lower, upper = known(row.value), known(row.lower), known(row.upper)
    if value is None:
        return f"undefined: {row.reason}" if row.reason else "undefined"
    star = "*" if row.is_starred else ""
    if lower is None or upper is None:
        return f"{number(value, places)}{star} (no interval)"
    return f"{number(value, places)}{star} ({number(lower, places)} to {number(upper, places)})"
