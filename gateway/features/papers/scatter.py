"""Points with upright intervals over a number: one number of several models against another that is known of them."""

from collections.abc import Sequence

from benchmarks.figures.marks import mark, whisker
from benchmarks.figures.panels import Panel, Point, Scale, all_numbers, keep_finite, ticks
from benchmarks.figures.svg import WIDE, add, canvas, fitted, hint, kind_of, markup, nothing, text

HEIGHT, LEFT, TOP, FOOT, RIGHT = 300.0, 52.0, 12.0, 24.0, 18.0
ROOM = 0.06
"""Space at either end, as a share of the span that is drawn."""
LABEL = 130.0
"""Most pixels of a point's name."""


class Spot(Point, frozen=True, kw_only=True):
    name: str
    across: float


def draw(title: str, spots: Sequence[Spot], marks: Sequence[tuple[float, str]], width: float = WIDE) -> str:
    """The points, from left to right by `across`. `marks`: places on that scale, with the words below them; those
    beyond the points are left out. Points without a number are left out.
    """
    spots = [spot for spot in spots if spot.drawable is not None]
    if not spots:
        return nothing(width, title, "no model has both numbers")
    description = "; ".join(f"{spot.name}: {spot.words}" for spot in spots)
    picture = canvas(width, HEIGHT, title, description=description, kind=kind_of(width))
    box = Panel(group=picture, left=LEFT, right=width - RIGHT, top=TOP, bottom=HEIGHT - FOOT)
    along = _scale([spot.across for spot in spots], box.left, box.right)
    up = _scale(all_numbers(spots), box.bottom, box.top)
    box.draw_axis_left(up, *ticks(up.low, up.high))
    for value, words in marks:
        if along.holds(value):
            box.draw_upright("ring", along.at(value))
            text(picture, along.at(value), box.bottom + 15, words, size=10, class_="soft", text_anchor="middle")
    for spot in spots:
        group, x, y = (
            add(picture, "g", class_="dot-row", data_row=spot.name),
            along.at(spot.across),
            up.at(spot.value or 0),
        )
        hint(group, f"{spot.name}: {spot.words}")
        whisker(group, up, spot.interval, x, is_upright=True)
        mark(group, 0, x, y)
        is_left = x > (box.left + box.right) / 2
        place = {"text_anchor": "end"} if is_left else {}
        text(
            group, x + (-8 if is_left else 8), y - 6, fitted(spot.name, LABEL, 10), size=10, class_="soft halo", **place
        )
    return markup(picture)


def _scale(values: Sequence[float], start: float, end: float) -> Scale:
    drawn = keep_finite(values)
    low, high = min(drawn), max(drawn)
    room = ROOM * (high - low) or 1.0
    return Scale(low=low - room, high=high + room, start=start, end=end)
