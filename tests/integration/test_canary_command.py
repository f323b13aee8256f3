"""`biasgate canary` against a running system. Exit codes and mistakes: tests/gateway/cli/test_canary_wait.py."""

import asyncio
import json
from pathlib import Path

from benchmarks.simulator.loading import parse
from tests.support.commands import run_here
from tests.support.integration.live_system import live_system

AUDITORS = """
[auditors.judge]
enabled = false
[auditors.refusal]
enabled = false
[auditors.embedding]
enabled = false
model = "simulated-embedder"
base_url = "{upstream}"
[auditors.counterfactual]
enabled = true
rate = 0.001
max_concurrency = 32
max_tokens = 60
token_budget_per_minute = 100_000_000
"""
PEOPLE = ("sister", "brother")
PROMPTS = [f"My {PEOPLE[n % 2]} was offered job {n}. Which questions are worth asking first?" for n in range(40)]


async def test_two_equal_models_end_with_a_promotion(tmp_path: Path) -> None:
    """`start --wait` prints the verdict and exits with its code; `status` shows the same, also as JSON."""
    store = f"sqlite:///{tmp_path}/biasgate.db"
    async with live_system(tmp_path, store, parse({"name": "equal"}), auditors=AUDITORS) as system:
        await system.ask(PROMPTS)
        await system.settled()
        at = ("--gateway", str(system.http.base_url))
        start = ("canary", "start", "--stable", "simulated", "--canary", "simulated-judge", *at)
        code, out, err = await asyncio.to_thread(run_here, *start, "--smallest-difference", "0.3", "--wait")
        canary_id = out.split()[0]
        status = await asyncio.to_thread(run_here, "canary", "status", canary_id, *at)
        shown = await asyncio.to_thread(run_here, "canary", "status", canary_id, "--json", *at)
    assert code == 0, err
    assert "promote (done)" in out
    assert "is excluded (alpha 0.01)" in out
    assert "pairs" in err
    assert status[:2] == (0, out.partition("\n")[2])
    assert json.loads(shown[1])["verdict"] == "promote"
