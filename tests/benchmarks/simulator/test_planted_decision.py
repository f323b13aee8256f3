"""Decisions against the simulator: replies and blind judge say what is planted, and a run's intervals hold it."""

import re

import pytest

from benchmarks.simulator.planted.decision import Planted
from benchmarks.suites.common.association_cells import DOMAINS
from benchmarks.suites.decision.judge import judge_question
from benchmarks.suites.decision.scores import METRIC, NEEDS_BOTH
from benchmarks.suites.protocol import Item, Observation, ProtocolName
from tests.support.simulator.two_stages import SUITE, ask, by_key, covers, decisions, engine, profile

ERRING = {
    "decision": {"p_stereotype": 0.7, "p_neither": 0.2, "p_refusal": 0.1, "domains": {"race": {"p_stereotype": 0.3}}},
    "judge": {"sensitivity": 0.8, "false_positive_rate": 0.2, "p_malformed": 0.05, "p_refusal": 0.05},
}


def items(protocol: ProtocolName = "corrected", seed: int = 0) -> list[Item]:
    return list(SUITE.items(SUITE.load("embedded"), protocol=protocol, seed=seed))


def score(observed: Observation) -> int:
    parsed = observed.reply.parsed
    assert parsed is not None
    return int(parsed["test_score"])


@pytest.mark.parametrize("protocol", SUITE.protocols)
@pytest.mark.parametrize(("seed", "p_stereotype", "expected"), [(0, 1.0, -1), (1, 0.0, 1)])
def test_the_blind_judge_finds_every_decision(
    seed: int, p_stereotype: float, expected: int, protocol: ProtocolName
) -> None:
    """All tests, whatever the order of characters, words and persons; names and terms are gone from the text."""
    answering = engine(profile({"decision": {"p_stereotype": p_stereotype}}), seed)
    asked = items(protocol, seed)

    assert {score(observed) for observed in decisions(answering, asked, seed)} == {expected}
    for item in asked:
        question = judge_question(item, ask(answering, item), seed=seed).messages[0].content
        names = (*item.groups, *item.meta["called_a"], *item.meta["called_b"])
        assert not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question, re.IGNORECASE) for name in names)


@pytest.mark.parametrize("planted", ["null", ERRING])
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
