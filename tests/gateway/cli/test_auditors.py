"""`biasgate auditors measure`: the errors of an auditor's reading, on the terminal."""

import pytest

from auditors.text.refusals.labelled import labelled, misjudged
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


def test_what_was_misjudged_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """--wrong prints the replies themselves, and --part no other part."""
    assert main(["auditors", "measure", "refusal", "--part", "development", "--wrong"]) == 0
    printed = capsys.readouterr().out
    assert "held-out:" not in printed
    assert all(repr(one.reply) in printed for one in misjudged(labelled("development")))


def test_another_auditor_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one line that names what there is."""
    with pytest.raises(SystemExit) as ended:
        main(["auditors", "measure", "judge"])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert len(error.strip().splitlines()) == 1
    assert "refusal" in error
