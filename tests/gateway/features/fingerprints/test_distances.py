"""Models against axes: the distance in the metric's own unit, what is hatched, and what is not enough data."""

import math
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.figures.colours import diverging
from benchmarks.figures.svg import NARROW, WIDE
from gateway.features.fingerprints import distances
from gateway.features.fingerprints.distances import NO_COLOUR, Cell, Distances
from tests.support.benchmarks.drawn import HOSTILE, assert_inert, words


def cell(value: float | None, lower: float | None = None, upper: float | None = None, **given: Any) -> Cell:
    return Cell(**{"n": 40} | given, value=value, lower=lower, upper=upper)


def of(*rows: tuple[Cell | None, ...], neutral: float = 0.0, **given: Any) -> Distances:
    n = max((len(row) for row in rows), default=0)
    names = {"models": tuple(f"model-{place}" for place in range(len(rows)))}
    axes = {"axes": tuple(f"axis-{place}" for place in range(n))}
    return Distances(**names | axes | given, cells=rows, neutral=neutral)


def drawn(found: Distances, **given: Any) -> list[ET.Element]:
    """Its cells, row by row."""
    options: dict[str, Any] = {"label": "distances", "farthest": 1.0} | given
    picture = ET.fromstring(distances.draw(found, **options))
    return [one for one in picture.iter("g") if one.get("class") == "cell"]


def is_hatched(element: ET.Element) -> bool:
    return any(one.get("class") == "hatch" for one in element)


def test_a_cell_says_how_far_it_is_from_neutral() -> None:
    """In the metric's own unit, with its sign and n, in the colour of its share of the metric's scale."""
    found = of((cell(0.7, 0.6, 0.8), cell(0.25, 0.2, 0.3)), neutral=0.5)
    above, below = drawn(found, farthest=0.25)

    assert words(above) == ["+0.20", "n 40"]
    assert words(below) == ["−0.25", "n 40"]
    assert above[1].attrib["fill"] == diverging(0.2, -0.25, 0.25)
    assert below[1].attrib["fill"] == diverging(-1.0, -1.0, 1.0)
    assert drawn(found)[1][1].attrib["fill"] == diverging(-0.25, -1.0, 1.0)


def test_only_what_is_apart_from_neutral_is_not_hatched() -> None:
    """An interval that holds it, that ends on it, or that there is none of says nothing."""
    row = (cell(0.2, 0.1, 0.3), cell(0.2, -0.1, 0.5), cell(0.2, 0.0, 0.4), cell(0.2), cell(0.2, math.nan, 0.5))
    cells = drawn(of(row))
    assert [is_hatched(cell) for cell in cells] == [False, True, True, True, True]
    assert {cell[1].attrib["fill"] for cell in cells[1:]} == {NO_COLOUR}


@pytest.mark.parametrize("undefined", [None, cell(None, n=3, reason="3 replies"), cell(math.nan), cell(math.inf)])
def test_undefined_is_not_enough_data(undefined: Cell | None) -> None:
    """No colour, no number and no hatching, which would be those of 0."""
    one, other = drawn(of((undefined, cell(0.0, -0.1, 0.1))))

    assert words(one) == ["not enough", "data"]
    assert [box.attrib["fill"] for box in one.iter("rect")] == ["none"]
    assert not is_hatched(one)
    assert words(other) == ["0.00", "n 40"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_of_two_hundred_models(name: str) -> None:
    """Names in two lines at most."""
    found = of(*[(cell(0.1, 0.0, 0.2),)] * 200, models=(name,) * 200, axes=(name,))
    for width in (WIDE, NARROW):
        svg = distances.draw(found, label=name, farthest=1.0, width=width)
        assert_inert(svg)
        assert len(ET.fromstring(svg).findall("text")) <= 2 * 201


def test_the_map_is_read_out() -> None:
    """Every cell with its interval, and why there is none."""
    found = of((cell(0.2, -0.1, 0.5), cell(None, n=3, reason="3 replies")))
    picture = ET.fromstring(distances.draw(found, label="distances", farthest=1.0))
    assert picture.findtext("desc") == (
        "model-0, axis-0: +0.20 from neutral (−0.10 to +0.50, which holds neutral), n = 40; "
        "model-0, axis-1: not enough data: 3 replies, n = 3"
    )
    assert distances.legend(found, 1.0)[0].words == "distance from neutral (0.00)"
