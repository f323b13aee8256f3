"""`biasgate judge calibrate --judged`: shares of other judgements, each group's corrected by its own error rates."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from gateway.__main__ import main
from tests.support.commands import refused
from tests.support.excerpts import block_from, is_excerpt
from tools.simulations.planted_rates import LABELLED_SHARES, OTHER_SHARES, Drawn, Setting, draw

PAGE = Path(__file__).parents[3] / "docs" / "judges.md"
SETTING = Setting("", lean=1.0, ease=1.0)
JUDGE = {"judge_model": "j", "prompt_sha256": "a" * 64, "judge_thinking": "off"}


def write(path: Path, drawn: Drawn, *, has_people: bool, **more: object) -> Path:
    """Lines as `annotate export` has them; exchanges, groups and scores 0 or 1."""
    lines = []
    for number, (person, judge, group, exchange) in enumerate(zip(*drawn, strict=True)):
        line = {"task": f"{number}", "exchange_id": f"e{exchange}", "axis": "gender", "group": group, **JUDGE, **more}
        line |= {"measured_value": int(judge)}
        lines.append(json.dumps(line | ({"value": int(person), "annotator": "ann"} if has_people else {})))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    drawn = draw(SETTING, 150, LABELLED_SHARES, np.random.default_rng(3))
    return write(tmp_path / "labels.jsonl", drawn, has_people=True)


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    drawn = draw(SETTING, 600, OTHER_SHARES, np.random.default_rng(4))
    return write(tmp_path / "judged.jsonl", drawn, has_people=False)


def test_the_page_shows_what_is_printed(labels: Path, judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/judges.md has the tables for simulated judgements; the shares that people would give are planted."""
    assert main(["judge", "calibrate", str(labels), "--judged", str(judged)]) == 0
    printed = capsys.readouterr().out

    assert is_excerpt(block_from(PAGE.read_text(encoding="utf-8"), "share above 0 of"), printed)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"group": "man"}', "judged.jsonl, line 1: .*give measured_value and group on every line"),
        (b'{"measured_value": null, "group": "man"}', "no line has a measured_value and a group"),
        (b"", "no line has a measured_value and a group"),
        (b'{"measured_value": 1, "group": "man", "judge_model": "k"}', "its judge_model is k, that of the labels j"),
        (b'{"measured_value": 1, "group": "man", "judge_thinking": "on"}', "its judge_thinking is on, .* labels off"),
        (None, "judged.jsonl: No such file"),
    ],
)
def test_bad_input(labels: Path, tmp_path: Path, line: bytes | None, message: str) -> None:
    """One line that says what is wrong."""
    path = tmp_path / "judged.jsonl"
    if line is not None:
        path.write_bytes(line)
    assert re.search(message, refused("judge", "calibrate", str(labels), "--judged", str(path)))
