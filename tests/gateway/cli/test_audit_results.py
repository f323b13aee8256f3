"""`biasgate audit score`, `compare`, `gate` and `report` on directories of earlier runs."""

import json
from pathlib import Path

import pytest

from benchmarks.run import directory
from benchmarks.run.result import Result
from gateway.__main__ import main
from tests.support.benchmarks.scripted import plan
from tests.support.commands import command, scored, stereoset
from tests.support.simulated import running_simulator

Say = pytest.CaptureFixture[str]


class TestAfterwards:
    """Score, compare, gate and report on directories."""

    def test_score_then_gate(self, tmp_path: Path, capsys: Say) -> None:
        """A gate passes, fails and reports an undefined number, with exit codes 0, 1 and 1."""
        path = str(scored(tmp_path / "run"))

        assert main(["audit", "gate", path, "--require", "stereoset.lms.lower > 80"]) == 0
        assert main(["audit", "gate", path, "--require", "stereoset.ss.upper < 60"]) == 1
        few = "stereoset.ss[axis=gender,subset=intersentence].upper < 101"
        assert main(["audit", "gate", path, "--require", few]) == 1
        assert "upper is undefined: no interval: 6 target terms" in capsys.readouterr().out

    def test_gate_formats_end_alike(self, tmp_path: Path, capsys: Say) -> None:
        """Every format ends with the same code: 0, 1, and 2 for a judge that is not validated, which text refuses."""
        path = scored(tmp_path / "run")
        result = json.loads((path / "result.json").read_text(encoding="utf-8"))
        result["judge"] = {"model": "j", "validated": False, "reason": "nobody compared it"}
        (tmp_path / "judged").mkdir()
        (tmp_path / "judged" / "result.json").write_text(json.dumps(result), encoding="utf-8")
        capsys.readouterr()

        for form in ("text", "markdown", "junit", "sarif"):
            asked = ["--format", form, "--require", "stereoset.lms.lower > 80"]
            assert main(["audit", "gate", str(path), *asked]) == 0
            assert main(["audit", "gate", str(path), *asked, "--require", "stereoset.ss.upper < 60"]) == 1
            capsys.readouterr()
            assert main(["audit", "gate", str(tmp_path / "judged"), *asked]) == 2
            out, err = capsys.readouterr()
            assert ("nobody compared it" in out) == (form != "text")
            assert "its judge is not validated: nobody compared it" in err

    def test_compare_prints_and_writes(self, tmp_path: Path, capsys: Say) -> None:
        """The table is printed, and --out holds all of it."""
        a, b = scored(tmp_path / "a"), scored(tmp_path / "b", "anti-stereotype")

        assert main(["audit", "compare", str(a), str(b), "--out", "difference.json"]) == 0
        written = json.loads((tmp_path / "difference.json").read_text(encoding="utf-8"))
        assert written["n_paired"] == 48
        assert "adjusted (Holm)" in capsys.readouterr().out

    async def test_a_mitigation_is_printed_as_differences(self, tmp_path: Path, capsys: Say) -> None:
        """The plain run's values, then signed differences with intervals, a table a metric, the mean last."""
        async with running_simulator() as url:
            assert (await command(*stereoset(url, "--out", "a", "--quiet")))[0] == 0
            added = ("--mitigation", "abstract")
            assert (await command(*stereoset(url, *added, "--out", "b", "--quiet")))[0] == 0
            code, out, _ = await command("audit", "compare", "a", "b")

        table = next(part for part in out.split("\n\n") if part.startswith("SS "))
        head, before, after, *_ = table.splitlines()
        assert code == 0
        assert "the runs differ in: mitigation none and abstract" in out
        assert head.split()[1:5] == ["gender", "profession", "race", "religion"]
        assert head.endswith("mean (pooled)")
        assert before.startswith("A simulated ")
        assert after.startswith("B simulated + abstract ")
        assert all(number[0] in "+−0" for number in after.removeprefix("B simulated + abstract").split())

    def test_report_of_several(self, tmp_path: Path, capsys: Say) -> None:
        """One page from two runs."""
        a, b = scored(tmp_path / "a"), scored(tmp_path / "b", "unrelated")

        assert main(["audit", "report", str(a), str(b), "--out", "r.html"]) == 0
        assert "Side by side" in (tmp_path / "r.html").read_text(encoding="utf-8")
        assert capsys.readouterr().out.endswith("r.html\n")

    def test_missing_replies_are_said(self, tmp_path: Path, capsys: Say) -> None:
        """Scoring part of a suite says how much is not there."""
        item = plan().items[0]
        line = json.dumps({"item_id": item.item_id, "text": "x"})
        (tmp_path / "few.jsonl").write_text(line, encoding="utf-8")

        arguments = ["audit", "score", "--suite", "stereoset", "--data", "embedded"]
        assert main([*arguments, "--responses", "few.jsonl"]) == 0
        assert "47 of 48 replies are not in the file" in capsys.readouterr().out


def test_result_is_what_others_decode(tmp_path: Path) -> None:
    """result.json is the struct that every other part reads."""
    assert isinstance(directory.read_result(scored(tmp_path / "run")), Result)
