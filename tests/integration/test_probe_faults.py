"""A model that fails auditors' questions about one group: what is missing widens its bounds, and the rest is right."""

from pathlib import Path
from typing import get_args

import pytest

from auditors.text.identity import IDENTITIES
from tests.integration.test_judge_faults import width
from tests.integration.test_planted_live import BLACK, PROFILE, PROMPTS, planted
from tests.support.integration.failing_probes import FailingProbes, Fault
from tests.support.integration.live_system import Place, live_system

OTHERS = tuple(prompt for prompt in PROMPTS if prompt != BLACK)
BEFORE_ROUNDS, FAULTY_ROUNDS = 24, 8
"""At most."""
LIMIT_SECONDS = 20.0
"""Of an audit. What hangs takes as long; any other takes a moment, also where other tests keep the machine busy."""
LIMITS = f"""max_tokens = 400
timeout_seconds = {LIMIT_SECONDS}
max_concurrency = {16 * FAULTY_ROUNDS}"""
"""Twice the questions that hang at once, so that none of the others waits for a place behind them."""
AUDITORS = f"""
[auditors.judge]
enabled = false
[auditors.refusal]
enabled = false
[auditors.embedding]
model = "simulated-embedder"
base_url = "{{upstream}}"
{LIMITS}
[auditors.affinity]
enabled = true
rate = 1.0
{LIMITS}
token_budget_per_minute = 100_000_000
[auditors.counterfactual]
enabled = true
rate = 1.0
{LIMITS}
token_budget_per_minute = 100_000_000
"""
DISTANCES: set[Place] = {("representative_distance", one.axis, one.group) for one in IDENTITIES}
SCORES: set[Place] = {("representative_bias_score", axis, "") for axis in ("race", "gender", "sexual_orientation")}
CHOICES: set[Place] = {("affinity_bias_score", axis, "") for axis in ("race", "gender", "sexual_orientation")}
CONTRASTS = ("distance_excess", "refusal_difference", "length_difference")


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_model_that_fails_questions_about_one_group(tmp_path: Path) -> None:
    """Three ways to fail, one after the other: each failed exchange is counted where it belongs, and nowhere else."""
    probes, store = FailingProbes(BLACK, model="simulated"), f"sqlite:///{tmp_path}/store.db"
    async with live_system(tmp_path, store, PROFILE, auditors=AUDITORS, in_front=probes.in_front) as system:
        await system.ask(PROMPTS * BEFORE_ROUNDS)
        await system.settled(within_seconds=300)
        before = await system.estimates()
        assert probes.met == 0
        for fault in get_args(Fault):
            probes.fault, met = fault, probes.met
            for prompts in ((BLACK,), OTHERS):  # only the others show that the model is not sick altogether
                await system.ask(prompts * FAULTY_ROUNDS)
            outcomes = await system.settled(within_seconds=300)
            assert probes.met > met
        after = await system.estimates()

    n_failed = FAULTY_ROUNDS * len(get_args(Fault))
    n_asked = BEFORE_ROUNDS + n_failed
    black = {(f"counterfactual_{name}", "race", "black") for name in CONTRASTS}
    women = {(f"counterfactual_{name}", "gender", "woman") for name in CONTRASTS}
    assert outcomes == {"audited": system.sent - n_failed, "failed": n_failed}
    assert {place for place, one in before.items() if one["n_missing"]} == set()
    assert {place: after[place]["n_missing"] for place in DISTANCES | SCORES | black} == dict.fromkeys(
        DISTANCES | SCORES | black, n_failed
    )
    assert sum(after[place]["n_missing"] for place in CHOICES) == n_failed
    for place in DISTANCES:
        assert after[place]["n"] + n_failed == n_asked * len(PROMPTS)
    for place in women:
        assert (after[place]["n_missing"], after[place]["n"]) == (0, n_asked)
        assert width(after[place]) < width(before[place])
    for place in black:
        assert after[place]["n"] == before[place]["n"] <= BEFORE_ROUNDS
        assert width(after[place]) >= width(before[place])
    difference = ("counterfactual_refusal_difference", "race", "black")  # whose values no refusal takes away
    assert width(after[difference]) > 1.1 * width(before[difference])
    expected = {place: value for place, value in planted().items() if place in after}
    assert all(places & set(expected) for places in (DISTANCES, black, women))
    outside = {
        place: (value, after[place])
        for place, value in expected.items()
        if not after[place]["lower"] - 1e-9 <= value <= after[place]["upper"] + 1e-9
    }
    assert outside == {}
