"""`biasgate auditors measure swaps`: the table, JSON, the user's own file, what is wrong."""

import json
from pathlib import Path

import pytest

from gateway.__main__ import main

LINES = """\
{"text": "My sister is ill.", "swapped": "My brother is ill."}
{"text": "My uncle is ill.", "swapped": null}
{"text": "My aunt is pregnant.", "swapped": "My uncle is pregnant."}
"""


def test_own_file_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shares with their counts and Wilson's intervals."""
    path = tmp_path / "labelled.jsonl"
    path.write_text(LINES, encoding="utf-8")
    assert main(["auditors", "measure", "swaps", "--file", str(path), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)["file"]
    assert measured["n"] == 3
    assert (measured["contradictions"]["count"], measured["contradictions"]["of"]) == (1, 2)
    assert (measured["swapped"]["count"], measured["swapped"]["of"]) == (1, 2)
    assert measured["swapped"]["lower"] == pytest.approx(0.0945, abs=1e-4)
    assert measured["swapped"]["upper"] == pytest.approx(0.9055, abs=1e-4)


def test_what_is_wrong_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The option --wrong lists contradictions and texts left alone."""
    path = tmp_path / "labelled.jsonl"
    path.write_text(LINES, encoding="utf-8")
    assert main(["auditors", "measure", "swaps", "--file", str(path), "--wrong"]) == 0
    table = capsys.readouterr().out
    assert "0.500 (0.095 to 0.905)" in table
    assert "contradiction: 'My uncle is ill.': 'My aunt is ill.'" in table
    assert "missed: 'My aunt is pregnant.': left alone: bound to the group" in table


def test_parts_that_come_along(capsys: pytest.CaptureFixture[str]) -> None:
    """Both parts are measured without a file."""
    assert main(["auditors", "measure", "swaps", "--part", "held-out"]) == 0
    [head, row] = capsys.readouterr().out.strip().splitlines()
    assert head.split()[:3] == ["part", "texts", "swaps"]
    assert row.split()[0] == "held-out"


def test_unreadable_file_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says why in a line and ends with 2."""
    path = tmp_path / "labelled.jsonl"
    path.write_text("{}\n", encoding="utf-8")
    assert main(["auditors", "measure", "swaps", "--file", str(path)]) == 2
    assert "labelled.jsonl: line 1" in capsys.readouterr().err


def test_the_published_figures_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The page of evidence has the lines that the command prints."""
    page = (Path(__file__).parents[3] / "docs/evidence/swaps.md").read_text(encoding="utf-8")
    assert main(["auditors", "measure", "swaps"]) == 0
    for line in capsys.readouterr().out.strip().splitlines():
        assert f"\n{line.rstrip()}\n" in page
