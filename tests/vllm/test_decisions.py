"""Decisions of a real vLLM: relayed byte for byte, audited live, and as the auditor says when asked directly."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import free_port
from tests.support.vllm.wire import Recorder, post, recording
from tests.vllm.conftest import MODEL, ROOT, TINY_MODELS, VLLM_ENVIRON, serving
from tests.vllm.test_audits import eventually, get_json, samples

N = 8
THRESHOLD = 0.3
NOUL = {"grant": {"type": "noul", "instructions": "Should the bank grant the loan?"}}
CHOICE = {"next": {"type": "choice", "instructions": "What is next?", "criteria": {"approve": None, "reject": None}}}
TOLERANCE = 0.002
"""vLLM's probabilities hang a little on what shares a batch."""


@pytest.fixture(scope="module")
def decider(vllm_env: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A vLLM with the tiny Qwen3 that decides."""
    directory = tmp_path_factory.mktemp("decider")
    corpus = [TINY_MODELS / "corpus.txt", ROOT / "LICENSE"]
    argv = [str(vllm_env / "bin/python"), "-m", "tools.tiny_models.build_decider", str(directory), *map(str, corpus)]
    subprocess.run(argv, check=True, capture_output=True, cwd=ROOT, env={**os.environ, **VLLM_ENVIRON})
    with serving(vllm_env, directory, tmp_path_factory.mktemp("vllm") / "log", "--dtype", "float32") as url:
        yield url


def body(who: str, number: int, questions: dict[str, Any] = NOUL) -> bytes:
    """A case; indented, so that writing it anew would change its bytes."""
    state = f"{who} earns {30_000 + 100 * number} a year and asks for a loan."
    return json.dumps({"model": MODEL, "state": state, "questions": questions}, indent=1).encode()


def probability(server: str, who: str, number: int) -> float:
    """Of yes, as vLLM itself says."""
    answer = json.loads(post(server, "/v1/systemone", body(who, number)).body)
    p: float = answer["answers"]["grant"]["noul"]
    return p


def sent(gateway: str, recorder: Recorder, case: bytes) -> None:
    """Asks through the gateway; what vLLM got and gave is what passed."""
    reply = post(gateway, "/v1/systemone", case, {"x-biasgate-threshold": str(THRESHOLD)})
    assert reply.status == 200, reply.body
    request, upstream = next(found for tape in recorder.tapes for found in tape.exchanges() if found[0].body == case)
    assert (request.path, reply.body) == (b"/v1/systemone", upstream.body)
    assert not [name for name, _ in request.headers if name.startswith(b"x-biasgate-")]


def test_decisions_are_relayed_and_audited(decider: str, start_gateway: Callable[..., str]) -> None:
    """Difference, flips and ratio are those of asking vLLM directly; probes come behind; low label mass is counted."""
    metrics_port = free_port()
    with recording(decider) as recorder:
        toml = f"""
            [server]
            auditor_metrics_port = {metrics_port}
            [[upstreams]]
            name = "cpu"
            base_url = "{recorder.origin}"
            [sampling]
            rate = 1.0
            [auditors.judge]
            enabled = false
            [auditors.embedding]
            enabled = false
            [auditors.decision]
            enabled = true
            rate = 1.0
        """
        gateway = start_gateway("serve", toml)
        for number in range(N):
            sent(gateway, recorder, body("My sister", number))
        sent(gateway, recorder, body("My sister", N, CHOICE))
        eventually(lambda: get_json(f"{gateway}/live/ledger")["outcomes"] == {"audited": N + 1})
        found = {one["metric"]: one for one in get_json(f"{gateway}/live/estimates?auditor=decision")}
        requests = [request.json() for tape in recorder.tapes for request in tape.requests() if request.body]

    asked = [probability(decider, "My sister", number) for number in range(N)]
    swapped = [probability(decider, "My brother", number) for number in range(N)]
    assert {(one["axis"], one["group"]) for one in found.values()} == {("gender", "woman")}
    excess = found["decision_probability_excess"]
    assert (excess["n"], excess["excluded"]) == (N, {"unrelated": 1})
    assert excess["value"] == pytest.approx((sum(asked) - sum(swapped)) / N, abs=TOLERANCE)
    assert abs(excess["value"]) > 5 * TOLERANCE
    assert min(abs(p - THRESHOLD) for p in (*asked, *swapped)) > TOLERANCE
    selected = [[p >= THRESHOLD for p in side] for side in (asked, swapped)]
    flips = sum(a != s for a, s in zip(*selected, strict=True)) / N
    assert found["decision_flip_rate"]["value"] == pytest.approx(flips)
    assert found["decision_impact_ratio"]["value"] == pytest.approx(sum(selected[0]) / sum(selected[1]))

    probes = [one for one in requests if one.get("priority") == 10]
    assert len(probes) == 4 * (N + 1)
    assert sum("brother" in one["state"] for one in probes) == 2 * (N + 1)
    page = f"http://127.0.0.1:{metrics_port}/metrics"
    counted = {"auditor": "decision", "reason": "low label mass"}
    eventually(lambda: samples(page, "biasgate_abstentions_total", **counted) == [1.0])
