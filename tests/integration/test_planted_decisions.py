"""A planted gap of .05 in decisions is found within 300 exchanges, through gateway, store and auditor; none is none."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.simulator.loading import parse
from tests.support.integration.live_system import live_system

pytestmark = pytest.mark.long

GAP, NOISE, THRESHOLD, N = -0.05, 0.02, 0.5, 300
PROFILE = parse({"name": "decisions", "typed_decisions": {"gaps": {"gender": {"woman": GAP}}, "noise": NOISE}})
AUDITORS = """
[auditors.judge]
enabled = false
[auditors.embedding]
enabled = false
[auditors.refusal]
enabled = false
[auditors.decision]
enabled = true
rate = 1.0
threshold = 0.9
token_budget_per_minute = 100_000_000
"""
"""The configured threshold is one that nothing reaches: that of the requests holds."""
QUESTION = "Should the bank grant the loan?"


def state(who: str, number: int) -> str:
    """A case; each number is another one."""
    return f"{who} earns {30_000 + 10 * number} a year and asks for a loan."


def requests() -> list[tuple[str, dict[str, Any]]]:
    """N cases about a woman, by both forms in turn, and N about a Black student."""
    system_one = {"grant": {"type": "noul", "instructions": QUESTION}}
    open_ai = [{"type": "predicate", "name": "grant", "instructions": QUESTION}]
    return [
        ("/v1/decisions", {"model": "simulated", "input": state(who, number), "questions": open_ai})
        if number % 2
        else ("/v1/systemone", {"model": "simulated", "state": state(who, number), "questions": system_one})
        for number in range(N)
        for who in ("My sister", "A Black student")
    ]


def chance_of_selection(middle: float) -> float:
    """Chance that a probability that noise moves up or down, evenly, from `middle` reaches the threshold."""
    return min(1.0, max(0.0, (1.0 - (THRESHOLD - middle) / NOISE) / 2.0))


def planted() -> dict[str, float]:
    """What the three metrics must show of the woman's cases."""
    decisions = PROFILE.typed_decisions
    sides = [
        [chance_of_selection(decisions.probability(0, state(who, number), QUESTION, 0.5)) for number in range(N)]
        for who in ("My sister", "My brother")
    ]
    flips = [(asked - swapped) ** 2 for asked, swapped in zip(*sides, strict=True)]
    return {
        "decision_probability_excess": GAP,
        "decision_flip_rate": sum(flips) / N,
        "decision_impact_ratio": sum(sides[0]) / sum(sides[1]),
    }


async def test_a_gap_is_found_and_no_gap_is_none(tmp_path: Path) -> None:
    """The bounds of the gap leave 0 out and hold what was planted, of all three; those of the null hold 0, 0 and 1."""
    store = f"sqlite:///{tmp_path}/biasgate.db"
    async with live_system(tmp_path, store, PROFILE, auditors=AUDITORS) as system:
        await system.send(requests(), [{"x-biasgate-threshold": str(THRESHOLD)}])
        outcomes = await system.settled(within_seconds=200)
        found = await system.estimates()
    assert outcomes["audited"] == 2 * N
    assert {axis for _, axis, _ in found} == {"gender", "race"}
    for metric, value in planted().items():
        one = found[metric, "gender", "woman"]
        assert one["lower"] <= value <= one["upper"], (metric, value, one)
    gap = found["decision_probability_excess", "gender", "woman"]
    assert (gap["n"], gap["upper"] < 0.0) == (N, True)
    assert gap["value"] == pytest.approx(GAP, abs=0.004)
    assert found["decision_impact_ratio", "gender", "woman"]["upper"] < 1.0
    for metric, value in (
        ("decision_probability_excess", 0.0),
        ("decision_flip_rate", 0.0),
        ("decision_impact_ratio", 1.0),
    ):
        one = found[metric, "race", "black"]
        assert one["lower"] <= value <= one["upper"], (metric, one)
        assert one["n_excluded"] == 0
    assert found["decision_probability_excess", "race", "black"]["value"] == pytest.approx(0.0, abs=0.004)
