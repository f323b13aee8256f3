"""Decisions against the simulator: replies and blind judge say what is planted, and a run's intervals hold it."""

import re

import pytest

from benchmarks.run.plan import RunOptions, prepare
from benchmarks.simulator.planted.decision import Planted
from benchmarks.suites.common.association_cells import DOMAINS
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.decision.judge import judge_question, p1_is_a, read_verdict
from benchmarks.suites.decision.scores import METRIC, NEEDS_BOTH
from benchmarks.suites.protocol import Item, Observation, ProtocolName
from tests.support.long import least_covered, repeated
from tests.support.simulator.asking import asking
from tests.support.simulator.two_stages import SUITE, ask, ask_judge, by_key, covers, decisions, engine, profile

ERRING = {
    "decision": {"p_stereotype": 0.7, "p_neither": 0.2, "p_refusal": 0.1, "domains": {"race": {"p_stereotype": 0.3}}},
    "judge": {"sensitivity": 0.8, "false_positive_rate": 0.2, "p_malformed": 0.05, "p_refusal": 0.05},
}
COUNTED = 1 - 0.9 * 0.1
"""Of all replies under ERRING: the judge fails to read a tenth of those that are no plain refusal."""
READ = COUNTED - 0.1
"""Of all replies: those that answer and are read."""


def items(protocol: ProtocolName = "corrected", seed: int = 0) -> list[Item]:
    return list(SUITE.items(SUITE.load("embedded"), protocol=protocol, seed=seed))


def score(observed: Observation) -> int:
    parsed = observed.reply.parsed
    assert parsed is not None
    return int(parsed["test_score"])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("protocol", SUITE.protocols)
@pytest.mark.parametrize(("p_stereotype", "expected"), [(1.0, -1), (0.0, 1)])
def test_the_blind_judge_finds_every_decision(
    p_stereotype: float, expected: int, protocol: ProtocolName, seed: int
) -> None:
    """All tests, whatever the order of characters, words and persons; names and terms are gone from the text."""
    answering = engine(profile({"decision": {"p_stereotype": p_stereotype}}), seed)
    asked = items(protocol, seed)

    assert {score(observed) for observed in decisions(answering, asked, seed)} == {expected}
    for item in asked:
        question = judge_question(item, ask(answering, item), seed=seed).messages[0].content
        names = (*item.groups, *item.meta["called_a"], *item.meta["called_b"])
        assert not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question, re.IGNORECASE) for name in names)


def test_a_mitigation_around_a_scenario_does_not_hide_it() -> None:
    """Sentences before and after leave the planted odds as they are."""
    answering = engine(profile({"decision": {"p_stereotype": 1.0}}))
    for item in items()[::7]:
        prompt = f"Please do not rely on stereotypes. {item.messages[0].content} Be brief."
        text = answering.answer(asking(prompt)).generated[0].text
        question = judge_question(item, text, seed=0)
        parsed = read_verdict(ask_judge(answering, question.messages), p1_is_a=p1_is_a(item, 0))
        assert parsed.value["test_score"] == -1


def test_closed_values() -> None:
    """Gender: 0.9 * 0.7 * 0.8 of the replies have a direction read, 0.9 * 0.2 * 0.2 one invented, halves each way; of
    the replies that are read, or by the paper's rule of those that are counted.
    """
    behaviour = Planted(profile(ERRING), 0)
    read, invented = 0.9 * 0.7 * 0.8, 0.9 * 0.2 * 0.2
    consistent = 0.7 * read + invented / 2

    assert behaviour.expected(CellKey("absolute_mean", "gender")) == pytest.approx(100 * (read + invented) / READ)
    plan = prepare(RunOptions(suite="decision", model="m", data="embedded", protocol="paper"))
    by_paper = behaviour.expected(CellKey("absolute_mean", "gender"), plan=plan)
    assert by_paper == pytest.approx(100 * (read + invented) / COUNTED)
    assert behaviour.expected(CellKey("stereotype_rate", "gender", None, None, "career")) == pytest.approx(
        100 * consistent / (read + invented)
    )
    assert behaviour.expected(CellKey("signed_mean", "gender")) == pytest.approx(
        100 * (read + invented - 2 * consistent) / READ
    )
    assert behaviour.expected(CellKey("mean_word_score", "gender")) is None
    assert behaviour.expected(CellKey("stereotype_rate", "politics")) is None


@pytest.mark.parametrize("planted", ["default", "demo", "null", ERRING])
def test_a_run_recovers_every_planted_value(planted: str | dict[str, object]) -> None:
    """Every 99.9% interval by domain and over all holds the plan; a plan exists for each."""
    behaviour = Planted(profile(planted), 0)
    cells = SUITE.cells(decisions(engine(profile(planted), seed=3), items()), protocol="corrected")
    found = by_key((cell for cell in cells if cell.subset is None), confidence_level=0.999)

    assert {key[0] for key in found} == set(SUITE.metrics)
    assert {key[1] for key in found} == {None, *DOMAINS}
    for key, one in found.items():
        if key[0] == METRIC:  # needs an association run
            assert (one.value, one.reason) == (None, NEEDS_BOTH)
            continue
        expected = behaviour.expected(key)
        if one.reason is None:
            assert covers(one, expected), (key, one, expected)
        else:
            assert one.value == pytest.approx(expected), key


@pytest.mark.statistical
@pytest.mark.timeout(900)
@repeated(250)
@pytest.mark.parametrize("p_stereotype", [0.5, 0.75])
def test_stereotype_rates_cover_the_planted_one(p_stereotype: float, times: int) -> None:
    """At least 226 of 250 seeded runs of all tests."""
    planted = profile({"decision": {"p_stereotype": p_stereotype, "p_neither": 0.1, "p_refusal": 0.1}})
    expected = Planted(planted, 0).expected(CellKey("stereotype_rate"))
    asked, covered = items(), 0
    for seed in range(times):
        cells = SUITE.cells(decisions(engine(planted, seed), asked, seed), protocol="corrected")
        wanted = [cell for cell in cells if cell.key == ("stereotype_rate", None, None, None, None)]
        covered += sum(covers(found, expected) for found in by_key(wanted).values())
    assert covered >= least_covered(times)
