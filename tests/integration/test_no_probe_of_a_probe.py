"""Gateways behind gateways, and a gateway that is its own judge: what auditors ask is no traffic to be audited."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.integration.auditing import until
from tests.support.integration.serving import command, serving
from tests.support.processes import free_port
from tests.support.simulated import running_simulator

pytestmark = pytest.mark.long

CHAT = "/v1/chat/completions"
BODY = {
    "model": "simulated",
    "max_tokens": 60,
    "messages": [{"role": "user", "content": "Write a letter for my sister, please."}],
}
KEYS = {"A_AT_B": "key-of-the-front-gateway", "ONE": "one secret of sampling", "TWO": "another secret of sampling"}
JUDGE_ONLY = """
[sampling]
rate = 1.0
secret_env = "{secret}"
[auditors.embedding]
enabled = false
[auditors.refusal]
enabled = false
[auditors.judge]
model = "simulated-judge"
"""
FRONT = """
[[upstreams]]
name = "behind"
base_url = "{behind}"
api_key_env = "A_AT_B"
[sampling]
rate = 1.0
secret_env = "ONE"
[auditors.judge]
model = "simulated-judge"
[auditors.embedding]
model = "simulated-embedder"
base_url = "{simulator}"
[auditors.affinity]
enabled = true
rate = 1.0
[auditors.counterfactual]
enabled = true
rate = 1.0
model = "simulated-judge"
"""
BEHIND = """
[[keys]]
name = "front"
key_env = "A_AT_B"
{rights}
[[upstreams]]
name = "u"
base_url = "{simulator}"
"""
BEHIND += JUDGE_ONLY
RIGHTS = {"rights": "may_opt_out = false", "secret": "ONE"}
OWN_JUDGE = BEHIND + 'base_url = "{own}"\napi_key_env = "A_AT_B"\n'


def written(path: Path, text: str, **places: Any) -> str:
    store = f'[store]\nurl = "sqlite:///{path.with_suffix(".db")}"\n[server]\nauditor_metrics_port = 0\n'
    path.write_text(store + text.format(**places))
    return str(path)


async def outcomes(root: str) -> dict[str, int]:
    async with httpx.AsyncClient(trust_env=False) as http:
        return dict((await http.get(f"{root}/live/ledger")).json()["outcomes"])


async def settled(root: str, least: int) -> dict[str, int]:
    """The ledger's outcomes once so many exchanges ended and none waits, but lists of models."""

    async def is_settled() -> bool:
        found = await outcomes(root)
        return not found.get("queued") and sum(found.values()) - found.get("filtered", 0) >= least

    await until(is_settled, within_seconds=90)
    return {outcome: count for outcome, count in (await outcomes(root)).items() if count and outcome != "filtered"}


async def ask(root: str, headers: Mapping[str, str]) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.post(root + CHAT, json=BODY, headers=headers)
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("rights", "secret", "knows_probes"),
    [
        pytest.param("", "TWO", True, id="the front may opt out"),
        pytest.param("may_opt_out = false", "ONE", True, id="one sampling secret"),
        pytest.param("may_opt_out = false", "TWO", False, id="neither"),
    ],
)
async def test_a_gateway_behind_a_gateway(tmp_path: Path, rights: str, secret: str, knows_probes: bool) -> None:
    """It audits the front's live traffic, opted out there or not; the front's probes where nothing tells them apart."""
    async with running_simulator() as simulator:
        config = written(tmp_path / "behind.toml", BEHIND, simulator=simulator, rights=rights, secret=secret)
        async with serving("serve", "--config", config, environ=KEYS) as behind:
            config = written(tmp_path / "front.toml", FRONT, simulator=simulator, behind=behind.root)
            async with serving("serve", "--config", config, environ=KEYS) as front:
                for headers in ({}, {}, {"x-biasgate-audit": "off", "x-biasgate-probe": "00"}):
                    await ask(front.root, headers)
                at_front = await settled(front.root, 3)
            fewest = 2 * (1 + 8 + 4 + 4)  # judge, identities, affinity, counterfactual
            at_back = await settled(behind.root, 3 + fewest)

    assert at_front == {"audited": 2, "opted_out": 1}
    probes = at_back.get("opted_out", 0) if knows_probes else at_back["audited"] - 3
    assert probes >= fewest
    assert at_back == ({"audited": 3, "opted_out": probes} if knows_probes else {"audited": 3 + probes})


async def test_a_gateway_that_is_its_own_judge(tmp_path: Path) -> None:
    """The judge's questions pass through the same gateway under a key that may not opt out, and start no audits."""
    own = f"http://127.0.0.1:{free_port()}"
    async with running_simulator() as simulator:
        config = written(tmp_path / "biasgate.toml", OWN_JUDGE, simulator=simulator, own=own, **RIGHTS)
        port = own.rsplit(":", 1)[1]
        async with command("serve", "--config", config, "--port", port, environ=KEYS) as running:
            await running.line("biasgate is ready")
            for _ in range(3):
                await ask(own, {"authorization": f"Bearer {KEYS['A_AT_B']}", "x-biasgate-audit": "off"})
            found = await settled(own, 6)

    assert found == {"audited": 3, "opted_out": 3}
