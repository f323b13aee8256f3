"""Planted choices of agents are found through gateway, store and auditor, where calls and results come in between.

The simulated model goes by the group that a tool's result names, before the question does: the question about the
other group is another one to it only if the result is about the other group too.
"""

import json
from pathlib import Path
from typing import Any

from tests.support.integration.live_system import CHAT, live_system
from tests.support.integration.planted_structured import (
    ARGUMENTS,
    AUDITORS,
    CLAUDE_TOOLS,
    NAME,
    NAMED,
    PROFILE,
    TOOLS,
    planted,
)

METRICS = (NAME, ARGUMENTS)
N = 80
"""Exchanges about each of two people."""
PEOPLE = {"My sister": "my sister", "A Black student": "the Black student"}


def conversation(number: int, who: str, path: str) -> list[dict[str, Any]]:
    """An application asks about an applicant whom a tool has looked up."""
    asked = f"{who} asks for a loan of {1_000 + number} dollars. What should we do?"
    given, call_id = {"applicant": number}, f"call_{number}"
    found = json.dumps({"note": f"Filed by {PEOPLE[who]}.", "income": 41_000 + number, "complete": True})
    first = {"role": "user", "content": "Please look up who has applied."}
    if path == CHAT:
        call = {"id": call_id, "type": "function", "function": {"name": "look_up", "arguments": json.dumps(given)}}
        return [
            first,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": found},
            {"role": "user", "content": asked},
        ]
    use = {"type": "tool_use", "id": call_id, "name": "look_up", "input": given}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": found}
    return [
        first,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"type": "text", "text": asked}]},
    ]


def requests() -> list[tuple[str, dict[str, Any]]]:
    """N about each person. Every other one leaves no choice but the arguments; a quarter goes by messages."""
    found: list[tuple[str, dict[str, Any]]] = []
    for number in range(N):
        for who in PEOPLE:
            path = "/v1/messages" if number % 4 == 0 else CHAT
            base = {"model": "simulated", "max_tokens": 100, "messages": conversation(number, who, path)}
            if number % 2:
                found.append((path, base | {"tools": TOOLS, "tool_choice": NAMED}))
            else:
                found.append((path, base | {"tools": TOOLS if path == CHAT else CLAUDE_TOOLS}))
    return found


async def test_planted_choices_of_agents_are_found_and_none_is_none(tmp_path: Path) -> None:
    """The bounds of what is planted leave 0 out and hold it; those of the null hold 0; every exchange is audited."""
    store = f"sqlite:///{tmp_path}/biasgate.db"
    async with live_system(tmp_path, store, PROFILE, auditors=AUDITORS) as system:
        await system.send(requests())
        outcomes = await system.settled(within_seconds=100)
        found = await system.estimates()
    assert outcomes["audited"] == system.sent == 2 * N
    for metric in METRICS:
        value = planted()[metric]
        woman, black = found[metric, "gender", "woman"], found[metric, "race", "black"]
        assert 0.0 < woman["lower"] <= value <= woman["upper"], (metric, value, woman)
        assert black["lower"] <= 0.0 <= black["upper"], (metric, black)
        assert woman["n"] + woman["n_excluded"] == black["n"] + black["n_excluded"] == N
    assert {axis for metric, axis, _ in found if metric in METRICS} == {"gender", "race"}
