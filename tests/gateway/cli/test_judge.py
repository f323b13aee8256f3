"""`biasgate judge calibrate`: what people's labels say about a judge, on the terminal."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

from benchmarks.run.judge import read
from gateway.__main__ import main
from tests.support.excerpts import block_from, is_excerpt
from tools.simulations.raters import Setting, draw, label_lines

PAGE = Path(__file__).parents[3] / "docs" / "judges.md"


def written(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def calibrated(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["judge", "calibrate", str(path), *arguments]) == 0
    return capsys.readouterr().out


def row(printed: str, *start: str) -> list[str]:
    """Cells of the first line that begins with these cells."""
    lines = (re.split(r"  +", line) for line in printed.splitlines())
    return next(cells for cells in lines if tuple(cells[: len(start)]) == start)


def labels(path: Path, rows: list[tuple[float, float | None, str | None]]) -> Path:
    """A file with (person, judge, group) on each line, as GET /annotations gives them."""
    lines = [json.dumps({"value": p, "measured_value": j, "group": g, "annotator": "ann"}) for p, j, g in rows]
    path.write_text("\n".join(lines))
    return path


MIXED: list[tuple[float, float | None, str | None]] = [
    *[(2.0, 2.0, "man")] * 40,
    *[(2.0, 0.0, "man")] * 10,
    *[(0.0, 0.0, "woman")] * 45,
    *[(0.0, 1.0, "woman")] * 5,
    (1.0, None, None),
]


def test_agreement_and_error_rates_by_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """85 of 100 the same; sensitivity 40/50, specificity 45/50; the one without a score is left out."""
    assert main(["judge", "calibrate", str(labels(tmp_path / "labels.jsonl", MIXED))]) == 0
    printed = capsys.readouterr().out
    assert "100 labels with a judge's score, 1 without one left out" in printed
    assert row(printed, "judge with people")[1].startswith("85.0 %")
    assert row(printed, "0") == ["0", "0", "45", "5", "0"]
    assert row(printed, "2") == ["2", "0", "10", "0", "40"]
    [whole, man, woman] = printed.splitlines()[-3:]
    assert whole.split()[:2] == ["all", "0.800"]
    assert (man.split()[:2], man.split()[-1]) == (["man", "0.800"], "0")
    assert woman.split()[:2] == ["woman", "undefined"]


def test_judgements_of_one_exchange_hang_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four groups of each of forty exchanges, judged alike: the interval is that of forty, not of 160."""
    rows = [
        {"exchange_id": f"{n}", "group": group, "value": float(n % 2), "measured_value": float(n % 2 if n % 4 else 1)}
        for n in range(40)
        for group in ("man", "woman", "boy", "girl")
    ]
    apart = [dict(one, exchange_id=f"{n}") for n, one in enumerate(rows)]
    found = row(calibrated(written(tmp_path / "a", rows), capsys), "judge with people")
    as_if = row(calibrated(written(tmp_path / "b", apart), capsys), "judge with people")

    assert found[1] == "75.0 % (59.8 to 85.8)"  # Wilson's of 30 in 40
    assert as_if[1] == "75.0 % (67.8 to 81.1)"  # of 120 in 160
    assert found[-2:] == ["160", "40"]


def test_the_newest_label_of_a_person_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its time, wherever it stands in the file; of equal times the last line. Nobody known is nobody twice."""
    rows = [
        {"exchange_id": f"{n}", "annotator": "ann", "value": value, "measured_value": 1.0, "created_at": at}
        for n in range(20)
        for at, value in ((2.0, 1.0), (1.0, 0.0))
    ]
    rows += [{"exchange_id": "0", "annotator": "ann", "value": 0.0, "measured_value": 1.0, "created_at": 2.0}]
    rows += [{"exchange_id": "1", "value": 1.0, "measured_value": 1.0} for _ in range(2)]
    printed = calibrated(written(tmp_path / "labels.jsonl", rows), capsys)

    assert "22 labels with a judge's score, 0 without one left out, 21 replaced by newer ones" in printed
    assert row(printed, "judge with people who agree")[1].startswith("95.0 %")
    assert row(printed, "people with one another")[-2:] == ["1", "1"]


def test_the_page_shows_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/judges.md has the output for simulated labels, so the example is never out of date. The comparison that is
    kept says how many people there were, how far they agree, and alpha with their intervals."""
    drawn = draw(Setting("", lean=1.0, hardness=1.0, most=3), 150, np.random.default_rng(1))
    path, out = written(tmp_path / "labels.jsonl", label_lines(drawn)), tmp_path / "validation.json"
    printed = calibrated(path, capsys, "--positive", "240", "--of", "1000")
    assert is_excerpt(block_from(PAGE.read_text(encoding="utf-8"), printed.splitlines()[0]), printed)

    calibrated(path, capsys, *KEPT[2:], "--thinking", "off", "--out", str(out))
    found = read(out)
    assert (found.n_people, found.n_by_several) == (3, 214)
    assert found.people_agreement == pytest.approx(0.802, abs=0.001)
    assert found.people_agreement_interval is not None
    assert found.alpha is not None
    assert found.alpha_interval is not None
    assert found.alpha_interval.lower < found.alpha < found.alpha_interval.upper


