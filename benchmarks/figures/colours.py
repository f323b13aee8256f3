"""Colours that survive colour blindness and print: orange below 0, blue above, each darker with distance."""

from itertools import pairwise

Colour = tuple[int, int, int]
"""sRGB, 0 to 255."""

_BELOW: tuple[Colour, ...] = ((247, 247, 244), (240, 178, 112), (181, 89, 12))
_ABOVE: tuple[Colour, ...] = ((247, 247, 244), (133, 180, 222), (27, 79, 143))
REFUSED = "#c3c9cf"
"""Fill where every essay is a refusal: outside the scale, since 0 is then a rule and not a balance."""


def diverging(value: float, low: float, high: float) -> str:
    """The colour of a value on a fixed scale around 0, `low` < 0 < `high`; values beyond an end take its colour."""
    stops, share = (_ABOVE, value / high) if value >= 0 else (_BELOW, value / low)
    place = min(1.0, share) * (len(stops) - 1)
    first = min(int(place), len(stops) - 2)
    (below, above), rest = list(pairwise(stops))[first], place - first
    red, green, blue = (round(a + (b - a) * rest) for a, b in zip(below, above, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def ink_on(colour: str) -> str:
    """Return black or white, the easier to read on a colour: a contrast of at least 4.5 (WCAG 2)."""
    return "#000000" if contrast(colour, "#000000") >= contrast(colour, "#ffffff") else "#ffffff"


def ink_class(colour: str) -> str:
    """The class of text on a colour (figures.css); an attribute would yield to the page's own rule."""
    return "ink-black" if ink_on(colour) == "#000000" else "ink-white"


def contrast(first: str, second: str) -> float:
    """WCAG 2 contrast ratio of two `#rrggbb` colours, 1 to 21."""
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * channel for weight, channel in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
