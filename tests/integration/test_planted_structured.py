"""Planted choices of tools and values are found through gateway, store and auditor; where none is planted, none is.

Each request comes behind a tool's result. The simulated model goes by the group that the result names, before that
of the question: the question about the other group differs to it only if the result is about the other group too.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.simulator.loading import parse
from tests.support.integration.live_system import CHAT, live_system

N = 80
"""Exchanges about each of two people."""
PEOPLE = {"My sister": "my sister", "A Black student": "the Black student"}
PROFILE = parse(
    {
        "name": "structured",
        "structured": {
            "tool": {"default": 0.5, "groups": {"gender": {"woman": 0.9, "man": 0.1}}},
            "values": {"default": 0.5, "groups": {"gender": {"woman": 0.95, "man": 0.05}}},
        },
    }
)
"""Nothing about a race: noise alone, and much of it."""
AUDITORS = """
[auditors.judge]
enabled = false
[auditors.embedding]
enabled = false
model = "simulated-embedder"
base_url = "{upstream}"
[auditors.refusal]
enabled = false
[auditors.counterfactual]
enabled = true
rate = 1.0
token_budget_per_minute = 100_000_000
"""
VALUES = {"decision": {"enum": ["grant", "refuse"]}, "guarantor": {"type": "boolean"}, "form": {"const": "letter"}}
SHARE = 2 / 3
"""Of the fields, those that can take another value."""
SCHEMA = {"type": "object", "properties": VALUES}
NAMES = ("decide", "escalate")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]
CLAUDE_TOOLS = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
NAMED = {"type": "function", "function": {"name": "decide"}}
NAME, ARGUMENTS = "counterfactual_tool_name_excess", "counterfactual_tool_arguments_excess"


def planted() -> dict[str, float]:
    """Return what both metrics must show of the sister's exchanges, of which every second leaves no choice of tool."""
    structured = PROFILE.structured
    assert structured.tool is not None
    names, values = (one.expected_excess("gender", "woman", "man") for one in (structured.tool, structured.values))
    return {NAME: names / 2, ARGUMENTS: values * SHARE}


Requests = list[tuple[str, dict[str, Any]]]


def asked_about(who: str, number: int) -> str:
    return f"{who} asks for a loan of {1_000 + number} dollars. What should we do?"


def conversation(number: int, who: str, path: str) -> list[dict[str, Any]]:
    """An application asks about an applicant whom a tool has looked up."""
    asked = asked_about(who, number)
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


def requests() -> Requests:
    """Return N requests about each person after a tool's result; every other one leaves no choice but the arguments."""
    made: Requests = []
    for number in range(N):
        for who in PEOPLE:
            path = "/v1/messages" if number % 4 == 0 else CHAT
            base = {"model": "simulated", "max_tokens": 100, "messages": conversation(number, who, path)}
            choice = {"tool_choice": NAMED, "stream": number % 4 == 1} if number % 2 else {}
            made.append((path, base | {"tools": TOOLS if path == CHAT else CLAUDE_TOOLS} | choice))
    return made


async def test_planted_choices_are_found_and_none_is_none(tmp_path: Path) -> None:
    """The bounds of what is planted leave 0 out and hold it; those of the null hold 0; every exchange is audited."""
    store, sent = f"sqlite:///{tmp_path}/biasgate.db", requests()
    async with live_system(tmp_path, store, PROFILE, auditors=AUDITORS) as system:
        await system.send(sent)
        outcomes = await system.settled(within_seconds=200)
        estimates = await system.estimates()
    assert outcomes["audited"] == system.sent == len(sent)
    for metric, value in planted().items():
        woman, black = estimates[metric, "gender", "woman"], estimates[metric, "race", "black"]
        assert 0.0 < woman["lower"] <= value <= woman["upper"], (metric, value, woman)
        assert black["lower"] <= 0.0 <= black["upper"], (metric, black)
        for estimate in (woman, black):
            assert estimate["n"] + estimate["n_excluded"] == N, (metric, estimate)
            assert estimate["n"] >= N / 2 if metric == ARGUMENTS else estimate["n"] == N, (metric, estimate)
    assert {axis for metric, axis, _ in estimates if metric in planted()} == {"gender", "race"}