def test_a_comparison_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--out keeps who was compared on what, n, kappa and its interval, and says whether that validates the judge."""
    path, out = labels(tmp_path / "labels.jsonl", [*MIXED[:100], *MIXED[:100]]), tmp_path / "validation.json"
    about = ["--judge-model", "j", "--prompt-sha256", "a" * 64, "--thinking", "off", "--out", str(out)]
    assert main(["judge", "calibrate", str(path), *about]) == 0
    found = read(out)

    assert "validation.json: validates the judge on this question" in capsys.readouterr().out
    assert (found.judge_model, found.prompt_sha256, found.n, found.agreement) == ("j", "a" * 64, 200, 0.85)
    assert found.kappa_lower is not None
    assert found.kappa is not None
    assert found.kappa_lower < found.kappa < 1
    assert (found.n_exchanges, found.n_people, found.n_by_several, found.alpha) == (200, None, 0, None)
    assert found.confusion == [[0, 0, 0, 0], [0, 90, 10, 0], [0, 0, 0, 0], [0, 20, 0, 80]]
    assert [(one.group, one.n, one.agreement) for one in found.by_group] == [("man", 100, 0.8), ("woman", 100, 0.9)]
    assert found.by_group[0].sensitivity == 0.8
    assert found.by_group[0].specificity is None


ONE = '{"value": 1, "measured_value": 1}'
KEPT = ["--out", "v", "--judge-model", "j", "--prompt-sha256", "a" * 64]


def two(key: str, first: str, second: str) -> str:
    """Two labels that differ in a field."""
    return "\n".join(ONE.replace("}", f', "{key}": "{value}"}}') for value in (first, second))


@pytest.mark.parametrize(
    ("content", "arguments", "line"),
    [
        ('{"value": 1}', [], "line 1"),
        ("", [], "no label has a judge's score"),
        (ONE.replace("1,", '3, "metric": "favoritism",'), [], "line 1: value 3 is outside the range of fav"),
        ('{"value": 1, "measured_value": "1"}', [], "values are both names and scores"),
        (two("metric", "a", "b"), [], "labels of several metrics, a, b: take those of one"),
        (ONE, ["--threshold", "nan"], "--threshold nan is not a finite number"),
        (ONE, ["--positive", "3", "--of", "2"], "--positive 3 must lie between 0"),
        (
            ONE,
            KEPT,
            "the labels do not name the judge they are compared with: give --judge-model M, --prompt-sha256 HASH",
        ),
        (ONE, [*KEPT[:-1], "a" * 63, "--thinking", "off"], "is not a SHA-256"),
        (two("judge_thinking", "on", "on"), [*KEPT, "--thinking", "off"], '"off" is not that of the labels, "on"'),
        (two("judge_model", "a", "b"), ["--out", "v"], "the labels are of several judges, judge-model is a, b"),
        (two("judge_fingerprint", "v1", "v2"), ["--out", "v"], "while these were scored, its servers said v1, v2"),
        ('{"value": 0.5, "measured_value": 1}', [*KEPT, "--thinking", "off"], "they cannot validate a judge"),
    ],
)
def test_a_mistake_costs_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, arguments: list[str], line: str
) -> None:
    """Exit code 2, one line on stderr that names the place, no traceback, no table before it."""
    path = tmp_path / "labels.jsonl"
    path.write_text(content)
    assert main(["judge", "calibrate", str(path), *arguments]) == 2
    printed = capsys.readouterr()
    assert line in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == "" or "cannot validate a judge" in line


WITH_JUDGE = ("judge with each of them", "judge with people who agree")


def test_names_of_several_axes_agree_by_chance_within_their_axis(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three people and a judge who choose at random between two names of each of two axes: kappa near 0 in each row."""
    rng, names = np.random.default_rng(0), {"gender": ("man", "woman"), "age": ("old", "young")}
    rows = [
        {
            "value": names[axis][rng.integers(2)],
            "measured_value": judge,
            "axis": axis,
            "task": f"{axis}{item}",
            "annotator": person,
        }
        for axis in names
        for item in range(200)
        for judge in (names[axis][rng.integers(2)],)
        for person in "abc"
    ]
    printed = calibrated(written(tmp_path / "labels.jsonl", rows), capsys)

    kappas = [
        float(row(printed, start)[2].split()[0])
        for start in ("3 people with one another, chance by axis", "3 people: age", "3 people: gender", *WITH_JUDGE)
    ]
    assert max(map(abs, kappas)) < 0.1
