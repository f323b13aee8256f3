"""The affinity polygon: intervals along the spokes, several evaluators beside each other, and hostile input."""

from math import hypot
from xml.etree import ElementTree as ET

import pytest

from auditors.types import Estimate
from benchmarks.figures import radar
from benchmarks.figures.figure import drawn_as
from benchmarks.figures.marks import Line
from benchmarks.figures.panels import Point
from benchmarks.figures.radar import Spoke
from benchmarks.figures.svg import NARROW
from tests.support.benchmarks.drawn import HOSTILE, assert_inert, of_class

SPOKES = tuple(Spoke(label=f"group-{place}", axis="race", even=0.25) for place in range(4))
CENTRE = (radar.WIDTH / 2, radar.HEIGHT / 2)


def share(value: float | None, lower: float | None = None, upper: float | None = None) -> Point:
    return drawn_as(Point, Estimate(metric="m", value=value, lower=lower, upper=upper, n=40, reason="none was read"))


def drawn(*outlines: Line, spokes: tuple[Spoke, ...] = SPOKES) -> ET.Element:
    return ET.fromstring(f"<all>{radar.draw_polygon(spokes, outlines, label='shares')}</all>")


def ends(line: ET.Element) -> tuple[tuple[float, float], tuple[float, float]]:
    x1, y1, x2, y2 = (float(line.attrib[name]) for name in ("x1", "y1", "x2", "y2"))
    return (x1, y1), (x2, y2)


def test_an_interval_lies_along_its_spoke() -> None:
    """From its lower to its upper end, at the radius of a share."""
    [wide, _, _] = drawn(Line(name="m", points=(share(0.5, 0.4, 0.6), *[share(0.2, 0.1, 0.3)] * 3)))
    lines = of_class(wide, "vertex")
    radius = radar.RADIUS / 0.8

    assert len(lines) == 4
    above = (CENTRE[0], CENTRE[1] - 0.4 * radius, CENTRE[0], CENTRE[1] - 0.6 * radius)
    right = (CENTRE[0] + 0.1 * radius, CENTRE[1], CENTRE[0] + 0.3 * radius, CENTRE[1])
    for line, place in ((lines[0], above), (lines[1], right)):
        (x1, y1), (x2, y2) = ends(line)
        assert (x1, y1, x2, y2) == pytest.approx(place, abs=0.01)


def test_evaluators_have_their_intervals_beside_each_other() -> None:
    """Neither hides the other's; both are parallel to the spoke."""
    outlines = [Line(name=name, points=tuple([share(0.5, 0.4, 0.6)] * 4)) for name in ("a", "b")]
    [wide, _, _] = drawn(*outlines)
    lines = [ends(line) for line in of_class(wide, "vertex")]

    for one, other in zip(lines[:4], lines[4:], strict=True):
        assert hypot(one[0][0] - other[0][0], one[0][1] - other[0][1]) == pytest.approx(radar.BESIDE, abs=0.03)
        assert hypot(one[1][0] - other[1][0], one[1][1] - other[1][1]) == pytest.approx(radar.BESIDE, abs=0.03)


def test_a_narrow_page_has_numbers_and_names_below() -> None:
    """The corners are numbered in the order of the list."""
    [_, narrow, names] = drawn(Line(name="m", points=tuple([share(0.5)] * 4)))
    listed = [one.text for one in names.iter("text")]

    assert float(narrow.attrib["width"]) == float(names.attrib["width"]) == NARROW
    assert [one.text for one in of_class(narrow, "strong")] == ["1", "2", "3", "4"]
    assert listed == [f"{place + 1}  group-{place} (race)" for place in range(4)]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name: str) -> None:
    """However many there are."""
    spokes = tuple(Spoke(label=name, axis=name, even=0.01) for _ in range(200))
    outlines = [Line(name=name, points=tuple([share(0.1, 0.0, 0.2)] * 200)) for _ in range(3)]
    svg = radar.draw_polygon(spokes, outlines, label=name)

    assert_inert(svg)
    assert svg.count('class="vertex') == 2 * 3 * 200
