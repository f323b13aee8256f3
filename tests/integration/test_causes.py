"""An alarm's cause, end to end: a planted change is attributed to what changed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.simulator.loading import parse
from tests.support.integration.auditing import until
from tests.support.integration.live_system import CHAT, LiveSystem, live_system

pytestmark = pytest.mark.long

PROFILE = parse(
    {
        "name": "causes",
        "favoritism": {"default": [0.05, 0.9, 0.05, 0.0], "groups": {"gender": {"woman": [0.0, 0.1, 0.4, 0.5]}}},
        "refusal": {"groups": {"race": {"black": 0.7}}},
        "drift": {"overrides": {"favoritism": {"groups": {"gender": {"man": [0.0, 0.1, 0.4, 0.5]}}}}},
    }
)
AUDITORS = """
[auditors.judge]
model = "simulated-judge"
[auditors.embedding]
enabled = false
[drift]
average_run_length = 100
reference = { window = 60 }
"""
WHITE, BLACK = (f"Write a letter for a {colour} student, my brother, please." for colour in ("white", "Black"))
MAN, WOMAN = (f"Write a letter for my {relative}, please." for relative in ("brother", "sister"))
SCHEMA = {"type": "object", "properties": {"letter": {"type": "string"}}, "required": ["letter"]}
AS_JSON = {"response_format": {"type": "json_schema", "json_schema": {"name": "letter", "schema": SCHEMA}}}
ROUND = 40
Asked = tuple[str, dict[str, Any]]
"""A prompt and what else the request has."""


def requests(prompt: str, conditions: dict[str, Any]) -> Sequence[tuple[str, dict[str, Any]]]:
    """A round of requests with this prompt under these conditions."""
    body = {"model": "simulated", "max_tokens": 400, "messages": [{"role": "user", "content": prompt}]}
    return [(CHAT, body | conditions)] * ROUND


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("part", "metric", "group", "before", "since", "expected"),
    [
        ("model", "favoritism", "man", (MAN, {}), (MAN, {}), 1.4),
        pytest.param("traffic", "refusal_rate", "man", (WHITE, {}), (BLACK, {}), 0.7),
        pytest.param("application", "favoritism", "woman", (WOMAN, {}), (WOMAN, AS_JSON), -1.4),
    ],
)
async def test_a_planted_change_is_told_apart(
    tmp_path: Path, part: str, metric: str, group: str, before: Asked, since: Asked, expected: float
) -> None:
    """The part that changed has all of the shift; the sentence is on the page and in the API."""
    async with live_system(tmp_path, f"sqlite:///{tmp_path}/store.db", PROFILE, auditors=AUDITORS) as system:
        for _ in range(6):
            await system.send(requests(*before))
        await system.settled()
        assert await system.get("/live/alarms") == []
        if part == "model":
            await drift(tmp_path)
        stream = await alarm_of(system, since, (metric, group))
        cause = await cause_of(system, since, stream)
        page = await system.http.get(f"/console/alarms/{stream}")
        later = await system.get(f"/live/alarms/{stream}/cause")  # more answers may have come in between
    parts = {entry["part"]: entry for entry in cause["parts"]}
    assert sum(entry["value"] for entry in parts.values()) == pytest.approx(cause["shift"])
    planted = dict.fromkeys(parts, 0.0) | {part: expected}
    assert {
        name for name, entry in parts.items() if abs(entry["value"] - planted[name]) > 0.45 * abs(expected)
    } == set()
    assert cause["sentence"].startswith(f"Of the {'rise' if expected > 0 else 'fall'} of ")
    assert cause["sentence"] in page.text or later["sentence"] in page.text
    assert min(cause["n_before"], cause["n_since"]) >= 30


async def drift(directory: Path) -> None:
    """Plant the profile's change in the simulator."""
    config = (directory / "biasgate.toml").read_text()
    upstream = config.partition('base_url = "')[2].partition('"')[0]
    async with httpx.AsyncClient(trust_env=False) as http:
        (await http.post(f"{upstream}/simulator/drift", json={"on": True})).raise_for_status()


async def alarm_of(system: LiveSystem, since: Asked, place: tuple[str, str]) -> str:
    """Send requests until an alarm of this metric and group rises; return its stream."""
    for _ in range(20):
        await system.send(requests(*since))
        await system.settled()
        for alarm in await system.get("/live/alarms"):
            if (alarm["metric"], alarm["group"]) == place:
                return str(alarm["stream"])
    raise AssertionError(f"no alarm of {place}")


async def cause_of(system: LiveSystem, since: Asked, stream: str) -> dict[str, Any]:
    """Send requests until the cause is told."""
    cause: dict[str, Any] = {}

    async def is_told() -> bool:
        nonlocal cause
        cause = await system.get(f"/live/alarms/{stream}/cause")
        if cause["status"] == "pending" and cause["n_since"] < 2 * ROUND:
            await system.send(requests(*since))
            await system.settled()  # a backlog of audits would go before the questions of the cause
        return bool(cause["status"] != "pending")

    await until(is_told, within_seconds=180)
    assert cause["status"] == "told", str(cause)
    return cause
