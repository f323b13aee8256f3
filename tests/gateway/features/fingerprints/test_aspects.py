"""Models over aspects: where points lie, their intervals, what is said of them, and what has none."""

from xml.etree import ElementTree as ET

import pytest

from benchmarks.figures.panels import Point
from benchmarks.figures.svg import WIDE


def point(value: float, lower: float | None = None, upper: float | None = None) -> Point:
    return Point(value=value, lower=lower, upper=upper, words=f"{value:.2f}")


def drawn(lines: list[Line], aspects: tuple[str, ...] = ("gender", "race"), width: float = WIDE) -> ET.Element:
    return ET.fromstring(draw_aspects(aspects, lines, label="positions", width=width))


def heights(picture: ET.Element) -> list[float]:
    return [float(one.attrib["cy"]) for one in picture.iter("circle")]


def test_higher_scores_lie_higher() -> None:
    """On one scale from 0 to 1, which a longer interval widens."""
    low, high = heights(drawn([Line(name="one", points=(point(0.0), point(1.0)))]))
    lower, higher = heights(drawn([Line(name="one", points=(point(0.0), point(1.0, 0.5, 2.0)))]))

    assert low > high
    assert low == lower
    assert low - high == pytest.approx(2 * (lower - higher))


def test_a_model_without_a_score_has_no_point_there() -> None:
    """Neither 0 nor a gap that a line hides: it is said."""
    picture = drawn([Line(name="one", points=(point(0.5), None)), Line(name="two", points=(None, None))])

    assert len(heights(picture)) == 1
    assert (
        picture.attrib["aria-label"]
        == "positions. one: gender 0.50, race no score. two: gender no score, race no score"
    )
