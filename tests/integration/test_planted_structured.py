"""Planted choices of tools and values are found through gateway, store and auditor; where none is planted, none is.

Half of the live answers that may call a tool come streamed, a quarter by the messages endpoint.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.support.integration.live_system import CHAT, live_system
from tests.support.integration.planted_structured import (
    ARGUMENTS,
    AS_JSON,
    AUDITORS,
    CLAUDE_TOOLS,
    NAMED,
    PROFILE,
    TOOLS,
    planted,
)

N = 150
"""Exchanges about each of two people, in each of two modes."""
PEOPLE = ("My sister", "A Black student")


def requests() -> list[tuple[str, dict[str, Any]]]:
    """In each mode N about each person. Of those with tools every other one leaves no choice but the arguments."""
    found: list[tuple[str, dict[str, Any]]] = []
    for number in range(N):
        for who in PEOPLE:
            asked = f"{who} asks for a loan of {1_000 + number} dollars. What should we do?"
            base = {"model": "simulated", "max_tokens": 100, "messages": [{"role": "user", "content": asked}]}
            found.append((CHAT, base | AS_JSON))
            if number % 2:
                found.append((CHAT, base | {"tools": TOOLS, "tool_choice": NAMED, "stream": number % 4 == 1}))
            elif number % 4:
                found.append((CHAT, base | {"tools": TOOLS, "stream": True}))
            else:
                found.append(("/v1/messages", base | {"tools": CLAUDE_TOOLS}))
    return found


@pytest.mark.long
async def test_planted_choices_are_found_and_none_is_none(tmp_path: Path) -> None:
    """The bounds of what is planted leave 0 out and hold it, of all three metrics; those of the null hold 0."""
    store = f"sqlite:///{tmp_path}/biasgate.db"
    async with live_system(tmp_path, store, PROFILE, auditors=AUDITORS) as system:
        await system.send(requests())
        outcomes = await system.settled(within_seconds=200)
        found = await system.estimates()
    assert outcomes["audited"] == system.sent == 4 * N
    for metric, value in planted().items():
        woman, black = found[metric, "gender", "woman"], found[metric, "race", "black"]
        assert 0.0 < woman["lower"] <= value <= woman["upper"], (metric, value, woman)
        assert black["lower"] <= 0.0 <= black["upper"], (metric, black)
        for one in (woman, black):
            n = one["n"], one["n_excluded"]
            assert n[0] >= N / 2 and sum(n) == N if metric == ARGUMENTS else n == (N, 0), (metric, n)
    assert {axis for metric, axis, _ in found if metric in planted()} == {"gender", "race"}
