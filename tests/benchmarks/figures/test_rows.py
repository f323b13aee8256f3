"""Points with intervals: where each lies, what is no number, and what hostile input does to it."""

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import rows as drawing
from benchmarks.figures.rows import Chart, Dot
from benchmarks.figures.svg import NARROW, WIDE, width_of
from tests.support.benchmarks.drawn import words

FLOATS = st.floats(-1e9, 1e9, allow_nan=False)


def chart(*drawn: Dot, **given: Any) -> Chart:
    fields: dict[str, Any] = {"title": "t", "dots": drawn, "low": 0.0, "high": 100.0}
    return Chart(**fields | given)


def rows(shown: Chart, width: float = WIDE) -> dict[str, ET.Element]:
    picture = ET.fromstring(drawing.draw(shown, width))
    return {row.attrib["data-row"]: row for row in picture.iter("g") if row.get("class") == "dot-row"}


def at(row: ET.Element) -> float:
    return float(next(one for one in row.iter("circle")).attrib["cx"])


def ends(row: ET.Element) -> tuple[float, float]:
    path = next(one for one in row.iter("path")).attrib["d"]
    return float(path[1:].split()[0]), float(path.split("H")[1].split("M")[0])


def test_a_number_lies_where_its_axis_has_it() -> None:
    """Value and ends are on the line between the labelled numbers, the same for every run, and are printed."""
    shown = chart(
        Dot(name="a", value=60, lower=40, upper=80, words="w"),
        Dot(name="b", value=40, lower=20, upper=50, words="w"),
        neutral=50.0,
    )
    found = rows(shown)
    picture = ET.fromstring(drawing.draw(shown))
    labels = {one.text: float(one.attrib["x"]) for one in picture if one.tag == "text"}
    pixels = (labels["60"] - labels["40"]) / 20
    assert at(found["a"]) == pytest.approx(labels["60"], abs=0.02)
    assert ends(found["a"]) == pytest.approx((labels["40"], labels["80"]), abs=0.02)
    assert ends(found["b"]) == pytest.approx((labels["20"], labels["20"] + 30 * pixels), abs=0.05)
    assert words(found["a"]) == ["a", "60.0 (40.0 to 80.0)"]
    (dashed,) = (one for one in picture if one.get("class") == "even")
    assert float(dashed.attrib["x1"]) == pytest.approx(labels["40"] + 10 * pixels, abs=0.05)


def test_undefined_is_words() -> None:
    """No number, no mark: the reason stands in its place, cut before the name is. Without an interval: no whisker."""
    found = rows(
        chart(Dot(name="none", value=None, words="undefined: nobody answered"), Dot(name="bare", value=0.0, words="w"))
    )
    assert words(found["none"]) == ["none", "undefined: nobody answered"]
    assert [one.tag for one in found["none"]] == ["title", "text", "text"]
    long = Dot(name="a name in full", value=None, words=300 * "w")
    assert words(rows(chart(long), NARROW)[long.name])[0] == long.name
    assert words(found["bare"]) == ["bare", "0.0, no interval"]
    assert not list(found["bare"].iter("path"))
    assert list(found["bare"].iter("circle"))


@given(
    st.lists(st.tuples(st.text(max_size=200), FLOATS, FLOATS, FLOATS), min_size=1, max_size=5),
    st.sampled_from((WIDE, 540.0, NARROW)),
    st.none() | FLOATS,
)
def test_nothing_leaves_the_picture(found: list[tuple[str, float, float, float]], width: float, neutral: float) -> None:
    """Whatever the names and numbers, even beyond the metric's range, it is XML and within its box."""
    drawn = []
    for name, *values in found:
        lower, value, upper = sorted(values)
        drawn.append(Dot(name=name, value=value, lower=lower, upper=upper, words="w" * 300))
    picture = ET.fromstring(drawing.draw(chart(*drawn, neutral=neutral, low=-1.0, high=1.0), width))
    for row in picture.iter("g"):
        for place in (at(row), *ends(row)):
            assert drawing.SIDE - 0.01 <= place <= width - drawing.SIDE + 0.01
        left, right = row.findall("text")
        assert drawing.SIDE + width_of(left.text or "", 12) <= width - drawing.SIDE - width_of(right.text or "", 11)
