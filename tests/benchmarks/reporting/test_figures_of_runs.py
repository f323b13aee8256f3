"""Figures of any stored estimate, and the page of a run that holds them."""

import re
from html import unescape
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditors.types import Estimate
from benchmarks.figures.figure import Run
from benchmarks.figures.svg import fitted, width_of
from benchmarks.reporting.headline import stated
from benchmarks.reporting.report import render
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import Result, decode, encode
from benchmarks.run.score import score_recorded
from benchmarks.suites.cogs import figures as cogs
from benchmarks.suites.ltf_test import figures as ltf
from benchmarks.suites.protocol import Reply
from tests.support.benchmarks.drawn import (
    LONG_AXES,
    assert_inside,
    cells,
    estimate,
    ltf_pictures,
    parsed,
    pictures,
    words,
)

names = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), max_size=60)
values = st.none() | st.floats(-5, 5)
counts = st.integers(0, 10**6)


@st.composite
def any_estimate(draw: st.DrawFn, /, metric: str, **about: Any) -> Estimate:
    """Any value, also one off the scale; any interval; any count."""
    value, n = draw(values), draw(counts)
    ends = (None, None) if value is None else draw(st.tuples(values, values))
    extra = {"refusals": draw(st.integers(0, n))}
    return estimate(value, metric=metric, lower=ends[0], upper=ends[1], n=n, extra=extra, **about)


@settings(max_examples=40)
@given(st.data())
def test_any_heat_map_stays_in_its_box(data: st.DataObject) -> None:
    """Whatever is stored is drawn without an error, with every name and number inside."""
    groups = data.draw(st.lists(names.filter(bool), min_size=2, max_size=5, unique=True))
    stored = [
        data.draw(any_estimate("favoritism", axis="religion", group=p, reference=q, subset=subset))
        for p in groups
        for q in groups
        for subset in (None, "eval")
        if p != q and data.draw(st.booleans())
    ]

    for picture in ltf_pictures(*stored):
        assert_inside(picture.svg)
        assert parsed(picture.svg).attrib["aria-label"].endswith(picture.reading)


@settings(max_examples=40)
@given(st.data())
def test_any_cogs_figure_stays_in_its_box(data: st.DataObject) -> None:
    """Likewise, for one to three runs with any names."""
    metrics = ("selection_share", "mean_difference")
    runs = [
        Run(
            name=data.draw(names),
            estimates=[
                data.draw(any_estimate(metric, axis=axis, group=group, subset=subset))
                for metric in metrics
                for axis, group in cogs.SPOKES
                for subset in (None, "haiku")
                if data.draw(st.booleans())
            ],
        )
        for _ in range(data.draw(st.integers(1, 3)))
    ]

    for picture in pictures(cogs.figures(runs)):
        assert_inside(picture.svg)
        assert parsed(picture.svg).get("role") == "img"


@given(names, st.floats(0, 400), st.floats(8, 14))
def test_cut_words_fit(text: str, width: float, size: float) -> None:
    """Whole where there is room; otherwise not wider than the room, or one ellipsis."""
    shown = fitted(text, width, size)
    assert shown == text if width_of(text, size) <= width else (shown == "…" or width_of(shown, size) <= width)


@pytest.fixture(scope="module")
def judged_run() -> Result:
    """Score a run of the annotated questions from recorded judgements that differ by group."""
    plan = prepare(RunOptions(suite="ltf_test", model="m", subset="eval"))
    replies = []
    for number, item in enumerate(plan.items):
        score = 2 if item.groups[0] < item.groups[1] else number % 3
        text = f"Title & Intro: {score}\nReasons: {score}\nConclusions: {score}\nRtA: 0\nFinal: {score}"
        judge = {"text": text, "model": "j", "prompt_sha256": "0", "form": "text", "attempts": 1}
        replies.append(Reply(item_id=item.item_id, text="An essay.", judge=judge))
    return score_recorded(plan, replies, where="script")[0]


def test_a_stored_result_is_enough(judged_run: Result) -> None:
    """From result.json alone: a map for every axis and both subsets, all groups of long axes behind a line to open."""
    result = decode(encode(judged_run))
    [figure] = ltf.figures([Run(name="m", estimates=result.estimates)])
    stored = {(e.group, e.reference): e for e in result.estimates if (e.metric, e.subset) == ("favoritism", "eval")}
    shown = [cell for one in pictures([figure]) if one.title.endswith("(eval)") for cell in cells(one.svg).items()]
    assert [part.pictures[0].title.split(",")[0] for part in figure.parts[:3]] == ["Gender", "Race", "Religion"]
    assert {part.summary.split(":")[0] for part in figure.parts if part.more} == {
        axis.replace("_", " ").capitalize() for axis in LONG_AXES
    }
    assert [len(part.pictures) for part in figure.parts] == [2] * 11
    for (row, column), cell in shown:
        found = stored[row.replace(" ", "_"), column.replace(" ", "_")]
        value = "–" if found.value is None else f"{found.value:.2f}".replace("-", "−")
        assert words(cell)[:2] == [value, f"n {found.n}"]


def test_page_of_a_run(judged_run: Result) -> None:
    """The page has the maps of two runs as panels, then each run's, with title and reading, and no ids, outside links
    or unassessable numbers.
    """
    shown = [stated(judged_run, one) for one in judged_run.estimates]
    [figure] = ltf.figures([Run(name="m", estimates=shown)])
    [panels] = ltf.figures([Run(name=name, estimates=shown) for name in ("m", "<other>")])
    page = render([judged_run, msgspec.structs.replace(judged_run, model="<other>")])
    boxes = re.findall(r'<div class="scroll" tabindex="0">(<svg.*?</svg>)</div>', page, re.DOTALL)
    assert [len(part.pictures) for part in panels.parts] == [4] * 11
    assert boxes == [one.svg for one in pictures([panels, figure, figure])]
    assert all(one.title in page and one.reading in unescape(page) for one in pictures([figure]))
    assert "undefined: not assessable: 3 of 3 replies name an option" in unescape("".join(boxes))
    n = sum(judged_run.fault_of(one) is not None for one in judged_run.estimates)
    assert f"m: {n:,} of {len(judged_run.estimates):,} numbers of the run are not assessable, and left out" in page
    silent = msgspec.structs.replace(judged_run, assessable=False, not_assessable="no reply")
    assert "m is not assessable, and its numbers are left out: no reply." in render([silent])
    assert not re.search(r"url\(|https?://|<script|<other", page)
    assert not re.search(r"<svg[^>]*\sid=", page)
