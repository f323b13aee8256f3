"""Figures in a real Chromium, on a page that forbids scripts and styles of its own: nothing is cut off or refused."""

import html
from collections.abc import Iterator
from importlib import resources
from typing import Literal

import pytest

from auditors.types import Estimate
from benchmarks.figures import history, radar
from benchmarks.figures.history import Bucket, Change, Chart
from benchmarks.figures.radar import Outline, Spoke
from benchmarks.figures.svg import NARROW, in_both_widths
from gateway.features.fingerprints import distances
from gateway.features.fingerprints.distances import Cell, Distances
from tests.support.benchmarks.serving import serving
from tests.support.browser import Page, browser

START = 1_767_225_600.0
NAMES = ("gender", "W" * 40, "<script>alert(1)</script>", "\u202e\u05d4\u05d2\u05d1\u05e8\u05d9\u05dd", "漢字" * 20, "")
VARIABLES = """:root { --ink: #1b2430; --soft: #5d6b7a; --line: #e1e6ec; --card: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf1; --soft: #98a6b5; --line: #2c3642; --card: #1a212a; } }
body { margin: 0; background: var(--card); }"""
SHOWN = "[...document.querySelectorAll('svg.figure')].filter((one) => one.getBoundingClientRect().width)"
CUT_OFF = f"""{SHOWN}.flatMap((svg) => {{
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter((one) => {{
    const r = one.getBoundingClientRect();
    const isBeside = r.left < box.left - 1 || r.right > box.right + 1;
    return r.width && (isBeside || r.top < box.top - 1 || r.bottom > box.bottom + 1);
  }}).map((one) => one.textContent);
}})"""


def share(value: float) -> Estimate:
    return Estimate(metric="selection_share", value=value, lower=value / 2, upper=value + 0.1, n=40)


def drawn() -> str:
    """One of each kind, under hostile names."""
    buckets = [
        Bucket(start=START + 600 * place, end=START + 600 * (place + 1), value=-1234.5 + place / 10, n=9, n_missing=1)
        for place in range(60)
    ]
    chart = Chart(
        title=NAMES[2],
        buckets=buckets,
        low=-2000.0,
        high=0.0,
        reference=(-1234.0, -1233.0),
        limits=(-1235.0, -1232.0),
        since=START + 35_000,
        alarm=START + 35_900,
        changes=[Change(at=START + 35_950, words=NAMES[1])],
        log_evidence=123_456.7,
        log_threshold=14.2,
    )
    empty = Chart(title="", buckets=(), low=0.0, high=1.0, log_threshold=1.0, reason="no history: " + "x" * 200)
    cells = tuple((Cell(value=-0.25, lower=-0.3, upper=0.1, n=1_000_000), None, *[None] * 4) for _ in NAMES)
    found = Distances(models=NAMES, axes=NAMES, cells=cells, neutral=0.0)
    spokes = tuple(Spoke(label=name, axis=name, even=1 / len(NAMES)) for name in NAMES)
    outline = Outline(name=NAMES[2], estimates=tuple(share(0.1 * place) for place in range(len(NAMES))))
    return "".join(
        (
            in_both_widths(lambda width: history.draw(chart, width)),
            in_both_widths(lambda width: history.draw(empty, width)),
            in_both_widths(lambda width: distances.draw(found, label=NAMES[2], width=width)),
            radar.draw_polygon(spokes, [outline, outline], label=NAMES[2]),
        )
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    css = resources.files("benchmarks.reporting").joinpath("templates/figures.css").read_text(encoding="utf-8")
    policy = html.escape("default-src 'none'; style-src 'self'")
    head = '<!doctype html><html lang="en"><title>figures</title><meta charset="utf-8">'
    head += f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    files = {
        "/": f'{head}<link rel="stylesheet" href="/figures.css"><body>{drawn()}'.encode(),
        "/figures.css": f"{VARIABLES}\n{css}".encode(),
        "/favicon.ico": b"",
    }
    with serving(files) as (url, _), browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.open(f"{url}/")
        opened.eventually("getComputedStyle(document.querySelector('svg.figure text')).fill !== 'rgb(0, 0, 0)'")
        yield opened


@pytest.mark.parametrize("width", [320, 400, 768, 1440])
def test_no_text_is_cut_off(page: Page, width: int) -> None:
    """Whatever stands there, and the page is as wide as its window."""
    page.size(width, 900)
    page.eventually(f"innerWidth === {width}")

    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(("width", "kind", "other"), [(320, "narrow", "wide"), (1440, "wide", "narrow")])
def test_one_width_is_shown(page: Page, width: int, kind: str, other: str) -> None:
    """The one that fits; a narrow one is as large as it was drawn, so that its text can be read."""
    page.size(width, 900)
    page.eventually(f"innerWidth === {width}")

    assert page.evaluate(f"{SHOWN}.every((one) => one.classList.contains('{kind}'))")
    assert not page.evaluate(f"{SHOWN}.some((one) => one.classList.contains('{other}'))")
    if kind == "narrow":
        assert page.evaluate(f"Math.min(...{SHOWN}.map((one) => one.getBoundingClientRect().width))") >= NARROW - 16


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(page: Page, scheme: Literal["light", "dark"]) -> None:
    """Nothing that axe-core holds against the page: every picture has words, every word contrast."""
    page.theme(scheme)
    page.size(1440, 900)

    assert page.faults() == []


def test_nothing_is_refused(page: Page) -> None:
    """No style or script that the page's policy forbids, and no error."""
    assert page.errors == []
    assert page.evaluate("document.querySelectorAll('script, [style]').length") == 0
