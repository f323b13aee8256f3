"""Small pieces of SVG for a page: rounded numbers, escaped text, no ids, so that figures cannot disturb each other."""

import re
from bisect import bisect
from collections.abc import Callable
from math import inf
from typing import Any
from unicodedata import east_asian_width
from xml.etree import ElementTree as ET

Element = ET.Element

EM = 0.62
"""Width of a usual letter over the font size; wide enough for the page's widest font."""
BROAD = dict.fromkeys("MW@%…—", 1.15) | dict.fromkeys("mwGOQ", 0.95)
WIDE, NARROW = 720.0, 280.0
"""Widths of a picture that is drawn for screens and print, and for a telephone, whose page has margins of its own."""
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that must not stand in a page."""


def canvas(width: float, height: float, label: str | None, *, description: str = "", kind: str = "") -> Element:
    """Return an empty picture. `label` is read out, None for an ornament; `description` says what it shows."""
    size = {
        "width": _written(width),
        "height": _written(height),
        "viewBox": f"0 0 {_written(width)} {_written(height)}",
    }
    spoken = {"aria-hidden": "true"} if label is None else {"role": "img", "aria-label": fit(label) or "figure"}
    picture = Element("svg", {"class": f"figure {kind}".rstrip(), **spoken, **size})
    if description:
        add(picture, "desc", description)
    return picture


def in_both_widths(draw: Callable[[float], str]) -> str:
    """Return a picture drawn for a wide and for a narrow page; a page shows the version that fits (figures.css)."""
    return draw(WIDE) + draw(NARROW)


def kind_of(width: float) -> str:
    """The class of a picture that is drawn so wide."""
    return "wide" if width > NARROW else "narrow"


def nothing(width: float, label: str, words: str) -> str:
    """A picture of words that say why there is nothing to draw."""
    n_lines = len(wrapped(words, width - 2, 13))
    picture = canvas(width, 17.0 * n_lines + 7, label, description=words, kind=kind_of(width))
    paragraph(picture, 0, 15, words, room=width - 2, size=13, class_="soft")
    return markup(picture)


def add(parent: Element | None, tag: str, words: str | None = None, /, **attributes: str | float) -> Element:
    """A child with `words` as its text. `class_` and `stroke_width` become class and stroke-width."""
    written = {name.rstrip("_").replace("_", "-"): _written(value) for name, value in attributes.items()}
    child = Element(tag, written) if parent is None else ET.SubElement(parent, tag, written)
    child.text = None if words is None else fit(words)
    return child


def text(
    parent: Element | None, x: float, y: float, words: str, *, size: float = 12, room: float = inf, **attributes: Any
) -> Element:
    """Add a line of text, cut to `room` pixels; a reader who points at a cut line sees all of it."""
    line = fitted(words, room, size)
    drawn = add(parent, "text", line, x=x, y=y, font_size=size, **attributes)
    if line != words:
        hint(drawn, words)
    return drawn


def paragraph(
    parent: Element,
    x: float,
    y: float,
    words: str,
    *,
    room: float,
    most: int | None = None,
    size: float = 12,
    rise: float = 0.0,
    whole: str = "",
    **attributes: Any,
) -> None:
    """Add lines of at most `room` pixels: the first at `y` where `rise` is 0, the last where it is 1. `whole`: shown to
    a reader who points at them, if not the words.
    """
    lines = wrapped(words, room, size, most)
    for place, line in enumerate(lines):
        drawn = text(parent, x, y + 1.3 * size * (place - rise * (len(lines) - 1)), line, size=size, **attributes)
        hint(drawn, whole or words)


def hint(parent: Element, words: str) -> None:
    """Add the text that is shown to a reader who points at `parent`."""
    add(parent, "title", words)


def markup(element: Element) -> str:
    return ET.tostring(element, encoding="unicode")


def points(places: list[tuple[float, float]]) -> str:
    return " ".join(f"{_written(x)},{_written(y)}" for x, y in places)


def fit(words: str) -> str:
    """Return the words with characters that must not stand in a page replaced by U+FFFD."""
    return _UNFIT.sub("\ufffd", words)


def width_of(words: str, size: float) -> float:
    """Pixels that a line of text takes at most."""
    return size * sum(_ems(letter) for letter in words)


def _ems(letter: str) -> float:
    return 1.1 if east_asian_width(letter) in "WF" else BROAD.get(letter, EM)


def fitted(words: str, width: float, size: float) -> str:
    """The words, cut with an ellipsis where they are wider than `width` pixels."""
    if width_of(words, size) <= width:
        return words
    n_letters = bisect(range(len(words)), width, key=lambda n: width_of(words[:n] + "…", size)) - 1
    return words[: max(0, n_letters)].rstrip() + "…"


def wrapped(words: str, width: float, size: float, most: int | None = None) -> list[str]:
    """The words in lines of at most `width` pixels, at most `most` of them; a word that is wider is broken."""
    lines: list[str] = []
    for word in words.split():
        for place, part in enumerate(_broken(word, width, size)):
            longer = f"{lines[-1]} {part}" if lines else part
            if lines and place == 0 and width_of(longer, size) <= width:
                lines[-1] = longer
            else:
                lines.append(part)
    if most is None or len(lines) <= most:
        return lines
    return [*lines[: most - 1], fitted(lines[most - 1] + 2 * "…", width, size).replace("……", "…")]


def _broken(word: str, width: float, size: float) -> list[str]:
    parts = [""]
    for letter in word:
        if parts[-1] and width_of(parts[-1] + letter, size) > width:
            parts.append("")
        parts[-1] += letter
    return parts


def _written(value: str | float) -> str:
    return fit(value) if isinstance(value, str) else f"{round(value, 2):g}"
