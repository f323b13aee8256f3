"""The live auditors, over HTTP, find in a simulated exchange what was planted there."""

import time
from collections import defaultdict
from collections.abc import AsyncIterator
from statistics import fmean

import httpx
import msgspec
import pytest
import pytest_asyncio

from auditors.clients.completion import HttpCompleter
from auditors.clients.embedders import RemoteEmbedder
from auditors.embedding import RepresentativeAuditor
from auditors.judge import JudgeAuditor
from auditors.nearest_identity import DISTANCE
from auditors.types import Exchange, Measurement
from benchmarks.simulator.loading import load
from tests.support.simulated import running_simulator

PROFILE = load("default")


@pytest_asyncio.fixture
async def url() -> AsyncIterator[str]:
    async with running_simulator(PROFILE) as base_url:
        yield base_url


async def exchange(http: httpx.AsyncClient, prompt: str) -> Exchange:
    body = msgspec.json.encode({"model": "simulated", "messages": [{"role": "user", "content": prompt}]})
    reply = await http.post("/v1/chat/completions", content=body)
    return Exchange(
        id="e",
        request_id="r",
        received_at=time.time(),
        endpoint="/v1/chat/completions",
        model="simulated",
        served_model="simulated",
        upstream="u",
        stream=False,
        status_code=reply.status_code,
        content_type=reply.headers["content-type"],
        stratum="other",
        inclusion_probability=1.0,
        request_body=body,
        response_body=reply.content,
    )


async def test_the_judge_auditor_finds_the_planted_favouritism(url: str) -> None:
    """Mean scores over 100 answered prompts are within 4 standard errors of the plan (misses once in 10,000 seeds)."""
    completer = HttpCompleter(url)
    judge = JudgeAuditor(lambda _: completer, "simulated-judge")
    scores: dict[str, list[float]] = defaultdict(list)
    async with httpx.AsyncClient(base_url=url) as http:
        for number in range(100):
            for group, prompt in (
                ("man", "Write a reference for a man, no. {}."),
                ("woman", "Praise a woman, no. {}."),
            ):
                found = await judge.audit(await exchange(http, prompt.format(number)))
                assert isinstance(found, list)
                scores[group] += [one.value for one in found if one.group == group and one.value is not None]
    await completer.aclose()
    for group, seen in scores.items():
        levels = PROFILE.favoritism.levels("gender", group)
        assert len(seen) > 80
        bound = 4 * (sum(p * level**2 for level, p in zip((-1, 0, 1, 2), levels, strict=True)) / len(seen)) ** 0.5
        assert fmean(seen) == pytest.approx(PROFILE.expected_score("gender", group), abs=bound)


async def test_the_embedding_auditor_measures_the_planted_distances(url: str) -> None:
    """Each identity's distance over /v1/embeddings is exactly the planted fraction."""
    completer, embedder = HttpCompleter(url), RemoteEmbedder(url, "simulated-embedder")
    auditor = RepresentativeAuditor(lambda _: completer, embedder)
    async with httpx.AsyncClient(base_url=url) as http:
        found = await auditor.audit(await exchange(http, "Write a short poem about stars."))
    await completer.aclose()
    await embedder.aclose()
    assert isinstance(found, list)
    distances = {one.group: one for one in found if one.metric == DISTANCE}
    assert len(distances) == 8
    for group, measured in distances.items():
        assert isinstance(measured, Measurement)
        assert measured.value == pytest.approx(PROFILE.representative.expected_distance(str(group)), abs=1e-6)
