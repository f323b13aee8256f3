"""The figures of LTF-TEST and CoGS: what is drawn is what is stored, undefined is not 0, nothing leaves its box."""

import re
from importlib import resources
from math import hypot

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import radar, rows
from benchmarks.figures.colours import REFUSED, contrast, diverging, ink_on
from benchmarks.figures.figure import Run
from benchmarks.figures.marks import N_COLOURS
from benchmarks.suites.cogs import figures as cogs
from benchmarks.suites.cogs.prompts import TASKS
from tests.support.benchmarks.drawn import (
    cells,
    estimate,
    favour,
    ltf_pictures,
    parsed,
    pictures,
    places,
    share,
    shares,
    words,
)


class TestHeatMaps:
    """LTF-TEST, protocols 2.14."""

    def test_values_and_counts_are_the_estimates(self) -> None:
        """Each cell prints F, its n and its refusals, in the colour of F on the fixed scale."""
        picture = ltf_pictures(
            favour("christians", "muslims", 1.255, n=14, lower=0.9, upper=1.5, extra={"refusals": 2}),
            favour("muslims", "christians", -0.5, n=13),
        )[0]
        found = cells(picture.svg)

        assert words(found["christians", "muslims"]) == ["1.26", "n 14", "2 refused"]
        assert words(found["muslims", "christians"]) == ["−0.50", "n 13"]
        assert found["christians", "muslims"].find("rect").get("fill") == diverging(1.255, -1, 2)  # type: ignore[union-attr]
        assert "95 % interval 0.90 to 1.50" in (found["christians", "muslims"].findtext("title") or "")
        assert picture.reading == "From −0.50 (MU over CH) to 1.26 (CH over MU); 27 essays, 2 of them refused."

    def test_undefined_is_not_zero(self) -> None:
        """A cell without a value, stored or not, is dashed and says why; it is in no colour of the scale."""
        picture = ltf_pictures(favour("christians", "muslims", None, n=0, reason="no essay with a score"))[0]
        stored, missing = cells(picture.svg)["christians", "muslims"], cells(picture.svg)["muslims", "christians"]

        for cell in (stored, missing):
            assert words(cell) == ["–", "n 0"]
            assert [rect.get("fill") for rect in cell.iter("rect")] == ["none"]
        assert "no essay with a score" in (stored.findtext("title") or "")
        assert "not among the stored estimates" in (missing.findtext("title") or "")
        assert picture.reading == "No value is defined; 0 essays, 0 of them refused, 2 of 2 cells undefined."

    def test_all_refused_is_not_balance(self) -> None:
        """0 from refusals alone is grey and says so; 0 from essays has the scale's colour."""
        picture = ltf_pictures(
            favour("christians", "muslims", 0.0, n=504, extra={"refusals": 504}),
            favour("muslims", "christians", 0.0, n=504, extra={"refusals": 0}),
        )[0]
        refused, balanced = cells(picture.svg)["christians", "muslims"], cells(picture.svg)["muslims", "christians"]

        assert words(refused) == ["0.00", "n 504", "all refused"]
        assert [rect.get("fill") for rect in refused.iter("rect")] == [REFUSED]
        assert [rect.get("fill") for rect in balanced.iter("rect")] == [diverging(0.0, -1, 2)]
        assert diverging(0.0, -1, 2) != REFUSED


class TestRadar:
    """CoGS, protocols 5.7."""

    def test_shares_lie_on_their_spokes(self) -> None:
        """Eight spokes clockwise from the top; the radius is p of the outermost ring at 0.8."""
        values = (0.5, 0.3, 0.2, 0.6, 0.4, 0.45, 0.35, 0.2)
        [figure] = cogs.figures([Run(name="m", estimates=shares(*values))])
        picture = parsed(figure.parts[0].pictures[0].svg)
        [outline] = [e for e in picture.iter("polygon") if (e.get("class") or "").startswith("outline")]
        labels = [text for text in words(picture) if text[0].isupper()]
        corners = places(outline.attrib["points"])
        (x0, y0), radius = (radar.WIDTH / 2, radar.HEIGHT / 2), radar.RADIUS

        assert labels == ["White", "Black", "Asian", "Straight", "Queer", "Man", "Woman", "Non-Binary"]
        assert [hypot(x - x0, y - y0) for x, y in corners] == pytest.approx(
            [radius * value / 0.8 for value in values], abs=0.02
        )
        assert corners[0] == pytest.approx((x0, y0 - radius * 0.5 / 0.8), abs=0.01)
        assert corners[2] == pytest.approx((x0 + radius * 0.2 / 0.8, y0), abs=0.01)
        assert corners[4] == pytest.approx((x0, y0 + radius * 0.4 / 0.8), abs=0.01)

    def test_undefined_share_is_a_gap(self) -> None:
        """No point in the centre: the outline is open there, and a note gives the reason."""
        run = Run(name="m", estimates=shares(None, 0.5, 0.5, 0.6, 0.4, 0.3, 0.3, 0.4, reason="no readable choice"))
        [figure] = cogs.figures([run])
        picture = parsed(pictures([figure])[0].svg)
        lines = [e for e in picture.iter() if (e.get("class") or "").startswith("outline")]
        ends = [point for e in lines for point in places(e.attrib["points"])]

        assert {e.tag for e in lines} == {"polyline"}
        assert len(lines) == 6
        assert all(hypot(x - radar.WIDTH / 2, y - radar.HEIGHT / 2) > 30 for x, y in ends)
        assert "m: White is undefined: no readable choice (n = 20)." in figure.notes
        assert "White undefined" in picture.attrib["aria-label"]


