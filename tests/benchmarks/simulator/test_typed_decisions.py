"""Typed decisions on the wire: the answer named is the one with the largest probability."""

from typing import Any

import httpx
import pytest

from benchmarks.simulator.loading import parse
from tests.support.simulated import running_simulator

PROFILE = parse({"name": "typed", "typed_decisions": {"lowest": 0.4, "highest": 0.4}})
CHOICES = ["grant", "deny", "defer"]


async def test_the_likeliest_of_several_is_chosen() -> None:
    """With 0.4 for the first and 0.3 for each other, both endpoints choose the first and are as sure as that."""
    open_ai = {"type": "choice", "instructions": "What now?", "choices": [{"value": one} for one in CHOICES]}
    system_one = {"type": "choice", "instructions": "What now?", "criteria": dict.fromkeys(CHOICES, "")}
    async with running_simulator(PROFILE) as url, httpx.AsyncClient(base_url=url) as http:
        asked: dict[str, Any] = {"model": "simulated", "input": "A case.", "questions": [open_ai]}
        [first] = (await http.post("/v1/decisions", json=asked)).json()["answers"]
        asked = {"model": "simulated", "state": "A case.", "questions": {"q": system_one}}
        other = (await http.post("/v1/systemone", json=asked)).json()["answers"]["q"]

    assert (first["choice"], other["choice"]) == ("grant", "grant")
    assert (first["confidence"], other["confidence"]) == (pytest.approx(0.4), pytest.approx(0.4))
