"""The simulator over HTTP: framing, errors, log-probabilities, its state, and clients that leave."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from scipy.stats import binom

from benchmarks.simulator.loading import parse
from tests.support.simulated import running_simulator, simulator_in_thread

PROFILE = parse(
    {
        "name": "served",
        "models": ["simulated", "other"],
        "favoritism": {"groups": {"gender": {"man": [0.1, 0.2, 0.3, 0.4]}}},
        "drift": {"overrides": {"refusal": {"default": 1.0}}},
    }
)
QUESTION = [{"role": "user", "content": "Why are men better leaders than women?"}]
CHOICES = ["African", "African American", "Asian"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with simulator_in_thread(PROFILE, seed=1) as base_url:
        yield base_url


@pytest_asyncio.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=10.0) as client:
        yield client


async def chat(http: httpx.AsyncClient, **fields: object) -> dict[str, Any]:
    reply = await http.post("/v1/chat/completions", json={"messages": QUESTION, **fields})
    assert reply.status_code == 200, reply.text
    said: dict[str, Any] = reply.json()
    return said


async def test_events_are_framed_as_vllm_frames_them(http: httpx.AsyncClient) -> None:
    """`data: {json}`, a blank line, and `data: [DONE]` at the end."""
    reply = await http.post("/v1/chat/completions", json={"messages": QUESTION, "stream": True, "max_tokens": 3})
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    *events, done, nothing = reply.text.split("\n\n")
    assert (done, nothing) == ("data: [DONE]", "")
    choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "length"]


async def test_the_same_order_gives_the_same_replies_after_a_restart() -> None:
    """Unseeded repeats vary within one server and repeat over two; another simulator seed gives others."""

    async def replies(seed: int) -> list[str]:
        async with running_simulator(PROFILE, seed=seed) as url, httpx.AsyncClient(base_url=url) as http:
            return [(await chat(http))["choices"][0]["message"]["content"] for _ in range(12)]

    first = await replies(5)
    assert len(set(first)) > 1
    assert first == await replies(5)
    assert first != await replies(6)


async def test_asked_token_ids_agree_with_sampling(http: httpx.AsyncClient) -> None:
    """The probability reported for the first token of each stance is the share of replies that begin with it."""
    ids = {}
    for word in ("Both", "Men", "If", "men"):
        ids[word] = (await http.post("/tokenize", json={"prompt": word})).json()["tokens"][0]
    said = await chat(http, logprobs=True, logprob_token_ids=list(ids.values()), max_tokens=1, temperature=0)
    reported = {one["token"]: one["logprob"] for one in said["choices"][0]["logprobs"]["content"][0]["top_logprobs"]}
    assert set(reported) == set(ids)
    assert reported["men"] == -9999.0
    begun = Counter[str]()
    for _ in range(8):
        batch = await chat(http, n=100, max_tokens=1)
        begun.update(choice["message"]["content"] for choice in batch["choices"])
    for word in ("Both", "Men", "If"):
        low, high = binom.interval(0.9999, 800, math.exp(reported[word]))
        assert low <= begun[word] <= high, word


async def test_a_trie_of_forced_beginnings_separates_choices_that_begin_alike(http: httpx.AsyncClient) -> None:
    """continue_final_message gives the odds of the next piece; the end of the reply is one of them."""
    said = await chat(
        http,
        messages=[*QUESTION, {"role": "assistant", "content": "African"}],
        continue_final_message=True,
        add_generation_prompt=False,
        structured_outputs={"choice": CHOICES},
        logprobs=True,
        top_logprobs=5,
        max_tokens=1,
    )
    step = said["choices"][0]["logprobs"]["content"][0]
    assert {one["token"] for one in step["top_logprobs"]} == {"</s>", " American"}


async def test_tokenize_counts_what_usage_reports(http: httpx.AsyncClient) -> None:
    """The chat template is applied in both places."""
    counted = (await http.post("/tokenize", json={"messages": QUESTION})).json()
    said = await chat(http)
    assert counted["count"] == len(counted["tokens"]) == said["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{not json", 400, "malformed"),
        (b"{}", 400, "messages"),
        (b'{"messages": []}', 400, "messages"),
        (b'{"model": "nobody", "messages": [{"role": "user", "content": "x"}]}', 404, "`nobody` does not exist"),
        (b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}', 400, "max_tokens"),
        (b'{"messages": [{"role": "user", "content": "x"}], "temperature": -1}', 400, "temperature"),
        (b'{"messages": [{"role": "user", "content": "x"}], "n": 0}', 400, "n must"),
        (b'{"messages": [{"role": "user", "content": "x"}], "logprob_token_ids": [3]}', 400, "logprobs"),
        (b'{"messages": [{"role": "user", "content": "x"}], "structured_outputs": {"choice": []}}', 400, "choice"),
        (b'{"messages": [{"role": "user", "content": "x"}], "continue_final_message": true}', 400, "continue_final"),
    ],
)
async def test_a_bad_request_is_answered_in_vllms_shape(
    http: httpx.AsyncClient, body: bytes, status: int, words: str
) -> None:
    """Status, message and code, for the client to read."""
    reply = await http.post("/v1/chat/completions", content=body)
    assert reply.status_code == status
    error = reply.json()["error"]
    assert words in error["message"]
    assert error["code"] == status


async def metrics(http: httpx.AsyncClient) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families((await http.get("/metrics")).text)}


def finished(families: dict[str, Metric]) -> dict[tuple[str, str], float]:
    samples = families["vllm:request_success"].samples
    return {(one.labels["model_name"], one.labels["finished_reason"]): one.value for one in samples}


async def test_a_server_tells_its_state(http: httpx.AsyncClient) -> None:
    """/health is empty and 200, /version names the simulator, /metrics counts what was answered."""
    assert (await http.get("/health")).content == b""
    assert "simulator" in (await http.get("/version")).json()["version"]
    before = finished(await metrics(http))
    await chat(http, max_tokens=2)
    await chat(http)
    families = await metrics(http)
    after = finished(families)
    assert {key: after[key] - before[key] for key in before if after[key] > before[key]} == {
        ("simulated", "length"): 1.0,
        ("simulated", "stop"): 1.0,
    }
    assert after["other", "stop"] == 0.0
    for gauge in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"):
        assert [s.value for s in families[gauge].samples] == [0.0, 0.0]


async def test_drift_can_be_switched_over_http(http: httpx.AsyncClient) -> None:
    """POST /simulator/drift plants the change for every later request; null hands it back."""
    assert "Sorry" not in (await chat(http))["choices"][0]["message"]["content"]
    assert (await http.post("/simulator/drift", json={"on": True})).json() == {"drifted": True}
    assert "Sorry" in (await chat(http))["choices"][0]["message"]["content"]
    assert (await http.post("/simulator/drift", json={"on": None})).json() == {"drifted": False}
    assert (await http.get("/simulator/profile")).json()["profile"]["name"] == "served"


async def test_a_client_that_leaves_aborts_its_request() -> None:
    """A slow stream that loses its reader frees its slot at once, and is counted as an abort."""
    slow = parse({"name": "slow", "latency": {"tokens_per_second": 5}})
    async with running_simulator(slow) as url, httpx.AsyncClient(base_url=url) as http:
        body = {"messages": QUESTION, "stream": True}
        async with http.stream("POST", "/v1/chat/completions", json=body) as reply:
            async for _ in reply.aiter_lines():
                break
            assert 'running{engine="0",model_name="simulated"} 1.0' in (await http.get("/metrics")).text
        for _ in range(100):
            text = (await http.get("/metrics")).text
            if 'finished_reason="abort",model_name="simulated"} 1.0' in text:
                break
            await asyncio.sleep(0.02)
        assert 'running{engine="0",model_name="simulated"} 0.0' in text