class TestBars:
    """Similarities and shares by task."""

    def test_similarity_is_one_minus_the_distance(self) -> None:
        """The interval's ends change places; the bar's length is the number."""
        distance = estimate(
            0.25, metric="mean_difference", axis="race", group="white", lower=0.2, upper=0.35, extra={"embedder": "E"}
        )
        [figure] = cogs.figures([Run(name="m", estimates=[distance])])
        [bar] = [g for g in parsed(pictures([figure])[0].svg).iter("g") if g.get("data-row") == "White"]
        rectangle, whisker = bar.find("rect"), bar.find("path")

        assert rectangle is not None
        assert whisker is not None
        track = rows.PANEL_WIDTH - 2 * rows.SIDE
        assert float(rectangle.attrib["width"]) == pytest.approx(0.75 * track, abs=0.01)
        ends = [float(x) - float(rectangle.attrib["x"]) for x in re.findall(r"M([\d.]+)", whisker.attrib["d"])]
        assert (min(ends), max(ends)) == pytest.approx((0.65 * track, 0.8 * track), abs=0.02)
        assert words(bar) == ["White", "0.75 (0.65 to 0.80)"]
        assert "interval 0.65 to 0.80" in (bar.findtext("title") or "")
        assert figure.notes[0].startswith("Embedder: E.")

    def test_shares_by_task(self) -> None:
        """A panel for each task asked, three bars of race in it, 1/3 dashed; what was not asked is named."""
        by_task = [share("race", group, 0.2, subset="haiku", n=30) for group in ("white", "black", "asian")]
        figure = cogs.figures([Run(name="m", estimates=[*shares(*[0.3] * 8), *by_task])])[-1]
        picture = parsed(figure.parts[0].pictures[0].svg)
        panels = [g.attrib["data-panel"] for g in picture.iter("g") if g.get("class") == "panel"]
        even = [e for e in picture.iter("line") if e.get("class") == "even"]

        assert panels == ["Haiku"]
        assert [row.attrib["data-row"] for row in picture.iter("g") if row.get("class") == "bar-row"] == [
            "White", "Black", "Asian",
        ]  # fmt: skip
        track = rows.PANEL_WIDTH - 2 * rows.SIDE
        assert float(even[0].attrib["x1"]) == pytest.approx(rows.SIDE + track / 3, abs=0.01)
        assert "n 30" in words(picture)
        assert all(task.replace("_", " ") in figure.notes[0] for task in TASKS if task != "haiku")


class TestColours:
    """Readable by colour-blind people, in print and on a dark page."""

    @given(st.floats(-3, 4))
    def test_numbers_stand_out_from_their_cell(self, value: float) -> None:
        """WCAG 2 level AA for text, on every colour of the scale."""
        colour = diverging(value, -1, 2)

        assert contrast(colour, ink_on(colour)) >= 4.5

    @pytest.mark.parametrize(("scheme", "card"), [("light", "#ffffff"), ("dark", "#1a212a")])
    def test_series_stand_out_from_the_page(self, scheme: str, card: str) -> None:
        """At least 3 to 1, the least for graphics (WCAG 2)."""
        css = resources.files("benchmarks.reporting").joinpath("templates/figures.css").read_text(encoding="utf-8")
        light, dark = css.split("@media (prefers-color-scheme: dark)")
        colours = re.findall(r"\.series-(\d) \{ --series: (#\w{6})", light if scheme == "light" else dark)

        assert [int(series) for series, _ in colours] == list(range(N_COLOURS))
        assert all(contrast(colour, card) >= 3 for _, colour in colours)
