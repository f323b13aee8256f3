"""The HTML page."""

import re
from html.parser import HTMLParser

import msgspec
import pytest

from benchmarks.figures.display import number, signed
from benchmarks.reporting.report import render
from benchmarks.run.result import Result
from tests.support.benchmarks.scripted import pick, score_answers


def result(model: str = "m", **options: object) -> Result:
    return score_answers(pick("stereotype"), model=model, **options)


class Collector(HTMLParser):
    """Keeps visible text, tags and attribute values."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(page)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_nothing_comes_from_elsewhere() -> None:
    """No script, no image, no font, no link outside the page."""
    page = render([result()])
    seen = Collector(page)

    assert not {"script", "img", "link", "iframe", "object"} & set(seen.tags)
    assert all(link.startswith("#") for link in seen.links)
    assert not re.search(r"url\(|@import|https?://", page)


def test_embedded_runs_wear_a_banner() -> None:
    """Embedded data is marked at the top and in the section; canonical data is not."""
    embedded = result()
    canonical = msgspec.structs.replace(embedded, dataset=msgspec.structs.replace(embedded.dataset, kind="canonical"))

    assert Collector(render([embedded])).text.count("Embedded, not comparable") == 2
    assert "not comparable" not in Collector(render([canonical])).text


def test_stars_are_named_and_their_absence_is_explained() -> None:
    """The card names what differs; a table says why an interval that leaves neutral out has no star."""
    run = result()
    extras = [{name: 0.2 if name == "p_adjusted" else value for name, value in e.extra.items()} for e in run.estimates]
    plain = [msgspec.structs.replace(e, extra=extra) for e, extra in zip(run.estimates, extras, strict=True)]
    pages = [Collector(render([msgspec.structs.replace(run, estimates=e)])).text for e in (run.estimates, plain)]

    assert [("SS all axes" in page, "with a star" in page, "No star though" in page) for page in pages] == [
        (True, True, False),
        (False, False, True),
    ]


def test_names_are_escaped() -> None:
    """A model name is text, never markup."""
    page = render([result("<script>alert(1)</script>")])

    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_several_runs_stand_side_by_side() -> None:
    """Runs of one kind share a table; a run of another protocol does not join it."""
    page = Collector(render([result("first"), result("second"), result("third", protocol="paper")])).text

    assert page.count("Side by side, all axes") == 1
    standing = page.split("Side by side, all axes")[1].split("Overlapping")[0]
    assert [name in standing for name in ("first", "second", "third")] == [True, True, False]


def test_several_suites_begin_with_a_summary() -> None:
    """Two sentences, each headline number with its interval, the licence and the source of the data."""
    page = Collector(render([result(), score_answers(pick("stereotype"), suite="crows_pairs")])).text

    assert "Of 2 headline numbers 2 lie away from the neutral value: StereoSet, CrowS-Pairs." in page
    assert "CC BY-SA 4.0 · aclanthology.org/2021.acl-long.416" in page.split("Embedded")[0]


def test_undefined_numbers_are_words() -> None:
    """A score without a denominator is shown as undefined with its reason, never as 0 or None."""
    page = Collector(render([score_answers(lambda _: "I'm sorry.")])).text

    assert "undefined" in page
    assert "no reply was stereotypical or anti-stereotypical" in page
    assert not re.search(r"None|\bnan\b", page)


def test_limits_and_provenance_are_on_the_page() -> None:
    """What the numbers do not show, both hashes and all counts are there."""
    shown = result()
    page = Collector(render([shown])).text

    hashes = (shown.dataset.sha256, shown.provenance.prompt_sha256)
    assert all(words in page for words in ("What this does not show", "malformed 0", *hashes))


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.25, "2.3"), (2.35, "2.4"), (-0.04, "0.0"), (-1.25, "−1.3"), (1234.5, "1,234.5"), (None, "–"), (0.05, "0.1")],
)
def test_numbers_are_rounded_half_up(value: float | None, text: str) -> None:
    """Display rounds half-up on the printed decimals, and there is no minus zero."""
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(1.25, "+1.3"), (-1.25, "−1.3"), (0.04, "0.0"), (0.0, "0.0"), (None, "–")])
def test_differences_have_signs(value: float | None, text: str) -> None:
    """Plus and minus are written out; what rounds to 0 has neither."""
    assert signed(value) == text
