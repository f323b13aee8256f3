"""`biasgate plan`: its table, the page that shows it, and what it takes from a configuration."""

import json
import re
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.support.commands import refused
from tests.support.excerpts import is_excerpt

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "scaling.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```\n\$ biasgate (plan .*)\n((?:.*\n)*?)```", PAGE, re.MULTILINE)


def test_page_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The block of docs/scaling.md is part of the command's output."""
    [(command, block)] = SHOWN
    assert main(command.split()) == 0
    assert is_excerpt(block.strip(), capsys.readouterr().out)


def test_configuration_says_what_is_enabled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Auditors with their rates and budgets, the rate of sampling, retention and the kind of store."""
    path = tmp_path / "biasgate.toml"
    path.write_text(
        '[store]\nurl = "sqlite:///x.db"\nretention_days = 7\n[sampling]\nrate = 0.2\n[auditors.judge]\nrate = 0.5\n'
        "max_concurrency = 9\n[auditors.embedding]\nenabled = false\n[auditors.refusal]\nenabled = false\n"
        "[auditors.counterfactual]\nenabled = true\n"
    )
    assert main(["plan", "--requests-per-second", "10", "--config", str(path), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    traffic = found["traffic"]
    assert traffic["auditors"] == {"judge": 0.5, "counterfactual": 0.1}
    assert (traffic["rate"], traffic["retention_days"], traffic["store"]) == (0.2, 7.0, "sqlite")
    assert (traffic["max_concurrency"], traffic["budgets"]["counterfactual"]) == (9, 60_000.0)
    assert found["sampled_per_second"] == pytest.approx(2.0)
    assert {part["name"] for part in found["parts"]} >= {"relay", "writer", "store", "judge, tokens"}
    assert all(part["sources"] for part in found["parts"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--requests-per-second", "0"], "--requests-per-second 0 must be above 0"),
        (["--requests-per-second", "1", "--rate", "5"], "--rate 5 must be between 0 and 1"),
        (["--requests-per-second", "1", "--auditors", "jugde"], 'did you mean "judge"'),
        (["--requests-per-second", "1", "--auditors", "judge=x"], '"x" is not a rate'),
        (["--requests-per-second", "1", "--auditors", "judge=2"], "--auditors judge 2 must be between 0 and 1"),
        (["--requests-per-second", "1", "--config", "none.toml"], "none.toml: no such configuration file"),
    ],
)
def test_mistakes_cost_one_line(arguments: list[str], words: str) -> None:
    """What is wrong, with its value; exit code 2."""
    assert words in refused("plan", *arguments)
