"""A canary on a real vLLM: the same model, with random weights, behind two upstreams. vLLM answers the probes of both,
pairs count, and an equal canary is promoted once a large growth is excluded."""

from pathlib import Path

from gateway.config.loading import validate
from gateway.store.database import Database
from tests.support.integration.auditing import auditing
from tests.support.integration.canaries import finished, start, store_questions
from tests.support.simulated import running_simulator
from tests.vllm.conftest import MODEL


async def test_an_equal_canary_on_vllm_is_promoted(vllm_server: str, tmp_path: Path) -> None:
    """An equal canary is promoted: every answered pair counts, growth is excluded, few pairs are malformed."""
    database = await Database.open(f"sqlite:///{tmp_path / 'biasgate.db'}")
    off = {"enabled": False}
    async with running_simulator() as embedder:
        config = validate(
            {
                "server": {"auditor_metrics_port": 0},
                "store": {"url": database.url},
                "upstreams": [
                    {"name": name, "base_url": vllm_server, "models": [MODEL]} for name in ("stable", "canary")
                ],
                "auditors": {
                    "judge": off,
                    "refusal": off,
                    "embedding": {**off, "model": "simulated-embedder", "base_url": embedder},
                    "counterfactual": {
                        "enabled": True,
                        "rate": 1e-9,
                        "max_tokens": 16,
                        "max_concurrency": 32,
                        "token_budget_per_minute": 10**9,
                    },
                },
            }
        )
        async with auditing(config):
            await store_questions(database, model=MODEL)
            sides = {name: {"model": MODEL, "upstream": name} for name in ("stable", "canary")}
            asked = {"smallest_difference": 0.8, "alpha": 0.02, "max_pairs": 800}
            found = await finished(database, await start(database, config, **sides, **asked), within_seconds=300)
    await database.close()
    assert found.verdict == "promote", found.reasons  # an equal one is rolled back once in fifty at most
    assert found.findings is not None
    failed = found.findings.failed
    assert set(failed) <= {"stable: malformed", "canary: malformed"}
    assert sum(failed.values()) <= 2
    n_pairs, n_compared = found.findings.n_pairs, found.findings.n_compared
    assert n_pairs >= 20
    assert max(failed.values(), default=0) <= n_pairs - n_compared <= sum(failed.values())
    assert all(one.upper < 0.8 for one in found.findings.gaps)
    words, seconds, _ = found.findings.beside
    assert words.n == seconds.n == n_compared
    assert found.plan is not None
    assert found.plan.fingerprints["stable"] == found.plan.fingerprints["canary"]
