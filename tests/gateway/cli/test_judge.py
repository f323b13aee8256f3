"""`biasgate judge calibrate`: what people's labels say about a judge, on the terminal."""

import json
from pathlib import Path

import pytest

from gateway.__main__ import main


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
    assert "same score: 85.0 %" in printed
    [whole, man, woman] = printed.splitlines()[-3:]
    assert whole.split()[:2] == ["all", "0.800"]
    assert (man.split()[:2], man.split()[-1]) == (["man", "0.800"], "0")
    assert woman.split()[:2] == ["woman", "undefined"]


def test_several_people_on_one_judgement_are_one_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sixty exchanges, each labelled by three: intervals are those of sixty; where people differ their mean counts."""
    rows = [
        {"exchange_id": str(n), "value": float(n % 2), "measured_value": float(n % 2), "group": "man", "annotator": who}
        for n in range(60)
        for who in "abc"
    ]
    rows[2]["value"] = 1.0  # one of three calls exchange 0 positive: so does their mean, which is above 0
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert main(["judge", "calibrate", str(path)]) == 0
    printed = capsys.readouterr().out

    assert "180 labels with a judge's score, 0 without one left out\nthey are of 60 judgements" in printed
    assert "same score: 100.0 %, Cohen's kappa 1.000, without 1 on which people differ" in printed
    whole = printed.splitlines()[-2].split()
    assert (whole[0], whole[1], whole[5], whole[-1]) == ("all", "0.968", "31", "29")


def test_a_share_is_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """(.24 + .9 - 1) / (.8 + .9 - 1) = .2"""
    path = labels(tmp_path / "labels.jsonl", MIXED)
    assert main(["judge", "calibrate", str(path), "--positive", "240", "--of", "1000"]) == 0
    assert "0.240 by the judge; corrected 0.200 (" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "arguments", "line"),
    [
        ('{"value": 1}', [], "line 1"),
        ("{}", ["--positive", "3"], "line 1"),
        ('{"value": 1, "measured_value": 1}', ["--positive", "3"], "--positive and --of go together"),
        ('{"value": 1, "measured_value": 1}', ["--positive", "3", "--of", "2"], "--positive 3 must lie between 0"),
    ],
)
def test_a_mistake_costs_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, arguments: list[str], line: str
) -> None:
    """Exit code 2, one line on stderr that names the place, no traceback."""
    path = tmp_path / "labels.jsonl"
    path.write_text(content)
    assert main(["judge", "calibrate", str(path), *arguments]) == 2
    printed = capsys.readouterr().err
    assert line in printed
    assert len(printed.splitlines()) == 1


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path is named."""
    assert main(["judge", "calibrate", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err
