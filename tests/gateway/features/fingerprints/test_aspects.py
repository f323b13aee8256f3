"""Models over aspects: where points lie, their intervals, what is said of them, and what has none."""

from xml.etree import ElementTree as ET

import pytest

from benchmarks.figures.marks import Line
from benchmarks.figures.panels import Point
from benchmarks.figures.svg import NARROW, WIDE
from benchmarks.lab.positioning import draw_aspects
from tests.support.benchmarks.drawn import assert_inside

NONE = Point(value=None, words="no score")


def point(value: float, lower: float | None = None, upper: float | None = None) -> Point:
    return Point(value=value, lower=lower, upper=upper, words=f"{value:.2f}")


def drawn(lines: list[Line]) -> ET.Element:
    return ET.fromstring(draw_aspects(("gender", "race"), lines, label="positions", width=WIDE))


def heights(picture: ET.Element) -> list[float]:
    return [float(one.attrib["cy"]) for one in picture.iter("circle")]


def test_higher_scores_lie_higher() -> None:
    """On one scale from 0 to 1, which a longer interval widens."""
    low, high = heights(drawn([Line(name="one", points=(point(0.0), point(1.0)))]))
    lower, higher = heights(drawn([Line(name="one", points=(point(0.0), point(1.0, 0.5, 2.0)))]))

    assert low > high
    assert low == lower
    assert low - high == pytest.approx(2 * (lower - higher))


def test_an_interval_is_drawn_where_there_is_one() -> None:
    """A whisker a point that has both ends."""
    picture = drawn([Line(name="one", points=(point(0.5, 0.2, 0.8), point(0.5)))])
    assert [one.attrib["class"] for one in picture.iter("path")] == ["whisker"]


def test_a_model_without_a_score_has_no_point_there() -> None:
    """Neither 0 nor a gap that a line hides: it is said, also in place of an empty plot."""
    picture = drawn([Line(name="one", points=(point(0.5), NONE)), Line(name="two", points=(NONE, NONE))])

    assert len(heights(picture)) == 1
    assert (
        picture.attrib["aria-label"]
        == "positions. one: gender 0.50, race no score. two: gender no score, race no score"
    )
    assert "no model has a score" in "".join(drawn([Line(name="one", points=(NONE, NONE))]).itertext())


def test_every_aspect_fits_a_telephone() -> None:
    """Blocks below each other, nothing wider than the picture, whatever the names."""
    aspects = tuple(f"an aspect with a long name {number}" for number in range(9))
    lines = [Line(name=f"model {number}", points=(point(0.1, 0.0, 0.3),) * 9) for number in range(8)]
    svg = draw_aspects(aspects, lines, label="positions", width=NARROW)

    assert svg.count("<path") == 72
    assert_inside(svg)
