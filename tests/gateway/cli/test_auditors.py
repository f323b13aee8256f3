"""`biasgate auditors measure`: the errors of an auditor's reading, on the terminal."""

import pytest

from auditors.text.refusals.labelled import labelled
from gateway.__main__ import main


def test_each_part_is_measured_by_language_and_style(capsys: pytest.CaptureFixture[str]) -> None:
    """Two parts, each with its sum, a row for each language and one for each style, undefined shares named so."""
    assert main(["auditors", "measure", "refusal"]) == 0
    printed = capsys.readouterr().out
    for part in ("development", "held-out"):
        assert f"{part}: {len(labelled(part))} replies" in printed
    rows = [line.split()[0] for line in printed.splitlines() if line.strip()]
    assert rows.count("en") == rows.count("ko") == rows.count("recipe") == 2
    assert "undefined" in next(line for line in printed.splitlines() if line.startswith("sv "))
