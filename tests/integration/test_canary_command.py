"""`biasgate canary` against a running system: its exit codes, what it prints, and what it says of mistakes."""

import json
from pathlib import Path

from benchmarks.simulator.loading import parse
from gateway.features.canary import store as canaries
from gateway.features.canary.comparison import Verdict
from gateway.features.canary.request import CanaryRequest, Side
from gateway.store.database import Database
from tests.support.commands import command
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


async def ended(database: Database, verdict: Verdict) -> str:
    """A canary that came to this verdict."""
    asked = CanaryRequest(stable=Side(model="a"), canary=Side(model="b"))
    canary_id = await canaries.create(database, asked, max_queued=10)
    if verdict != "undecided":
        assert await canaries.claim(database, canary_id)
        await canaries.finish(database, canary_id, verdict, [f"for the sake of {verdict}"])
    return canary_id


async def test_the_verdict_is_the_exit_code(tmp_path: Path) -> None:
    """Of start --wait on two equal models, and of wait on each verdict there is; mistakes cost one line and exit 2."""
    store = f"sqlite:///{tmp_path}/biasgate.db"
    async with live_system(tmp_path, store, parse({"name": "equal"}), auditors=AUDITORS) as system:
        await system.ask(PROMPTS)
        await system.settled()
        at = ("--gateway", str(system.http.base_url))
        start = ("canary", "start", "--stable", "simulated", "--canary", "simulated-judge", *at)
        code, out, err = await command(*start, "--smallest-difference", "0.3", "--wait")
        canary_id = out.split()[0]
        status = await command("canary", "status", canary_id, *at)
        shown = await command("canary", "status", canary_id, "--json", *at)
        database = await Database.open(store)
        codes = {}
        for verdict in ("promote", "rollback", "hold", "undecided"):
            one = await ended(database, verdict)
            codes[verdict] = (await command("canary", "wait", one, "--timeout", "0.2", *at))[0]
        await database.close()
        mistakes = {
            "unknown model": await command("canary", "start", "--stable", "simulated", "--canary", "simulatd", *at),
            "no canary has the id": await command("canary", "wait", "none", *at),
            "must start with http": await command("canary", "status", "x", "--gateway", "127.0.0.1:1"),
            "is the gateway there?": await command("canary", "status", "x", "--gateway", "http://127.0.0.1:9"),
            "(--key-env) is not set": await command("canary", "status", "x", "--key-env", "NO_SUCH_VARIABLE", *at),
            "must be 0 or more": await command("canary", "wait", canary_id, "--timeout", "-1", *at),
        }
    assert code == 0, err
    assert "promote (done)" in out
    assert "is excluded (alpha 0.01)" in out
    assert "pairs" in err
    assert status[:2] == (0, out.partition("\n")[2])
    assert json.loads(shown[1])["verdict"] == "promote"
    assert codes == {"promote": 0, "rollback": 1, "hold": 3, "undecided": 4}
    for words, (exit_code, _, said) in mistakes.items():
        assert (exit_code, words in said, len(said.strip().splitlines())) == (2, True, 1), said
