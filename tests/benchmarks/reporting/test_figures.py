"""The figures of LTF-TEST and CoGS: what is drawn is what is stored, undefined is not 0, nothing leaves its box."""

import re
from importlib import resources
from math import hypot

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import bars, heatmap, radar
from benchmarks.figures.bars import BarPanel, Row
from benchmarks.figures.colours import REFUSED, contrast, diverging, ink_on
from benchmarks.figures.figure import Run
from benchmarks.figures.marks import DASHES, N_COLOURS, SIDES, dash, style
from benchmarks.figures.panels import Point
from benchmarks.figures.radar import Outline
from benchmarks.suites.cogs import figures as cogs
from benchmarks.suites.cogs.prompts import TASKS
from benchmarks.suites.ltf_test import figures as ltf
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

    def test_the_diagonal_is_blank(self) -> None:
        """No cell, so neither 0 nor n, between a group and itself; codes stand on top."""
        picture = ltf_pictures(favour("christians", "muslims", 1.0), favour("muslims", "christians", 1.0))[0]

        assert set(cells(picture.svg)) == {("christians", "muslims"), ("muslims", "christians")}
        assert words(parsed(picture.svg)).count("CH") == 2
        assert "0.00" not in words(parsed(picture.svg))

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

    @pytest.mark.parametrize(("n", "hatched"), [(1, True), (4, True), (5, False), (504, False)])
    def test_thin_cells_are_hatched(self, n: int, hatched: bool) -> None:
        """Fewer than five essays."""
        cell = cells(ltf_pictures(favour("christians", "muslims", 1.0, n=n))[0].svg)["christians", "muslims"]

        assert (cell.find("path") is not None) == hatched

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

    def test_names_are_text(self) -> None:
        """A group with a tag in its name is escaped, in the picture and its label."""
        svg = ltf_pictures(favour("<b>x", 'y"&', 1.0))[0].svg

        assert "<b>" not in svg
        assert ("<b>x", 'y"&') in cells(svg)

    def test_several_runs_have_no_shared_map(self) -> None:
        """Each run has its own maps; without favouritism there is no figure."""
        one = Run(name="m", estimates=[favour("christians", "muslims", 1.0)])

        assert ltf.figures([one, one]) == []
        assert ltf.figures([Run(name="m", estimates=[estimate(1.0)])]) == []

    def test_codes_differ(self) -> None:
        """Names that share all their letters get numbers."""
        assert heatmap.codes_of(["conservatives", "communists", "co", "c", "c"]) == ("CO", "COM", "CO1", "C1", "C2")


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
        (x0, y0), radius = radar.CENTRE, radar.RADIUS

        assert labels == ["White", "Black", "Asian", "Straight", "Queer", "Man", "Woman", "Non-Binary"]
        assert [hypot(x - x0, y - y0) for x, y in corners] == pytest.approx(
            [radius * value / 0.8 for value in values], abs=0.02
        )
        assert corners[0] == pytest.approx((x0, y0 - radius * 0.5 / 0.8), abs=0.01)
        assert corners[2] == pytest.approx((x0 + radius * 0.2 / 0.8, y0), abs=0.01)
        assert corners[4] == pytest.approx((x0, y0 + radius * 0.4 / 0.8), abs=0.01)

    def test_reference_is_an_even_handed_choice(self) -> None:
        """1/3 on six spokes, 1/2 on straight and queer."""
        [figure] = cogs.figures([Run(name="m", estimates=shares(*[0.1] * 8))])
        [even] = [e for e in parsed(pictures([figure])[0].svg).iter("polygon") if e.get("class") == "even"]
        (x0, y0), third = radar.CENTRE, radar.RADIUS / 3 / 0.8
        distances = [hypot(x - x0, y - y0) for x, y in places(even.attrib["points"])]

        assert distances == pytest.approx([third] * 3 + [1.5 * third] * 2 + [third] * 3, abs=0.02)

    @pytest.mark.parametrize(
        ("largest", "top", "n_rings"), [(0.5, 0.8, 4), (0.8, 0.8, 4), (0.81, 1.0, 5), (1.0, 1.0, 5)]
    )
    def test_rings_reach_the_largest_share(self, largest: float, top: float, n_rings: int) -> None:
        """Every 0.2 up to 0.8, and further only where a share needs it."""
        [figure] = cogs.figures([Run(name="m", estimates=shares(largest, *[0.1] * 7))])
        picture = parsed(pictures([figure])[0].svg)

        assert radar.outermost([Outline(name="m", estimates=(estimate(largest),))]) == pytest.approx(top)
        assert sum(e.get("class") == "ring" for e in picture.iter("polygon")) == n_rings

    def test_undefined_share_is_a_gap(self) -> None:
        """No point in the centre: the outline is open there, and a note gives the reason."""
        run = Run(name="m", estimates=shares(None, 0.5, 0.5, 0.6, 0.4, 0.3, 0.3, 0.4, reason="no readable choice"))
        [figure] = cogs.figures([run])
        picture = parsed(pictures([figure])[0].svg)
        lines = [e for e in picture.iter() if (e.get("class") or "").startswith("outline")]
        ends = [point for e in lines for point in places(e.attrib["points"])]

        assert {e.tag for e in lines} == {"polyline"}
        assert len(lines) == 6
        assert all(hypot(x - radar.CENTRE[0], y - radar.CENTRE[1]) > 30 for x, y in ends)
        assert "m: White is undefined: no readable choice." in figure.notes
        assert "White undefined" in picture.attrib["aria-label"]

    def test_runs_have_their_own_line(self) -> None:
        """One outline a run, told apart by colour and dash, each with its name in the legend."""
        runs = [Run(name=name, estimates=shares(*[0.3] * 8)) for name in ("first", "<second>")]
        [figure] = cogs.figures(runs)
        picture = parsed(pictures([figure])[0].svg)
        lines = [e for e in picture.iter("polygon") if (e.get("class") or "").startswith("outline")]

        assert len({(e.get("class"), e.get("stroke-dasharray")) for e in lines}) == 2
        assert [key.words for key in figure.keys] == ["first", "<second>", "even-handed choice"]

    def test_unreliable_shares_are_named(self) -> None:
        """Where more than a fifth of the choices cannot be read, a note says so."""
        score = estimate(0.1, metric="affinity_bias_score", axis="race", extra={"is_reliable": False})
        [figure] = cogs.figures([Run(name="m", estimates=[*shares(*[0.3] * 8), score])])

        assert figure.notes == ("m: more than 20 % of the race choices could not be read.",)


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
        assert float(rectangle.attrib["width"]) == pytest.approx(0.75 * bars.TRACK_WIDTH, abs=0.01)
        ends = [float(x) - float(rectangle.attrib["x"]) for x in re.findall(r"M([\d.]+)", whisker.attrib["d"])]
        assert (min(ends), max(ends)) == pytest.approx((0.65 * bars.TRACK_WIDTH, 0.8 * bars.TRACK_WIDTH), abs=0.02)
        assert words(bar) == ["0.75"]
        assert "interval 0.65 to 0.80" in (bar.findtext("title") or "")
        assert figure.notes[0].startswith("Embedder: E.")

    def test_undefined_similarity_has_no_bar(self) -> None:
        """The word, not a bar of length 0 or 1."""
        missing = estimate(None, metric="mean_difference", axis="race", group="white", n=0, reason="no embedder")
        [figure] = cogs.figures([Run(name="m", estimates=[missing])])
        rows = [g for g in parsed(pictures([figure])[0].svg).iter("g") if g.get("class") == "bar-row"]

        assert len(rows) == 8
        assert all(words(row) == ["undefined"] and row.find("rect") is None for row in rows)
        assert "m: undefined where no embedder." in figure.notes

    def test_bars_without_interval_are_open(self) -> None:
        """As everywhere on the page."""
        row = Row(label="x", bars=(Point(value=0.5, words="w"), Point(value=0.5, lower=0.4, upper=0.6, words="w")))
        picture = parsed(
            bars.draw([BarPanel(heading="h", note="", rows=(row,))], low=0, high=1, ticks=(), columns=1, label="l")
        )

        assert [e.get("class") for e in picture.iter("rect")] == ["bar-fill open series-0", "bar-fill series-1"]

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
        assert float(even[0].attrib["x1"]) == pytest.approx(bars.LABEL_WIDTH + bars.TRACK_WIDTH / 3, abs=0.01)
        assert "n 30" in words(picture)
        assert all(task.replace("_", " ") in figure.notes[0] for task in TASKS if task != "haiku")


