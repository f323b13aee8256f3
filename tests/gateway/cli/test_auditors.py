"""`biasgate auditors measure`: the errors of an auditor's reading, on the terminal."""

import json
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.features.measuring.labelled_replies import labelled


def test_each_part_is_measured_by_language(capsys: pytest.CaptureFixture[str]) -> None:
    """Two parts, each with its sum and each language in a row, undefined shares named so."""
    assert main(["auditors", "measure", "refusal"]) == 0
    printed = capsys.readouterr().out
    for part in ("development", "held-out"):
        assert f"{part}: {len(labelled(part))} replies" in printed
    rows = [line for line in printed.splitlines() if line.strip()]
    words = [word for row in rows for word in row.split()]
    assert words.count("en") == words.count("ko") == 2
    assert all("undefined" in row for row in rows if "sv" in row.split())


class TestChoices:
    """`biasgate auditors measure choices`."""

    def test_each_part_has_a_row_for_each_suite(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Each part has a table with a row for each suite and one for all."""
        assert main(["auditors", "measure", "choices"]) == 0
        rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]

        assert rows.count("development:") == rows.count("held-out:") == 1
        assert rows.count("bbq") == rows.count("winobias") == rows.count("all") == 2

    def test_a_file_is_counted_by_label_and_reading(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Counts as JSON, misread replies with --wrong."""
        line = {"suite": "unqover", "options": ["Ann", "Bob"], "label": "Ann"}
        texts = ["Ann", "The answer is Bob.", "Ann or Bob"]
        path = tmp_path / "own.jsonl"
        path.write_text("\n".join(json.dumps(line | {"text": text}) for text in texts))

        assert main(["auditors", "measure", "choices", "--file", str(path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {
            "counts": {"choice": {"the same": 1, "another": 1, "none": 1}, "none": {"an option": 0, "none": 0}}
        }
        assert main(["auditors", "measure", "choices", "--file", str(path), "--wrong"]) == 0
        assert "unqover: 'The answer is Bob.' is Ann, read as Bob" in capsys.readouterr().out

    def test_a_wrong_file_ends_with_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A line that is no labelled reply, or a missing file, is named in a line of its own."""
        path = tmp_path / "own.jsonl"
        path.write_text('{"suite": "bbq"}')

        assert main(["auditors", "measure", "choices", "--file", str(path)]) == 2
        assert main(["auditors", "measure", "choices", "--file", str(tmp_path / "missing")]) == 2
        printed = capsys.readouterr().err.splitlines()
        assert [line.startswith("biasgate: ") for line in printed] == [True, True]
        assert f"{path}, line 1: " in printed[0]
