"""Figures for their tests: estimates to draw, and what a drawing holds and where."""

import re
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from auditors.types import Estimate
from benchmarks.figures.figure import Figure, Picture, Run
from benchmarks.figures.svg import width_of
from benchmarks.suites.cogs import figures as cogs
from benchmarks.suites.ltf_test import figures as ltf

HOSTILE = ("", "x" * 500, "<script>alert(1)</script>", '" onload="x', "\u202e\u05d0\u05d1", "]]>\x00\x1f\ud800\uffff")
LONG_AXES = ("religion", "nationality", "politics", "sexual_orientation")


def estimate(value: float | None, **about: Any) -> Estimate:
    return Estimate(**({"metric": "m", "axis": "a", "value": value, "n": 20} | about))


def favour(p: str, q: str, value: float | None, **about: Any) -> Estimate:
    return estimate(value, **({"metric": "favoritism", "axis": "religion", "group": p, "reference": q} | about))


def share(axis: str, group: str, value: float | None, **about: Any) -> Estimate:
    return estimate(value, **({"metric": "selection_share", "axis": axis, "group": group} | about))


def shares(*values: float | None, **about: Any) -> list[Estimate]:
    """In the order of the spokes: white, black, asian, straight, queer, man, woman, non_binary."""
    return [share(*spoke, value, **about) for spoke, value in zip(cogs.SPOKES, values, strict=True)]


def pictures(figures: Sequence[Figure]) -> list[Picture]:
    return [picture for figure in figures for picture in figure.pictures]


def ltf_pictures(*estimates: Estimate) -> list[Picture]:
    return pictures(ltf.figures([Run(name="m", estimates=estimates)]))


def parsed(svg: str) -> ET.Element:
    """The first of a picture's widths."""
    return ET.fromstring(svg.partition("</svg>")[0] + "</svg>")


def of_class(element: ET.Element, name: str, tag: str | None = None) -> list[ET.Element]:
    return [one for one in element.iter(tag) if name in one.get("class", "").split()]


def words(element: ET.Element) -> list[str]:
    """The text drawn, without the hints."""
    return [text.text or "" for text in element.iter("text")]


def cells(svg: str) -> dict[tuple[str, str], ET.Element]:
    found = parsed(svg).iter("g")
    return {(g.attrib["data-row"], g.attrib["data-column"]): g for g in found if g.get("class") == "cell"}


def places(points: str) -> list[tuple[float, float]]:
    pairs = [pair.split(",") for pair in points.split()]
    return [(float(x), float(y)) for x, y in pairs]


def extents(element: ET.Element) -> Iterator[tuple[float, float]]:
    """Points that an element reaches."""

    def at(name: str) -> float:
        return float(element.get(name, "0"))

    if element.tag == "rect":
        yield from ((at("x"), at("y")), (at("x") + at("width"), at("y") + at("height")))
    elif element.tag == "line":
        yield from ((at("x1"), at("y1")), (at("x2"), at("y2")))
    elif element.tag == "circle":
        yield from ((at("cx") - at("r"), at("cy") - at("r")), (at("cx") + at("r"), at("cy") + at("r")))
    elif element.tag in ("polygon", "polyline"):
        yield from places(element.attrib["points"])
    elif element.tag == "path":
        yield from ((float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", element.attrib["d"]))
        yield from ((float(x), at("y")) for x in re.findall(r"H(-?[\d.]+)", element.attrib["d"]))
    elif element.tag == "text":
        size = at("font-size")
        width = width_of(element.text or "", size)
        shift = {"middle": width / 2, "end": width}.get(element.get("text-anchor", "start"), 0.0)
        yield from ((at("x") - shift, at("y") - size), (at("x") - shift + width, at("y") + size / 4))


def assert_inert(svg: str) -> None:
    """Well-formed in every width, and can be encoded: no script, style, id or attribute that runs."""
    elements = list(ET.fromstring(f"<all>{svg}</all>".encode()).iter())
    assert not [one for one in elements if one.tag in ("script", "style")]
    assert not [name for one in elements for name in one.attrib if name.startswith("on") or name in ("style", "id")]


def assert_inside(svg: str) -> None:
    """In every width."""
    for picture in ET.fromstring(f"<all>{svg}</all>"):
        _, _, width, height = map(float, picture.attrib["viewBox"].split())
        for element in picture.iter():
            for x, y in extents(element):
                assert -1 <= x <= width + 1, (element.tag, element.attrib, element.text)
                assert -1 <= y <= height + 1, (element.tag, element.attrib, element.text)