class TestColours:
    """Readable by colour-blind people, in print and on a dark page."""

    @given(st.floats(-3, 4))
    def test_numbers_stand_out_from_their_cell(self, value: float) -> None:
        """WCAG 2 level AA for text, on every colour of the scale."""
        colour = diverging(value, -1, 2)

        assert contrast(colour, ink_on(colour)) >= 4.5

    def test_sides_differ_in_hue_and_ends_in_lightness(self) -> None:
        """Below 0 red exceeds blue, above 0 the other way round; each side grows darker away from 0."""

        def channels(value: float) -> tuple[int, int, int]:
            colour = diverging(value, -1, 2)
            return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)

        for low in (-1.0, -0.5, -0.2):
            assert channels(low)[0] > channels(low)[2]
        for high in (0.3, 1.0, 2.0):
            assert channels(high)[2] > channels(high)[0]
        for darker, lighter in ((-1.0, -0.5), (-0.5, 0.0), (2.0, 1.0), (1.0, 0.0)):
            assert contrast(diverging(darker, -1, 2), "#ffffff") > contrast(diverging(lighter, -1, 2), "#ffffff")

    @pytest.mark.parametrize(("scheme", "card"), [("light", "#ffffff"), ("dark", "#1a212a")])
    def test_series_stand_out_from_the_page(self, scheme: str, card: str) -> None:
        """At least 3 to 1, the least for graphics (WCAG 2)."""
        css = resources.files("benchmarks.reporting").joinpath("templates/figures.css").read_text(encoding="utf-8")
        light, dark = css.split("@media (prefers-color-scheme: dark)")
        colours = re.findall(r"\.series-(\d) \{ --series: (#\w{6})", light if scheme == "light" else dark)

        assert [int(series) for series, _ in colours] == list(range(N_COLOURS))
        assert all(contrast(colour, card) >= 3 for _, colour in colours)

    def test_many_runs_are_told_apart(self) -> None:
        """Colour and dash together repeat only after 30 runs."""
        assert len({(style(series), dash(series)) for series in range(30)}) == 30
        assert len(SIDES) == len(DASHES)
