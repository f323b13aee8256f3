"""Small pieces of SVG for a page: rounded numbers, escaped text, no ids, so that figures cannot disturb each other."""

from unicodedata import east_asian_width
from xml.etree import ElementTree as ET

Element = ET.Element

EM = 0.62
"""Width of a usual letter over the font size; wide enough for the page's widest font."""


def canvas(width: float, height: float, label: str | None) -> Element:
    """The picture. `label` is read out in place of it; without one it is an ornament beside words that say the same."""
    size = {
        "width": _written(width),
        "height": _written(height),
        "viewBox": f"0 0 {_written(width)} {_written(height)}",
    }
    spoken = {"aria-hidden": "true"} if label is None else {"role": "img", "aria-label": label}
    return Element("svg", {"class": "figure", **spoken, **size})


def add(parent: Element, tag: str, words: str | None = None, /, **attributes: str | float) -> Element:
    """A child with `words` as its text. `class_` and `stroke_width` become class and stroke-width."""
    written = {name.rstrip("_").replace("_", "-"): _written(value) for name, value in attributes.items()}
    child = ET.SubElement(parent, tag, written)
    child.text = words
    return child


def text(parent: Element, x: float, y: float, words: str, *, size: float = 12, **attributes: str) -> Element:
    return add(parent, "text", words, x=x, y=y, font_size=size, **attributes)


def hint(parent: Element, words: str) -> None:
    """What a reader sees who points at `parent`."""
    add(parent, "title", words)


def markup(element: Element) -> str:
    return ET.tostring(element, encoding="unicode")


def points(places: list[tuple[float, float]]) -> str:
    return " ".join(f"{_written(x)},{_written(y)}" for x, y in places)


def width_of(words: str, size: float) -> float:
    """Pixels that a line of text takes at most."""
    return size * sum(1.1 if east_asian_width(letter) in "WF" else EM for letter in words)


def fitted(words: str, width: float, size: float) -> str:
    """The words, cut with an ellipsis where they are wider than `width` pixels."""
    if width_of(words, size) <= width:
        return words
    while words and width_of(words, size) + size > width:
        words = words[:-1]
    return words.rstrip() + "…"


def _written(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, 2):g}"
