"""`biasgate plan`: its arithmetic against what was measured, its table, and the page that shows it."""

import json
import re
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.features.planning import unit_costs
from gateway.features.planning.capacity import Plan, Range, Traffic, plan
from gateway.features.planning.unit_costs import AuditorCost, Cost
from tests.support.commands import refused
from tests.support.excerpts import is_excerpt

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "scaling.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```\n\$ biasgate (plan .*)\n((?:.*\n)*?)```", PAGE, re.MULTILINE)


def planned(**given: object) -> Plan:
    fields = {
        "requests_per_second": 1000.0,
        "rate": 0.01,
        "auditors": {"judge": 1.0},
        "prompt_tokens": 500.0,
        "answer_tokens": 300.0,
        "streamed": 1.0,
        "store": "postgresql",
        "retention_days": 30.0,
        "models": 1,
        "price_in": 0.15,
        "price_out": 0.6,
        "judge_seconds": None,
        "max_concurrency": 4,
        "budgets": {},
    }
    return plan(Traffic(**(fields | given)))  # type: ignore[arg-type]  # tests give any of the fields


def needs(found: Plan, name: str) -> Range:
    [one] = [part for part in found.parts if part.name == name]
    return one.needs


def full_at(found: Plan, name: str) -> Range:
    [one] = [part for part in found.parts if part.name == name]
    assert one.full_at is not None
    return one.full_at


def test_page_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The block of docs/scaling.md is part of the command's output."""
    [(command, block)] = SHOWN
    assert main(command.split()) == 0
    assert is_excerpt(block.strip(), capsys.readouterr().out)


# docs/evidence/performance.md, closed loop and "against the aims": requests a second on one core.
@pytest.mark.parametrize(("kilobytes", "measured"), [(0.2, 30_010), (0.2, 26_880), (0.2, 21_990), (10, 23_423)])
def test_relay_as_measured(kilobytes: float, measured: float) -> None:
    """Answers that are not streamed: the rate that filled a core is within the range."""
    tokens = kilobytes * 1000 / unit_costs.TEXT_BYTES
    found = planned(prompt_tokens=tokens, answer_tokens=0.0, streamed=0.0, rate=0.01)
    low, high = full_at(found, "relay")
    assert low <= measured <= high


def test_judgements_cost_what_their_tokens_do() -> None:
    """By hand: 10 a second for 30 days, each of 416 to 595 and 800 tokens read, and 60 written."""
    low, high = planned().judge_dollars_a_month
    n = 10 * 30 * 86_400
    assert low == pytest.approx(n * ((416 + 800) * 0.15 + 60 * 0.6) / 1e6)
    assert high == pytest.approx(n * ((595 + 800) * 0.15 + 60 * 0.6) / 1e6)
    assert needs(planned(prompt_tokens=1e6), "judge, tokens").high == pytest.approx(10 * (595 + 3430 + 300 + 60))


def test_every_figure_has_a_source_that_exists() -> None:
    """Pages of docs/ that are named are there; what is not measured says "assumed"."""
    found: list[Cost] = []
    for value in vars(unit_costs).values():
        found += [value] if isinstance(value, Cost) else []
        if isinstance(value, dict) and value and isinstance(next(iter(value.values())), Cost | AuditorCost):
            for one in value.values():
                found += [one] if isinstance(one, Cost) else [one.questions, one.measurements]
    assert len(found) > 20
    for cost in found:
        assert cost.low <= cost.high
        for page in re.findall(r"([\w/-]+\.md)", cost.source):
            assert (DOCS / page).is_file(), cost


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
        (["--requests-per-second", "nan"], "--requests-per-second nan must be above 0"),
        (["--requests-per-second", "1", "--rate", "5"], "--rate 5 must be between 0 and 1"),
        (["--requests-per-second", "1", "--auditors", "jugde"], 'did you mean "judge"'),
        (["--requests-per-second", "1", "--auditors", "judge=x"], '"x" is not a rate'),
        (["--requests-per-second", "1", "--auditors", "judge=2"], "--auditors judge 2 must be between 0 and 1"),
        (["--requests-per-second", "1", "--answer-tokens", "-1"], "--answer-tokens -1 must be 0 or more"),
        (["--requests-per-second", "1", "--config", "none.toml"], "none.toml: no such configuration file"),
    ],
)
def test_mistakes_cost_one_line(arguments: list[str], words: str) -> None:
    """What is wrong, with its value; exit code 2."""
    assert words in refused("plan", *arguments)
