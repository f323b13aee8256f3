"""Scales, numbers with intervals, and panels: the place of a number in a picture, and the axes around it."""

import math
from collections.abc import Iterable, Sequence

import msgspec

from benchmarks.figures.display import number
from benchmarks.figures.svg import Element, add, canvas, text

STEPS = (1.0, 2.0, 5.0, 10.0)
"""Distances between two ticks, times a power of ten."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers from `low` to `high` on pixels from `start` to `end`, either of which may be the larger."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the pixel of a value. A value beyond an end lies on that end."""
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return self.start + share * (self.end - self.start)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Return 2 to `most` round numbers of the scale with their words."""
        values, places = ticks(self.low, self.high, most)
        return [(value, number(value, places)) for value in values]

    @property
    def places(self) -> int:
        """Decimals of the ticks."""
        return ticks(self.low, self.high)[1]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its interval, in the unit of its metric; undefined where `value` is None, NaN or infinite."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    words: str = ""
    """Text shown to a reader who points at the number."""

    @property
    def drawable(self) -> float | None:
        return next(iter(keep_finite([self.value])), None)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return both ends of the interval; None unless both can be drawn."""
        ends = keep_finite((self.lower, self.upper))
        return (ends[0], ends[1]) if len(ends) == 2 else None


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """A box of a picture that two scales span: `x` from left to right, `y` from bottom to top or down the rows."""

    group: Element
    x: Scale
    y: Scale

    def upright(self, kind: str, value: float) -> Element:
        """Draw a line of class `kind` at a value of `x`, over the whole height."""
        at = self.x.at(value)
        return add(self.group, "line", class_=kind, x1=at, x2=at, y1=self.y.start, y2=self.y.end)

    def level(self, kind: str, value: float) -> Element:
        """Draw a line of class `kind` at a value of `y`, over the whole width."""
        at = self.y.at(value)
        return add(self.group, "line", class_=kind, x1=self.x.start, x2=self.x.end, y1=at, y2=at)

    def axis_below(self, ticks: Iterable[tuple[float, str]]) -> None:
        """Draw an upright line at each value, with its words below it."""
        bottom = max(self.y.start, self.y.end) + 15
        for value, words in ticks:
            self.upright("ring", value)
            text(self.group, self.x.at(value), bottom, words, size=10, class_="soft", text_anchor="middle")

    def axis_left(self, ticks: Iterable[tuple[float, str]], room: float = math.inf) -> None:
        """Draw a level line at each value, with its words left of it, cut to `room` pixels."""
        for value, words in ticks:
            self.level("ring", value)
            place = self.x.start - 6, self.y.at(value) + 4
            text(self.group, *place, words, size=10, room=room, class_="soft", text_anchor="end")


def spanning(
    values: Iterable[float | None],
    start: float,
    end: float,
    *,
    room: float = 0.0,
    low: float = -math.inf,
    high: float = math.inf,
    least: float = 0.0,
) -> Scale:
    """Return a scale of what is seen, or from `low` to `high` where no value can be drawn. `room`: at either end, as a
    share of the span, but not beyond `low` and `high` if no value is; `least`: the least span, within these.
    """
    seen = keep_finite(values) or [low, high]
    first, last = min(seen), max(seen)
    more = max(room * (last - first), (least - (last - first)) / 2)
    below, above = min(first, max(low, first - more)), max(last, min(high, last + more))
    above = max(above, min(high, below + least))
    below = min(below, max(low, above - least))
    if above <= below:
        below, above = below - 1.0, above + 1.0
    return Scale(low=below, high=above, start=start, end=end)


def lay_out(
    headings: Sequence[str], *, columns: int, size: tuple[float, float], gap: float, room: float, label: str
) -> tuple[Element, list[tuple[Element, float, float]]]:
    """Return a picture of panels in lines of `columns`, and the group of each panel with its left and upper edge, in
    pixels. `size`: width and height of a panel; `gap`: between panels; `room`: widest heading; `label`: read out.
    """
    columns = min(columns, len(headings))
    n_lines = -(-len(headings) // columns)
    width, height = (n * (length + gap) - gap for n, length in zip((columns, n_lines), size, strict=True))
    picture = canvas(width, height, label)
    groups = []
    for place, heading in enumerate(headings):
        x, y = place % columns * (size[0] + gap), place // columns * (size[1] + gap)
        group = add(picture, "g", class_="panel", data_panel=heading)
        text(group, x, y + 12, heading, size=13, room=room, class_="strong")
        groups.append((group, x, y))
    return picture, groups


def split_evenly(n: int, most: int) -> list[range]:
    """Split `n` places into as few ranges as possible, about equally long and of at most `most` places."""
    if not n:
        return []
    length = -(-n // -(-n // most))
    return [range(first, min(first + length, n)) for first in range(0, n, length)]


def keep_finite(values: Iterable[float | None]) -> list[float]:
    """Return the numbers that can be drawn."""
    return [value for value in values if value is not None and math.isfinite(value)]


def all_numbers(points: Iterable[Point]) -> list[float]:
    """Return the values and the ends of intervals that can be drawn."""
    return keep_finite(end for point in points for end in (point.value, point.lower, point.upper))


def ticks(low: float, high: float, most: int = 6) -> tuple[list[float], int]:
    """Return 2 to `most` round numbers between `low` and `high`, and their decimal places; none unless low < high."""
    if not low < high or not math.isfinite(high - low):
        return [], 0
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(step * power for step in STEPS if (high - low) / (step * power) <= most - 1 or step == STEPS[-1])
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return [round(place * step, places + 2) + 0.0 for place in range(first, last + 1)], places
