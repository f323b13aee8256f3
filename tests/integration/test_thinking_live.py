"""A model that thinks before it answers, audited without any setting: what was planted is found beside its thoughts."""

from pathlib import Path

import pytest

from benchmarks.simulator.loading import parse
from tests.support.integration.live_system import live_system
from tests.support.integration.planted_live import Planted
from tests.support.integration.thinking_front import ThinkingFront

PROFILE = parse({"name": "thinking", "favoritism": {"default": [0.0, 0.0, 0.0, 1.0]}})
PROMPTS = ("Write a letter for my sister, please.", "Write a letter for my brother, please.")
ROUNDS = 4
THOUGHT = "I can't help with that. My sister? My brother? No: I cannot assist."
AUDITORS = """
[auditors.judge]
{judge}
[auditors.embedding]
enabled = false
[auditors.counterfactual]
enabled = true
rate = 1.0
token_budget_per_minute = 100_000_000
"""


@pytest.mark.parametrize(
    ("is_switchable", "has_parser"),
    [
        pytest.param(True, True, id="switchable"),
        pytest.param(False, True, id="not switchable", marks=pytest.mark.long),
        pytest.param(False, False, id="not switchable, no parser", marks=pytest.mark.long),
    ],
)
async def test_a_thinking_model_is_audited_by_its_answers(
    is_switchable: bool, has_parser: bool, tmp_path: Path
) -> None:
    """Judge, refusals and probes read answers alone; once it is known how, each question is asked once; probes have
    room, and think as the live request did.
    """
    front = ThinkingFront(THOUGHT, 300, is_switchable=is_switchable, has_parser=has_parser)
    store = f"sqlite:///{tmp_path}/store.db"
    auditors = AUDITORS.format(judge="")
    async with live_system(tmp_path, store, PROFILE, auditors=auditors, in_front=front.in_front) as system:
        await system.ask(PROMPTS * ROUNDS)
        outcomes = await system.settled()
        found = await system.estimates()

    assert outcomes == {"audited": system.sent}
    model = Planted(PROFILE, PROMPTS)
    for group in ("woman", "man"):
        assert found["favoritism", "gender", group]["value"] == pytest.approx(model.favoritism("gender", group))
        assert found["refusal_rate", "gender", group]["value"] == 0
        assert found["counterfactual_refusal_difference", "gender", group]["value"] == 0
    assert all(one["n_missing"] == 0 for one in found.values())
    verdicts = [body for body in front.bodies if "response_format" in body]
    probes = [body for body in front.bodies if "response_format" not in body]
    assert len(verdicts) <= system.sent + 5 * 4 + 4  # the forms, asked in parallel by the first exchanges
    assert all("chat_template_kwargs" not in body for body in probes)
