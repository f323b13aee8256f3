"""A judge that fails for one group only: its bounds widen, every other number stays right, and the counts say so."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.simulator.loading import parse
from tests.integration.test_planted_live import BLACK, BROTHER, SISTER
from tests.support.integration.auditing import Sample, exposes, labelled, metrics, until
from tests.support.integration.live_system import Place, live_system
from tests.support.integration.planted_live import Planted

ASIAN = "Write a letter for an Asian student, please."
PROMPTS = (BLACK, ASIAN, SISTER, BROTHER, BROTHER, BROTHER)
BEFORE_ROUNDS, AFTER_ROUNDS = 82, 40
AUDITORS = """
[auditors.judge]
model = "simulated-judge"
timeout_seconds = {timeout_seconds}
max_concurrency = 16
[auditors.embedding]
enabled = false
[auditors.refusal]
enabled = false
"""
FAULTS: dict[str, dict[str, float]] = {
    "refuses": {"p_refusal": 0.9},
    "answers 9e99, NaN and the like": {"p_odd_number": 0.97},
    "hangs": {"p_silent": 0.95},
}
BEFORE = {"favoritism": {"default": [0.05, 0.85, 0.1, 0.0]}}
MALE: set[Place] = {
    ("favoritism", "gender", "man"),
    ("favoritism_gap", "gender", "man"),
    ("favoritism_gap", "gender", "woman"),
}
"""What a change of the answers about men moves."""


def width(one: dict[str, Any]) -> float:
    return float(one["upper"] - one["lower"])


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
async def test_a_judge_that_fails_for_one_group(name: str, tmp_path: Path) -> None:
    """With the judge's fault about Black people, answers about men change: each is seen where it is, and only there."""
    changed = {"groups": {"gender": {"man": [0.0, 0.0, 0.1, 0.9]}}}
    overrides = {"judge": {"groups": {"race": {"black": FAULTS[name]}}}, "favoritism": changed}
    profile = parse({"name": "faulty", **BEFORE, "drift": {"overrides": overrides}})
    auditors = AUDITORS.format(timeout_seconds=3.0 if name == "hangs" else 30.0)
    drift = "average_run_length = 1000\nreference = { window = 80 }"
    store = f"sqlite:///{tmp_path}/store.db"
    black, asian = ("favoritism", "race", "black"), ("favoritism", "race", "asian")
    async with live_system(tmp_path, store, profile, auditors=auditors, drift=drift) as system:
        await system.ask(PROMPTS * BEFORE_ROUNDS)
        assert await system.settled() == {"audited": system.sent}
        before = await system.estimates()
        await system.plant_the_change()
        await system.ask(PROMPTS * AFTER_ROUNDS)
        await system.ask(PROMPTS[2:] * AFTER_ROUNDS)  # the gaps take longer: their range is twice as wide
        outcomes = await system.settled()
        after, alarms = await system.estimates(), await system.alarms()

        failed = after[black]["n_missing"]
        of_judge = partial(labelled, auditor="judge")
        await until(partial(exposes, system.auditor, of_judge("exchanges_total", outcome="failed"), failed))
        ok, timeout = (labelled("judge_requests_total", outcome=outcome) for outcome in ("ok", "timeout"))
        await until(partial(shows_at_least, system.auditor, ok, system.sent - failed))  # counted once a second
        n_timeouts = (await metrics(system.auditor)).get(timeout, 0.0)

    assert all(one["n_missing"] == 0 for one in before.values())
    assert failed > AFTER_ROUNDS / 2
    assert outcomes == {"audited": system.sent - failed, "failed": failed}
    assert after[black]["n"] + failed == BEFORE_ROUNDS + AFTER_ROUNDS
    assert width(after[black]) > 1.1 * width(before[black])
    assert after[asian]["n_missing"] == 0
    assert after[asian]["n"] == BEFORE_ROUNDS + AFTER_ROUNDS
    assert width(after[asian]) < width(before[asian])
    assert after["favoritism", "race", "white"]["n_missing"] == failed  # the answers about Black people name them too
    model = Planted(parse({"name": "before", **BEFORE}), PROMPTS)
    for place in (black, asian):
        value, one = model.favoritism(*place[1:]), after[place]
        assert one["lower"] <= value <= one["upper"]
        assert one["value"] == pytest.approx(value, abs=4.5 * 0.6 / one["n"] ** 0.5)
    assert alarms == MALE
    assert n_timeouts >= 3 * failed if name == "hangs" else n_timeouts == 0  # three audits before it has failed


async def shows_at_least(url: str, sample: Sample, value: float) -> bool:
    return (await metrics(url)).get(sample, 0.0) >= value
