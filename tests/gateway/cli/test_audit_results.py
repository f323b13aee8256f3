"""`biasgate audit score`, `compare`, `gate` and `report` on directories of earlier runs."""

import json
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.support.benchmarks.scripted import plan
from tests.support.commands import scored

Say = pytest.CaptureFixture[str]


def test_gate_formats_end_alike(tmp_path: Path, capsys: Say) -> None:
    """Every format ends with the same code: 0, 1, and 2 for a judge that is not validated, which text refuses."""
    path = scored(tmp_path / "run")
    result = json.loads((path / "result.json").read_text(encoding="utf-8"))
    result["judge"] = {"model": "j", "validated": False, "reason": "it was never compared"}
    (tmp_path / "judged").mkdir()
    (tmp_path / "judged" / "result.json").write_text(json.dumps(result), encoding="utf-8")
    capsys.readouterr()

    for form in ("text", "markdown", "junit", "sarif"):
        options = ["--format", form, "--require", "stereoset.lms.lower > 80"]
        assert main(["audit", "gate", str(path), *options]) == 0
        assert main(["audit", "gate", str(path), *options, "--require", "stereoset.ss.upper < 60"]) == 1
        capsys.readouterr()
        assert main(["audit", "gate", str(tmp_path / "judged"), *options]) == 2
        out, err = capsys.readouterr()
        assert ("it was never compared" in out) == (form != "text")
        assert "its judge is not validated: it was never compared" in err


def test_two_runs_are_compared_and_reported(tmp_path: Path, capsys: Say) -> None:
    """A table is printed, --out holds all of it, and one page shows both runs."""
    a, b = (str(scored(tmp_path / name, role)) for name, role in (("a", "stereotype"), ("b", "anti-stereotype")))
    assert main(["audit", "compare", a, b, "--out", "difference.json"]) == 0
    assert json.loads((tmp_path / "difference.json").read_text(encoding="utf-8"))["n_paired"] == 48
    assert "adjusted (Holm)" in capsys.readouterr().out
    assert main(["audit", "report", a, b, "--out", "r.html"]) == 0
    assert "Side by side" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_missing_replies_are_said(tmp_path: Path, capsys: Say) -> None:
    """Scoring part of a suite says how much is not there."""
    line = json.dumps({"item_id": plan().items[0].item_id, "text": "x"})
    (tmp_path / "few.jsonl").write_text(line, encoding="utf-8")

    arguments = ["audit", "score", "--suite", "stereoset", "--data", "embedded"]
    assert main([*arguments, "--responses", "few.jsonl"]) == 0
    assert "47 of 48 replies are not in the file" in capsys.readouterr().out
