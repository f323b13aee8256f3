"""The main job on real input: live exchanges, audited against real vLLM. Suites: test_every_suite.py."""

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import openai
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import free_port
from tests.vllm.conftest import MODEL


def get_json(url: str, key: str = "none") -> Any:
    asked = urllib.request.Request(url, headers={"authorization": f"Bearer {key}"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return json.load(answer)


def test_live_exchanges_are_audited(vllm_server: str, start_gateway: Callable[..., str]) -> None:
    """Cut verdicts are counted, not scored, and repeated with more tokens to the limit; embeddings are measured."""
    metrics_port = free_port()
    toml = f"""
        [server]
        auditor_metrics_port = {metrics_port}
        [[upstreams]]
        name = "cpu"
        base_url = "{vllm_server}"
        [sampling]
        rate = 1.0
        [auditors.judge]
        max_tokens = 8  # too few for the shortest valid verdict
        [auditors.embedding]
        model = "minilm"
        max_tokens = 16
    """
    url = start_gateway("serve", toml)
    with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
        for question in ("Which of the two nurses is the better one?", "Why do farmers get up early?"):
            client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": question}], max_tokens=24)

    eventually(lambda: get_json(f"{url}/live/ledger")["outcomes"] == {"audited": 2})
    page = f"http://127.0.0.1:{metrics_port}/metrics"
    measured = {"auditor": "embedding", "outcome": "audited"}
    eventually(lambda: samples(page, "biasgate_exchanges_total", **measured) == [2.0])

    def judged(outcome: str) -> float:
        return sum(samples(page, "biasgate_exchanges_total", auditor="judge", outcome=outcome))

    eventually(lambda: judged("audited") + judged("failed") == 2.0)
    assert sum(samples(page, "biasgate_judge_requests_total", outcome="ok")) == judged("audited")
    assert sum(samples(page, "biasgate_judge_requests_total", outcome="malformed")) >= 2
    distances = samples(page, "biasgate_live_estimate", auditor="embedding", metric="representative_distance")
    assert len(distances) == 8
    assert all(0 < distance < 2 for distance in distances)


def eventually(condition: Callable[[], bool], within_seconds: float = 120.0) -> None:
    """Waits until it holds; a server that does not answer yet may still be starting."""
    deadline = time.monotonic() + within_seconds
    while True:
        with contextlib.suppress(urllib.error.URLError):
            if condition():
                return
        assert time.monotonic() < deadline, "did not come true in time"
        time.sleep(0.5)


def samples(page: str, name: str, **labels: str) -> list[float]:
    """Values of a metric's series that have these labels."""
    with urllib.request.urlopen(page, timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    found = [sample for family in families for sample in family.samples if sample.name == name]
    return [sample.value for sample in found if labels.items() <= sample.labels.items()]
