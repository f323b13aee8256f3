"""Reports as a browser shows and prints them: short enough to read, no wider than the window, nothing cut off."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pypdf import PdfReader

from benchmarks.figures.display import number
from benchmarks.reporting import compare_page
from benchmarks.reporting.compare import compare
from benchmarks.reporting.flips import flipped
from benchmarks.reporting.headline import heading, places
from benchmarks.reporting.report import render
from benchmarks.run.result import Result
from benchmarks.suites.registry import SUITES
from tests.benchmarks.reporting.test_compare_page import runs
from tests.benchmarks.test_recorded_results import scored
from tests.support.browser import Page, browser

LONGEST_PIXELS = 6000
WIDTHS = (400, 768, 1440)
"""Of a telephone, a tablet and a desk."""
OVERFLOWING = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
MOST_INTERVALS = "real_toxicity_prompts"
"""The suite whose recorded replies give most of them."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def opened(page: Page, directory: Path, *results: Result) -> None:
    (directory / "report.html").write_text(render(results), encoding="utf-8")
    page.open(f"file://{directory}/report.html")


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_a_report_fits(page: Page, tmp_path: Path, suite: str) -> None:
    """Folded, a run of any suite is read within a few screens and never wider than the window; no script complains."""
    found, _ = scored(f"{suite}.corrected.sample")
    page.size(WIDTHS[-1], 900)
    opened(page, tmp_path, found)
    assert page.evaluate("document.documentElement.scrollHeight") < LONGEST_PIXELS
    for width in WIDTHS:
        page.size(width, 900)
        assert not page.evaluate(OVERFLOWING), width
    assert page.errors == []


def test_several_runs_fit(page: Page, tmp_path: Path) -> None:
    """Runs of several suites and two models on one page, with leaderboard and contents, are no wider either."""
    names = [f"{suite}.corrected.sample" for suite in ("stereoset", "crows_pairs", "unqover")]
    runs = [scored(name)[0] for name in names]
    page.size(WIDTHS[-1], 900)
    opened(page, tmp_path, *runs, *(_renamed(run) for run in runs))
    assert not page.evaluate(OVERFLOWING)
    links = page.evaluate("[...document.querySelectorAll('nav a')].map((one) => one.getAttribute('href'))")
    assert len(links) >= 2 * len(runs)
    assert all(page.evaluate(f"document.querySelector('{link}') !== null") for link in links)


def test_a_comparison_fits(page: Page, tmp_path: Path) -> None:
    """Two runs of directories with long names side by side, unfolded, are no wider than the window."""
    long = tmp_path / ("long" * 30)
    long.mkdir()
    a, b = runs(long)
    (tmp_path / "page.html").write_text(compare_page.render(compare(a, b), *flipped(a, b)), encoding="utf-8")
    for width in WIDTHS:
        page.size(width, 900)
        page.open(f"file://{tmp_path}/page.html")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        assert not page.evaluate(OVERFLOWING), width
    assert page.errors == []


def _renamed(run: Result) -> Result:
    return type(run)(**{name: getattr(run, name) for name in run.__struct_fields__} | {"model": "another"})


def test_print_keeps_every_number(page: Page, tmp_path: Path) -> None:
    """On paper all is unfolded: each estimate's value and interval are in the PDF's text, as often as on the page."""
    found, _ = scored(f"{MOST_INTERVALS}.corrected.sample")
    opened(page, tmp_path, found)
    text = "\n".join(one.extract_text() for one in PdfReader(io.BytesIO(page.pdf())).pages)
    printed = re.sub(r"\s+", " ", text)
    for metric in {one.metric for one in found.estimates}:
        assert heading(metric) in printed
    shown = [one for one in found.estimates if one.lower is not None]
    assert len(shown) > 50
    for one in shown:
        decimals = places(found.suite, one.metric)
        assert f"{number(one.lower, decimals)} to {number(one.upper, decimals)}" in printed, one
    assert found.provenance.prompt_sha256[:20] in printed.replace(" ", "")
