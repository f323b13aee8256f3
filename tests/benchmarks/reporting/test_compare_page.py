"""The page of a comparison: what changed, on one scale a metric, and the replies that were read differently."""

from pathlib import Path

import pytest

from benchmarks.figures.display import number, signed
from benchmarks.reporting import flips
from benchmarks.reporting.compare import compare
from benchmarks.reporting.compare_page import render
from benchmarks.reporting.flips import flipped
from benchmarks.suites.protocol import Item
from gateway.__main__ import main
from tests.benchmarks.reporting.test_report import Collector
from tests.support.benchmarks.scripted import pick, write_run

stereotyped = pick("stereotype")


def other_way(item: Item) -> str:
    """The stereotype, but for every fourth item the opposite, with words that a page must not take for its own."""
    if sum(map(ord, item.item_id)) % 4:
        return stereotyped(item)
    return pick("anti-stereotype")(item)


def runs(tmp_path: Path) -> tuple[Path, Path]:
    return write_run(tmp_path / "a", stereotyped), write_run(tmp_path / "b", other_way)


def test_every_difference_is_on_the_page(tmp_path: Path) -> None:
    """Both values, the signed difference and its interval, as in the comparison; the headline metric is open."""
    a, b = runs(tmp_path)
    comparison = compare(a, b)
    page = render(comparison, *flipped(a, b))
    text = Collector(page).text
    for row in comparison.differences:
        if row.difference is not None:
            assert f"{number(row.value_a)} {row.n_a} {number(row.value_b)} {row.n_b} {signed(row.difference)}" in text
        if row.lower is not None:
            assert f"{signed(row.lower)} to {signed(row.upper)}" in text
    assert page.index("<details open><summary>SS") < page.index("<details><summary>")
    assert not {"script", "img", "link", "iframe"} & set(Collector(page).tags)


def test_flipped_items_stand_with_both_replies(tmp_path: Path) -> None:
    """Exactly the items that were read differently, each with what either run said."""
    a, b = runs(tmp_path)
    shown, n_flipped = flipped(a, b)
    comparison = compare(a, b)
    assert 0 < n_flipped == len(shown) < comparison.n_paired
    assert {(one.a.reading, one.b.reading) for one in shown} == {("stereotype", "anti-stereotype")}
    text = Collector(render(comparison, shown, n_flipped)).text
    assert all(one.item_id in text and " ".join(one.b.text.split()) in text for one in shown)
    assert f"replies read differently {n_flipped} of {comparison.n_paired} pairs of replies" in text


def test_a_run_against_itself(tmp_path: Path) -> None:
    """Nothing differs, nothing flipped, and the page says so instead of an empty list."""
    a, _ = runs(tmp_path)
    text = Collector(render(compare(a, a), *flipped(a, a))).text
    assert "No reply was read differently." in text
    assert "No difference was found" in text
    assert 'class="card neutral"' not in render(compare(a, a), [], 0)


def test_long_and_hostile_replies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model says is text, cut at a length, and only so many items are listed; the count is of all."""
    a = write_run(tmp_path / "a", stereotyped)
    b = write_run(tmp_path / "b", lambda item: "<script>alert(1)</script>" + "x" * 10_000)
    monkeypatch.setattr(flips, "MOST_SHOWN", 3)
    shown, n_flipped = flipped(a, b)
    assert (len(shown), n_flipped) == (3, compare(a, b).n_paired)
    page = render(compare(a, b), shown, n_flipped)
    assert "<script" not in page
    assert "x" * 2_001 not in page
    assert f"the first 3 of {n_flipped}" in page


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--html FILE` writes it beside what is printed; a place that cannot be written is one line."""
    a, b = runs(tmp_path)
    assert main(["audit", "compare", str(a), str(b), "--html", str(tmp_path / "page.html")]) == 0
    assert "minus A (scripted, a)" in capsys.readouterr().out
    assert "Replies that flipped" in (tmp_path / "page.html").read_text()
    assert main(["audit", "compare", str(a), str(b), "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert "page.html: cannot be written: No such file or directory" in capsys.readouterr().err
