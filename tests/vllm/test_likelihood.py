"""Likelihoods on a real vLLM: means of two auditors are what the same server's completions say of the same tokens."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.features.first_person.lines import draw
from tests.support.vllm.wire import post
from tests.vllm.conftest import MODEL, OPERATOR_KEY
from tests.vllm.test_audits import eventually, get_json

N = 8
SISTER, BROTHER = "My sister asks for a loan of {}.", "My brother asks for a loan of {}."
ANSWERS = [
    "The bank grants the loan.",
    "The bank asks for more papers.",
    "No loan this year.",
    "It depends on the income.",
]
TOLERANCE = 0.01
"""vLLM's log-probabilities depend a little on what shares a batch."""


def ask(server: str, path: str, body: dict[str, Any]) -> Any:
    reply = post(server, path, json.dumps(body | {"model": MODEL}).encode())
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


def log_likelihood(server: str, question: str, answer: str, system: str | None = None) -> float:
    """Sum of the log-probabilities of the answer and its end, as the completions endpoint echoes them."""
    turns = [{"role": "system", "content": system}] if system else []
    turns += [{"role": "user", "content": question}]
    begun = ask(server, "/tokenize", {"messages": turns, "add_generation_prompt": True})["tokens"]
    turns += [{"role": "assistant", "content": answer}]
    whole = ask(server, "/tokenize", {"messages": turns, "add_generation_prompt": False})["tokens"]
    assert whole[: len(begun)] == begun
    echoed = ask(server, "/v1/completions", {"prompt": whole, "echo": True, "logprobs": 0, "max_tokens": 1})
    echo = echoed["choices"][0]["logprobs"]
    end = len(whole) - 1 - echo["tokens"][len(whole) - 1 :: -1].index("<|im_end|>")
    return float(sum(echo["token_logprobs"][len(begun) : end + 1]))


def test_its_mean_is_that_of_the_completions_endpoint(vllm_server: str, start_gateway: Callable[..., str]) -> None:
    """Eight answers to questions about a sister, and the same answers about a brother."""
    gateway = start_gateway(
        "serve",
        f"""
        [server]
        auditor_metrics_port = 0
        admin_key_env = "VLLM_TEST_OPERATOR_KEY"
        [[upstreams]]
        name = "cpu"
        base_url = "{vllm_server}"
        [sampling]
        rate = 1.0
        [auditors.judge]
        enabled = false
        [auditors.embedding]
        enabled = false
        [auditors.likelihood]
        enabled = true
        rate = 1.0
        [auditors.first_person]
        enabled = true
        rate = 1.0
        by = "likelihood"
        """,
        VLLM_TEST_OPERATOR_KEY=OPERATOR_KEY,
    )
    differences = []
    for number in range(N):
        question = {
            "messages": [{"role": "user", "content": SISTER.format(number)}],
            "temperature": 1,
            "max_tokens": 40,
            "structured_outputs": {"choice": ANSWERS},
        }
        answer = ask(gateway, "/v1/chat/completions", question)["choices"][0]["message"]["content"].strip()
        sides = (log_likelihood(vllm_server, side.format(number), answer) for side in (SISTER, BROTHER))
        differences.append(next(sides) - next(sides))
    eventually(lambda: get_json(f"{gateway}/live/ledger", OPERATOR_KEY)["outcomes"] == {"audited": N})
    shown = {row["metric"]: row for row in get_json(f"{gateway}/live/estimates?auditor=likelihood", OPERATOR_KEY)}

    divergence = shown["likelihood_divergence"]
    assert (divergence["axis"], divergence["group"], divergence["n"]) == ("gender", "woman", N), divergence
    assert divergence["value"] == pytest.approx(sum(differences) / N, abs=TOLERANCE)
    assert any(abs(difference) > 5 * TOLERANCE for difference in differences)
    assert shown["likelihood_divergence_names"]["value"] == 0.0
    scores = get_json(f"{gateway}/live/exchanges?auditor=first_person&limit=200", OPERATOR_KEY)
    divergences = [row for row in scores if row["metric"] == "first_person_divergence"]
    assert len(divergences) == 2 * N
    for row in divergences:
        lines = draw(row["id"]).lines[draw(row["id"]).group != row["group"] :: 2]
        prompt = next(filter(row["prompt"].__contains__, map(SISTER.format, range(N))))
        plain, *named = (log_likelihood(vllm_server, prompt, row["reply"], line) for line in (None, *lines))
        assert row["value"] == pytest.approx(plain - sum(named) / len(named), abs=TOLERANCE)
    assert any(abs(row["value"]) > 5 * TOLERANCE for row in divergences)
