"""Points with intervals against a line: coordinates, ends that leave the scale, and hostile rows."""

import math
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.figures import forest
from benchmarks.figures.forest import Row
from benchmarks.figures.svg import NARROW, WIDE

START = forest.NAME_WIDTH + forest.EDGE
END = WIDE - forest.NUMBER_WIDTH - forest.EDGE


def row(value: float | None, lower: float | None = None, upper: float | None = None, **given: Any) -> Row:
    return Row(**{"name": "gender"} | given, value=value, lower=lower, upper=upper)


def drawn(*rows: Row, **given: Any) -> ET.Element:
    fields: dict[str, Any] = {"line": 0.0, "label": "differences"}
    return ET.fromstring(forest.draw(rows, **fields | given))


def of_class(picture: ET.Element, name: str) -> list[ET.Element]:
    return [one for one in picture.iter() if name in one.get("class", "").split()]


def words(picture: ET.Element) -> list[str]:
    return [one.text or "" for one in picture.iter("text")]


def test_estimates_lie_on_the_scale() -> None:
    """Dot, both ends and the line, a row below the other."""
    picture = drawn(row(0.5, 0.25, 1.0), row(-0.5, -0.75, 0.25), low=-1.0, high=1.0)
    at = [START + (END - START) * share for share in (0.25, 0.5, 0.625, 0.75, 1.0)]
    first, second = of_class(picture, "interval")
    marks = of_class(picture, "mark")
    [line] = of_class(picture, "even")

    assert [float(one.attrib["cx"]) for one in marks] == pytest.approx([at[3], at[0]], abs=0.01)
    assert float(first.attrib["x1"]) == pytest.approx(at[2], abs=0.01)
    assert float(first.attrib["x2"]) == pytest.approx(at[4], abs=0.01)
    assert float(line.attrib["x1"]) == pytest.approx(at[1], abs=0.01)
    assert float(second.attrib["y1"]) - float(first.attrib["y1"]) == forest.ROW


def test_an_interval_that_holds_the_line_is_grey() -> None:
    """Also where it ends on it; one that lies to a side is not."""
    picture = drawn(row(0.5, 0.1, 1.0), row(0.5, 0.0, 1.0), row(-0.5, -1.0, 0.5))
    assert ["open" in one.attrib["class"] for one in of_class(picture, "interval")] == [False, True, True]


def test_what_is_seen_makes_the_scale() -> None:
    """With the line in it, however far away all rows are."""
    picture = drawn(row(10.0, 9.0, 11.0), line=0.0)
    [line] = of_class(picture, "even")
    [interval] = of_class(picture, "interval")

    assert START < float(line.attrib["x1"]) < float(interval.attrib["x1"]) < float(interval.attrib["x2"]) < END


def test_beyond_an_end_is_an_arrow() -> None:
    """On the side where it goes on; a dot that is not on the scale is not drawn on its edge."""
    picture = drawn(row(0.5, 0.0, 3.0), row(5.0, 4.0, 6.0), low=-1.0, high=1.0)

    assert len(of_class(picture, "mark")) == 1
    assert len(of_class(picture, "beyond")) == 2


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_undefined_is_said_and_not_drawn(value: float | None) -> None:
    """With its reason, in place of a dot at 0."""
    picture = drawn(row(value, -1.0, 1.0, reason="3 replies: 10 are needed"), row(0.5))

    assert len(of_class(picture, "mark")) == 1
    assert of_class(picture, "interval") == []
    assert "undefined: 3 replies: 10 are needed" in words(picture)
    assert "0.50 (no interval)" in words(picture)


def test_numbers_and_stars_stand_beside() -> None:
    """With a true minus sign; the name with its note; all of it read out."""
    picture = drawn(row(-0.5, -0.75, -0.25, is_starred=True, note="n 12"))

    assert words(picture)[-2:] == ["gender (n 12)", "−0.50* (−0.75 to −0.25)"]
    assert picture.findtext("desc") == "gender: −0.50* (−0.75 to −0.25)"


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize(
    "name", ["", "x" * 500, "<script>alert(1)</script>", "\u202e\u05d0\u05d1", "\x00\ud800", "漢" * 99]
)
def test_two_hundred_hostile_rows(name: str, width: float) -> None:
    """Well-formed, each at its own height, nothing beyond the picture, no id, style or script."""
    svg = forest.draw([row(0.1, 0.0, 0.2, name=name)] * 200, line=0.0, label=name, width=width)
    picture = ET.fromstring(svg.encode())
    tops = [float(one.attrib["cy"]) for one in of_class(picture, "mark")]

    assert len(set(tops)) == 200
    assert max(tops) < float(picture.attrib["height"])
    assert not [one for one in picture.iter() if {"id", "style"} & set(one.attrib) or one.tag == "script"]


def test_no_rows_are_said_to_be_none() -> None:
    """Without a scale that there are no numbers for."""
    assert words(drawn()) == ["nothing to compare"]


def test_equal_values_have_a_scale() -> None:
    """Where everything lies on the line itself."""
    picture = drawn(row(0.0, 0.0, 0.0), row(0.0))
    places = [float(one.attrib["cx"]) for one in of_class(picture, "mark")]
    assert places == pytest.approx([(START + END) / 2] * 2, abs=0.01)


def test_the_legend_names_the_line() -> None:
    """By what it stands for."""
    assert [key.words for key in forest.legend("no difference")][1] == "no difference"
